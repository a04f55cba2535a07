"""The source of a function from its bytecode, shown only if compiling it gives a function that takes the same steps."""

import ast
import sys
from dataclasses import dataclass

from ctrace.inspector.bytecode.decompile.canonical import form_of_code
from ctrace.inspector.bytecode.decompile.compiling import compiled
from ctrace.inspector.bytecode.decompile.function import definition
from ctrace.inspector.bytecode.decompile.literals import const_of, is_writable
from ctrace.inspector.bytecode.decompile.names import identifier, reserved
from ctrace.inspector.bytecode.decompile.ops_stack import placeholder
from ctrace.inspector.bytecode.decompile.values import StopError
from ctrace.inspector.bytecode.disassembly import disassembled
from ctrace.inspector.model.bytecode import Code, Instruction

_RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
_CHECKED = (
    "Compiled again, and both executed step by step on symbols: the same loads, stores, calls, branches and handlers "
    "in the same order on every path. How long values are kept alive is not compared."
)
_LOOK_AT_FRAMES = ("locals", "vars", "dir", "eval", "exec")
_GIVE_FRAMES = ("locals", "_getframe", "currentframe")


@dataclass(frozen=True, slots=True)
class Source:
    """The source of one function, without the function around it."""

    text: str
    how_checked: str
    free: tuple[str, ...] = ()
    """The variables that it takes from the function around it."""
    constants: tuple[tuple[str, int], ...] = ()
    """The names that stand for constants which source cannot write, and their numbers among the code's constants."""


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
    except (SyntaxError, ValueError):
        return Refused("Its parts do not make a text that compiles.")


def _proven(code: Code) -> Source:
    for each in _all(code):
        _check_frames(each)
    wanted = form_of_code(code, None)
    text = ast.unparse(ast.fix_missing_locations(ast.Module([definition(code)], [])))
    names = _placeholders(code)
    again = disassembled(compiled(text, (*code.free, *names), code.flags))
    _check_super(code, again)
    if form_of_code(again, frozenset(names)) != wanted:
        raise StopError("The text that was found does not take the same steps when it is compiled.")
    used = {name: number for name, number in names.items() if name in again.free}
    return Source(_comments(code, used) + text, _CHECKED, code.free, tuple(used.items()))


def _placeholders(code: Code) -> dict[str, int]:
    """Name the constants that source cannot write."""
    unwritable = [at for at, each in enumerate(code.constants) if not is_writable(const_of(each))]
    names = {placeholder(number): number for number in unwritable}
    if names.keys() & {*reserved(code), *code.variables}:
        raise StopError("It has variables with the names that stand for constants here.")
    return names


def _comments(code: Code, constants: dict[str, int]) -> str:
    lines = [f"# {name} is the constant {_harmless(code.constants[number].text)}" for name, number in constants.items()]
    if code.free:
        lines.append(f"# from the function around it: {', '.join(map(identifier, code.free))}")
    return "".join(f"{line}\n" for line in lines)


def _harmless(text: str) -> str:
    """Keep a text of the log on its line of comment."""
    return "".join(each if each.isprintable() else "?" for each in text)[:60]


def _all(code: Code) -> list[Code]:
    """Give a code and all codes inside it."""
    return [code, *(inner for each in code.constants if each.code is not None for inner in _all(each.code))]


def _changes_first(step: Instruction) -> bool:
    """Say whether a step may assign or delete the first variable."""
    slots = ((step.arg or 0) >> 4, (step.arg or 0) & 15) if step.opname.count("FAST") == 2 else (step.arg,)
    return step.opname.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF")) and 0 in slots


def _check_frames(code: Code) -> None:
    """Refuse what reads the variables of its own frame: those have other names in the text."""
    before = None
    for each in code.instructions:
        name = each.text.removeprefix("NULL + ").removesuffix(" + NULL")
        if each.opname == "LOAD_GLOBAL" and name in _LOOK_AT_FRAMES:
            raise StopError(f"It calls {name}, which can see the function's own variables.")
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD") and name.split(" ")[0] in _GIVE_FRAMES:
            raise StopError(f"It reads {name}, which can see the function's own variables.")
        if each.opname == "BINARY_SUBSCR" and before is not None and before.text.strip("'") in _LOOK_AT_FRAMES:
            raise StopError(f"It takes {before.text}, which can see the function's own variables.")
        before = each


def _check_super(code: Code, again: Code) -> None:
    """Hold what `super()` without arguments reads: the first argument, and the variable `__class__`."""
    for each in (*_all(code), *_all(again)):
        if "super" in each.names and any(map(_changes_first, each.instructions)):
            raise StopError("It calls super and changes its first argument.")
    if "super" in code.names and ("__class__" in code.free) != ("__class__" in again.free):
        raise StopError("It calls super without the class around it.")
