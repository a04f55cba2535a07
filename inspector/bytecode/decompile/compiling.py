"""Source of a function to its code, in the surroundings that the function has."""

import ast
import warnings
from types import CodeType

from ctrace.inspector.bytecode.decompile.values import StopError

_FUTURE = 0x1FF0000
"""The flags of `from __future__` statements (CPython's code.h: CO_FUTURE_*)."""
_INNER, _OUTER = "_ctrace_function", "_ctrace_surroundings"


def compiled(text: str, free: tuple[str, ...], flags: int) -> CodeType:
    """Compile the text of one function whose variables `free` belong to a function around it."""
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    # Its own name is nobody's variable: inside, that name is a global.
    function.name = _INNER
    values: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None), lineno=1) for name in free]
    around = ast.parse(f"def {_OUTER}(): pass").body[0]
    assert isinstance(around, ast.FunctionDef)
    around.body = [*values, function]
    module = ast.fix_missing_locations(ast.Module([around], []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of code such as `3(x)`, which is the user's
        code = compile(module, "<reconstructed>", "exec", flags=flags & _FUTURE, dont_inherit=True)
    return _inside(_inside(code, _OUTER), _INNER)


def _inside(code: CodeType, name: str) -> CodeType:
    for each in code.co_consts:
        if isinstance(each, CodeType) and each.co_name == name:
            return each
    msg = "The text compiles to no function."
    raise StopError(msg)
