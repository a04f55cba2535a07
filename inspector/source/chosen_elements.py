"""Where code reduces elements that a mask or an index chooses, of which there may be none.

`x[m].max()` raises in eager where nothing is chosen. Compiled with a size that depends on data, it returns -infinity
(measured with 2.13, Inductor for a CPU); `amax`, `argmax`, `x[m][0]` and `topk` raise in both.

Reads Python without running it.
"""

import ast
from collections.abc import Iterator

from ctrace.inspector.source.attribute_writes import FUNCTIONS, last_name
from ctrace.inspector.source.text import nodes_of, parsed

_CHOOSING = frozenset(("masked_select", "nonzero", "argwhere", "unique", "unique_consecutive"))
_REDUCING = frozenset(("max", "min", "aminmax"))


def reduces_chosen(text: str, line: int) -> bool:
    """Whether a function takes the maximum or minimum of all that a line chooses, directly or by a name."""
    tree = parsed(text)
    functions = [each for each in nodes_of(tree) if isinstance(each, FUNCTIONS)]
    return any(
        _is_chosen(reduced, line, _names_of(function, line)) for function in functions for reduced in _reduced(function)
    )


def _reduced(function: ast.AST) -> Iterator[ast.expr]:
    """Yield what a function reduces to its maximum or minimum, over all dimensions."""
    for each in ast.walk(function):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[given], keywords=[]):
                found = given
            case ast.Call(func=ast.Attribute(value=found, attr=name), args=[], keywords=[]):
                pass
            case _:
                continue
        if name in _REDUCING:
            yield found


def _names_of(function: ast.AST, line: int) -> set[str]:
    """Return the names that hold what a line chooses, or something computed from it."""
    names: set[str] = set()
    size = -1
    while size != len(names):
        size = len(names)
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and _is_chosen(each.value, line, names):
                names |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return names


def _is_chosen(node: ast.expr, line: int, names: set[str]) -> bool:
    """Whether an expression has a name that holds what a line chooses, or chooses on that line."""
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) if name in names:
                return True
            case ast.Call(func=called) if each.lineno <= line <= (each.end_lineno or 0):
                if last_name(called) in _CHOOSING:
                    return True
            case ast.Subscript(slice=index) if each.lineno <= line <= (each.end_lineno or 0):
                if isinstance(index, ast.Name | ast.Compare | ast.UnaryOp | ast.BinOp | ast.Call | ast.Attribute):
                    return True
    return False
