"""Reconstruct a function's source from its bytecode; return it only if it compiles to the same steps.

The source is compiled with the function's closure variables, and the steps of both code objects are compared.

Terms
-----
- A *step* is something that code outside of the function can see: a load of a global, a call, an operation on a value
  that may have any type, a store into an object, a branch, leaving the function. Moves on the stack and stores into
  plain local variables are no steps.
- A *path* is one way through the code; a branch makes two of one.
- The *form* of a code object is the tree of its paths, with numbers in place of values (`canonical.py`). Equal forms
  mean equal behavior, up to the lifetime of values.
- A *placeholder* is a name in the source for a constant that has no literal, such as a function that Dynamo put among
  the constants.

Steps
-----
1. Refuse code that looks at frames (`locals()`, `eval`): the text of a function would be visible to it.
2. Execute the bytecode symbolically along every path (`symbolic_machine.py`), each opcode by its function in
   `operations.py`.
3. Write the steps as statements, and values inline where the order of steps allows it (`writer.py`). Nothing here needs
   to be proved: a mistake is found in step 5.
4. Compile the text, inside a function that has the closure variables.
5. Execute that code symbolically, too, and compare both forms. Only equal forms are shown; otherwise the answer is one
   sentence that says why there is no source.

Example
-------
`LOAD_FAST x; LOAD_CONST 2; BINARY_OP *; STORE_FAST y; LOAD_FAST y; RETURN_VALUE` has two steps: a product of the
argument and 2, and leaving the function with it. The writer makes `return x * 2`. Its bytecode has no `STORE_FAST`, and
the same two steps.
"""

import ast
import re
import sys
import warnings
from types import CodeType

from msgspec import Struct

from ctrace.inspector.facts.bytecode_facts import Code, Instruction
from ctrace.inspector.features.bytecode.canonical import docstring, form_of_code
from ctrace.inspector.features.bytecode.operations import const_of, is_writable, placeholder, traced
from ctrace.inspector.features.bytecode.symbolic_machine import Arg, Placeholders, StopError
from ctrace.inspector.features.bytecode.writer import Writer, identifier, reserved, uses
from ctrace.inspector.source.disassembly import disassembled

_VARARGS, _VARKEYWORDS = 0x04, 0x08
_LAMBDA = "<lambda>"


def definition(code: Code) -> ast.FunctionDef:
    """Write the definition of a function; a lambda becomes a function named `_lambda_`."""
    name = re.sub(r"\W", "_", code.name)
    body = _body(code, None)
    return ast.FunctionDef(identifier(name), _parameters(code, [], {}), _declared(code) + body, [], lineno=0)


def _body(code: Code, placeholders: Placeholders = frozenset()) -> list[ast.stmt]:
    steps = traced(code, placeholders)
    writer = Writer(steps, uses(steps.block), reserved(code), _inner)
    writer.holds = {name: Arg(name) for name in _names(code)}
    return writer.write(steps.block)


def _inner(code: Code, defaults: list[ast.expr], named: dict[str, ast.expr]) -> ast.expr | ast.stmt:
    body, parameters = _body(code), _parameters(code, defaults, named)
    if code.name == _LAMBDA:
        match body:
            case [ast.Return(value=ast.expr() as value)]:
                return ast.Lambda(parameters, value)
        raise StopError("A lambda needs more than one expression.")
    text = docstring(code)
    first: list[ast.stmt] = []
    if text is not None:
        first = [ast.Expr(ast.Constant(ast.literal_eval(text)))]
    return ast.FunctionDef(identifier(code.name), parameters, first + _declared(code) + body, [], lineno=0)


def _names(code: Code) -> list[str]:
    count = code.arguments + code.keyword_only
    return list(code.variables[: count + bool(code.flags & _VARARGS) + bool(code.flags & _VARKEYWORDS)])


def _parameters(code: Code, defaults: list[ast.expr], named: dict[str, ast.expr]) -> ast.arguments:
    names = [ast.arg(identifier(name)) for name in _names(code)]
    plain, rest = names[: code.arguments], names[code.arguments :]
    keywords, rest = rest[: code.keyword_only], rest[code.keyword_only :]
    rest_of_arguments = None
    if code.flags & _VARARGS:
        rest_of_arguments = rest.pop(0)
    rest_of_keywords = None
    if code.flags & _VARKEYWORDS:
        rest_of_keywords = rest.pop(0)
    return ast.arguments(
        posonlyargs=plain[: code.positional_only],
        args=plain[code.positional_only :],
        vararg=rest_of_arguments,
        kwonlyargs=keywords,
        kw_defaults=[named.get(each.arg) for each in keywords],
        kwarg=rest_of_keywords,
        defaults=defaults,
    )


def _declared(code: Code) -> list[ast.stmt]:
    """Write the `nonlocal` and `global` declarations for the outer variables that the function assigns or deletes."""
    changed = [each for each in code.instructions if each.opname.startswith(("STORE_", "DELETE_"))]
    slots = [*code.variables, *(name for name in code.cells if name not in code.variables), *code.free]
    outer = {slots[each.arg or 0] for each in changed if each.opname.endswith("_DEREF")} & set(code.free)
    shared = {code.names[each.arg or 0] for each in changed if each.opname.endswith("_GLOBAL")}
    made: list[ast.stmt] = []
    if outer:
        made = [ast.Nonlocal(sorted(map(identifier, outer)))]
    if shared:
        made.append(ast.Global(sorted(map(identifier, shared))))
    return made


_FUTURE = 0x1FF0000
"""The flags of `from __future__` statements (CPython's code.h: CO_FUTURE_*)."""
_INNER, _OUTER = "_ctrace_function", "_ctrace_surroundings"


def compiled(text: str, free: tuple[str, ...], flags: int) -> CodeType:
    """Compile the text of one function whose variables `free` belong to an enclosing function."""
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    # Rename the function, so that its own name still refers to a global inside it.
    function.name = _INNER
    # Only what the enclosing function assigns becomes a closure variable.
    values: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None), lineno=1) for name in free]
    around = ast.parse(f"def {_OUTER}(): pass").body[0]
    assert isinstance(around, ast.FunctionDef)
    around.body = [*values, function]
    module = ast.fix_missing_locations(ast.Module([around], []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # for user code such as `3(x)`
        # With the function's `__future__` statements, and without those of this file.
        code = compile(module, "<reconstructed>", "exec", flags=flags & _FUTURE, dont_inherit=True)
    return _inside(_inside(code, _OUTER), _INNER)


def _inside(code: CodeType, name: str) -> CodeType:
    for each in code.co_consts:
        if isinstance(each, CodeType) and each.co_name == name:
            return each
    msg = "The text does not compile to a function."
    raise StopError(msg)


_RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
_CHECKED = (
    "Recompiled, and both versions executed symbolically: the same loads, stores, calls, branches and handlers in the "
    "same order on every path. The lifetime of values is not compared."
)
_LOOK_AT_FRAMES = ("locals", "vars", "dir", "eval", "exec")
_GIVE_FRAMES = ("locals", "_getframe", "currentframe")


class FunctionSource(Struct, frozen=True):
    """The source of one function, without its enclosing function."""

    text: str
    how_checked: str
    free: tuple[str, ...] = ()
    """The variables of the enclosing function that it uses."""
    constants: tuple[tuple[str, int], ...] = ()
    """The names that stand for constants that cannot be written as source, with the constants' numbers."""


class NotReconstructed(Struct, frozen=True):
    """No source; `why` is one plain sentence."""

    why: str


def reconstruct(code: Code) -> FunctionSource | NotReconstructed:
    """Return the source of a function, or why it could not be verified."""
    # `compile` writes instructions of the running Python only.
    if code.python != _RUNNING:
        return NotReconstructed(f"It was recorded on Python {code.python}; reconstructing needs the same version.")
    try:
        return _proven(code)
    except StopError as error:
        return NotReconstructed(str(error))
    except (RecursionError, MemoryError):
        return NotReconstructed("It is too deeply nested.")
    except (SyntaxError, ValueError):
        return NotReconstructed("The reconstructed text does not compile.")


def _proven(code: Code) -> FunctionSource:
    for each in _all(code):
        _check_frames(each)
    expected = form_of_code(code, None)
    text = ast.unparse(ast.fix_missing_locations(ast.Module([definition(code)], [])))
    names = _placeholders(code)
    recompiled = disassembled(compiled(text, (*code.free, *names), code.flags))
    _check_super_call(code, recompiled)
    # The recompiled code has free variables where the original has constants: both forms call them by name.
    if form_of_code(recompiled, frozenset(names)) != expected:
        raise StopError("The reconstructed source compiles to code with different steps.")
    # A constant that no step takes does not appear in the text.
    used = {name: number for name, number in names.items() if name in recompiled.free}
    return FunctionSource(_comments(code, used) + text, _CHECKED, code.free, tuple(used.items()))


def _placeholders(code: Code) -> dict[str, int]:
    """Choose names for the constants that cannot be written as source."""
    unwritable = [at for at, each in enumerate(code.constants) if not is_writable(const_of(each))]
    names = {placeholder(number): number for number in unwritable}
    if names.keys() & {*reserved(code), *code.variables}:
        raise StopError("It has a variable named like a placeholder for a constant.")
    return names


def _comments(code: Code, constants: dict[str, int]) -> str:
    lines = [f"# {name} is the constant {_harmless(code.constants[number].text)}" for name, number in constants.items()]
    if code.free:
        lines.append(f"# from the enclosing function: {', '.join(map(identifier, code.free))}")
    return "".join(f"{line}\n" for line in lines)


def _harmless(text: str) -> str:
    """Return a text from the log in a form that fits on one comment line."""
    return "".join(each if each.isprintable() else "?" for each in text)[:60]


def _all(code: Code) -> list[Code]:
    """Return a code object and all code objects nested in it."""
    return [code, *(inner for each in code.constants if each.code is not None for inner in _all(each.code))]


def _changes_first(step: Instruction) -> bool:
    """Return whether an instruction may assign or delete the first variable."""
    slots: tuple[int | None, ...] = (step.arg,)
    if step.opname.count("FAST") == 2:  # such as STORE_FAST_STORE_FAST: two numbers in one argument
        slots = ((step.arg or 0) >> 4, (step.arg or 0) & 15)
    return step.opname.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF")) and 0 in slots


def _check_frames(code: Code) -> None:
    """Reject code that reads its frame's variables, since reconstructed variables can have other names."""
    before = None
    for each in code.instructions:
        name = each.text.removeprefix("NULL + ").removesuffix(" + NULL")
        # As `dis` writes the name, without the NULL beside it.
        if each.opname == "LOAD_GLOBAL" and name in _LOOK_AT_FRAMES:
            raise StopError(f"It calls {name}, which can see the function's own variables.")
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD") and name.split(" ")[0] in _GIVE_FRAMES:
            raise StopError(f"It reads {name}, which can see the function's own variables.")
        if each.opname == "BINARY_SUBSCR" and before is not None and before.text.strip("'") in _LOOK_AT_FRAMES:
            raise StopError(f"It takes {before.text}, which can see the function's own variables.")
        before = each


def _check_super_call(code: Code, recompiled: Code) -> None:
    """Check what `super()` without arguments reads: the first argument and the variable `__class__`."""
    for each in (*_all(code), *_all(recompiled)):
        if "super" in each.names and any(map(_changes_first, each.instructions)):
            raise StopError("It calls super and changes its first argument.")
    if "super" in code.names and ("__class__" in code.free) != ("__class__" in recompiled.free):
        raise StopError("It calls super, but only one of the two versions has the variable __class__.")
