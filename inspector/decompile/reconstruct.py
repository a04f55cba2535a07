"""The source of a function from its bytecode, shown only if compiling it gives a function that takes the same steps."""

import ast
import sys
from dataclasses import dataclass

from ctrace.inspector.bytecode import Code
from ctrace.inspector.decompile.canonical import form_of_code
from ctrace.inspector.decompile.compiling import compiled
from ctrace.inspector.decompile.function import definition
from ctrace.inspector.decompile.values import StopError
from ctrace.inspector.disassembly import disassembled

_RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
_CHECKED = (
    "Compiled again, and both executed step by step on symbols: the same loads, stores, calls, branches and handlers "
    "in the same order on every path. How long values are kept alive is not compared."
)
_LOOK_AT_FRAMES = ("locals", "vars", "dir", "eval", "exec")


@dataclass(frozen=True, slots=True)
class Source:
    """The source of one function, without the function around it: `free` names the variables that it takes from there."""

    text: str
    how_checked: str
    free: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """No source; `why` is one plain sentence."""

    why: str


def reconstruct(code: Code) -> Source | Refused:
    """Give the source of a function, or say what kept it from being proven."""
    if code.python != _RUNNING:
        return Refused(f"It was recorded on Python {code.python}; reconstructing needs the same version.")
    try:
        return _proven(code)
    except StopError as error:
        return Refused(str(error))
    except (RecursionError, MemoryError):
        return Refused("It is too deeply nested.")
    except (SyntaxError, ValueError) as error:
        return Refused(f"Its parts do not make a text that compiles ({error}).")


def nested(code: Code) -> dict[str, Source | Refused]:
    """Give the source of each function among the constants, by qualified name."""
    inside = [each.code for each in code.constants if each.code is not None]
    return {each.qualname: reconstruct(each) for each in inside}


def _proven(code: Code) -> Source:
    _check_frames(code)
    wanted = form_of_code(code)
    text = ast.unparse(ast.fix_missing_locations(ast.Module([definition(code)], [])))
    again = disassembled(compiled(text, code.free, code.flags))
    _check_super(code, again)
    if form_of_code(again) != wanted:
        raise StopError("The text that was found does not take the same steps when it is compiled.")
    return Source(text, _CHECKED, code.free)


def _check_frames(code: Code) -> None:
    """Refuse what reads the variables of its own frame: those have other names in the text."""
    known = {*code.names, *(each.text.strip("'") for each in code.constants if each.type == "str")}
    for name in _LOOK_AT_FRAMES:
        if name in known:
            raise StopError(f"It names {name}, which can see the function's own variables.")


def _check_super(code: Code, again: Code) -> None:
    """Hold what `super()` without arguments reads: the first argument, and the variable `__class__`."""
    if "super" not in code.names:
        return
    changed = ("STORE_FAST", "DELETE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST")
    for each in (code, again):
        if any(step.opname in changed and (step.arg or 0) & 15 == 0 for step in each.instructions):
            raise StopError("It calls super and changes its first argument.")
    if ("__class__" in code.free) != ("__class__" in again.free):
        raise StopError("It calls super without the class around it.")
