"""What changed statements combine with tensors that the code makes on the CPU, wherever the model is.

`pos = torch.arange(n)` is on the CPU also where the model is on a GPU. A number goes there, and a branch may do without
it, but a tensor of the GPU cannot be combined with it. No call of a proof on a machine without a GPU can show this, so
the file is read, and the author is asked.

Reads Python without running it.
"""

import ast
from collections.abc import Collection, Iterator, Mapping

from ctrace.inspector.source.attribute_writes import FUNCTIONS, keyword_of, last_name
from ctrace.inspector.source.text import parsed, replaced_lines

_OF_SIZES = frozenset(("arange", "linspace", "logspace", "zeros", "ones", "empty", "full", "eye", "rand", "randn"))
_OF_VALUES = frozenset(("tensor", "as_tensor", "from_numpy", "FloatTensor", "LongTensor", "Tensor"))
_RANGES = frozenset(("arange", "linspace", "logspace", "eye"))
"""Functions whose first argument is a number of elements, never of dimensions."""
_MOVING = frozenset(("to", "cuda", "type_as", "new_tensor", "item", "tolist"))
"""Methods whose result is elsewhere, or no tensor."""
_DEEPEST = 6
"""Names that are followed back to what they hold; a chain of more is no code that anybody writes."""


def made_on_cpu(before: str, after: str) -> tuple[str, ...]:
    """Return a question for each tensor of the CPU that changed statements combine with other values."""
    new = parsed(after)
    lines = replaced_lines(after, before)
    if new is None or not lines:
        return ()
    asked: dict[str, None] = {}
    for function in ast.walk(new):
        if not isinstance(function, FUNCTIONS):
            continue
        values: dict[str, list[ast.expr]] = {}
        for name, value in _assigned(function):
            values.setdefault(name, []).append(value)
        for statement in ast.walk(function):
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.Expr) and statement.lineno in lines:
                for text in _combined(statement, values, lines):
                    asked[
                        f"Is this only run on the CPU? `{text}` is made there, wherever the model is, and a tensor of "
                        "another device cannot be combined with it."
                    ] = None
    return tuple(asked)


def _assigned(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for each in ast.walk(function):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _combined(statement: ast.stmt, values: Mapping[str, list[ast.expr]], lines: Collection[int]) -> Iterator[str]:
    """Yield what a statement combines, as text, that is on the CPU, if there is something else in it."""
    read = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    made = {name for name in read if any(_is_made(value, values, 0) for value in values.get(name, ()))}
    inline = [each for each in ast.walk(statement) if isinstance(each, ast.Call) and _is_factory(each)]
    if len(read - made - {"torch"}) + bool(made) + len(inline) < 2:
        return
    yield from sorted(made)
    is_new = isinstance(statement, ast.Assign | ast.Return) and not _is_factory(statement.value)
    yield from (ast.unparse(each) for each in inline if is_new and each.lineno in lines)


def _is_made(value: ast.expr, values: Mapping[str, list[ast.expr]], depth: int) -> bool:
    """Whether an expression is a tensor with dimensions that is made on the CPU."""
    if depth > _DEEPEST:
        return False
    match value:
        case ast.Name(id=name):
            return any(_is_made(each, values, depth + 1) for each in values.get(name, ()))
        case ast.BinOp(left=left, right=right):
            return _is_made(left, values, depth + 1) or _is_made(right, values, depth + 1)
        case ast.UnaryOp(operand=operand) | ast.Subscript(value=operand):
            return _is_made(operand, values, depth + 1)
        case ast.Call() if _is_factory(value):
            return True
        case ast.Call(func=ast.Attribute(value=held, attr=method)) if method not in _MOVING:
            return _is_made(held, values, depth + 1)
    return False


def _is_factory(call: ast.expr | None) -> bool:
    """Whether a call makes a tensor with dimensions, of no device that is named."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    name = last_name(call.func)
    if not isinstance(call.func.value, ast.Name) or call.func.value.id != "torch" or keyword_of(call, "device"):
        return False
    first = call.args[0] if call.args else None
    if name in _RANGES:
        return True
    if name in _OF_SIZES:
        is_scalar = isinstance(first, ast.Tuple | ast.List) and not first.elts
        return first is not None and not is_scalar
    return name in _OF_VALUES and isinstance(first, ast.List | ast.Tuple | ast.ListComp)
