"""Replace expressions by a part of them, and drop arguments and elements.

Make numbers and strings smaller: sizes, counts, names.
"""

import ast
from collections.abc import Callable, Iterator

from ctrace.inspector.features.fix.reduction.reduced_program import Edit, is_pinned, numbered, on, replacing


def simplify(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits on expressions, outer ones first."""
    pinned = {id(inner) for node in ast.walk(tree) if is_pinned(node) for inner in ast.walk(node)}
    for number, node in numbered(tree):
        if id(node) in pinned:
            continue
        for part in _parts(node):
            yield replacing(number, part)
        for field in ("args", "keywords", "elts", "values", "generators"):
            yield from _shorter(number, node, field)
        if isinstance(node, ast.Return) and node.value is not None:
            yield on(number, _nothing_returned)
        if isinstance(node, ast.Assign) and len(node.targets) > 1:
            for index in range(len(node.targets)):
                yield on(number, lambda each, index=index: _dropped(each, "targets", index))  # type: ignore[misc]


def _nothing_returned(node: ast.AST) -> bool:
    assert isinstance(node, ast.Return)
    node.value = None
    return True


Part = Callable[[ast.AST], ast.AST | None]


def _parts(node: ast.AST) -> Iterator[Part]:
    """Yield functions that choose a smaller expression in the place of a node."""
    match node:
        case ast.Call():
            yield from _of_call(node)
        case ast.BinOp():
            yield lambda each: each.left  # type: ignore[attr-defined]
            yield lambda each: each.right  # type: ignore[attr-defined]
        case ast.BoolOp(values=values):
            for index in range(len(values)):
                yield lambda each, index=index: each.values[index]  # type: ignore[misc]
        case ast.Compare(comparators=comparators):
            yield lambda each: each.left  # type: ignore[attr-defined]
            for index in range(len(comparators)):
                yield lambda each, index=index: each.comparators[index]  # type: ignore[misc]
        case ast.Attribute(ctx=ast.Load()) if not _is_module(node.value):
            yield lambda each: each.value  # type: ignore[attr-defined]
        case ast.Subscript(ctx=ast.Load()) | ast.Await() | ast.NamedExpr():
            yield lambda each: each.value  # type: ignore[attr-defined]
        case _:
            yield from _rare_parts(node)


def _of_call(node: ast.Call) -> Iterator[Part]:
    for index in range(len(node.args)):
        yield lambda each, index=index: _no_star(each.args[index])  # type: ignore[misc]
    if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
        yield lambda each: each.func.value  # type: ignore[attr-defined]
    for index in range(len(node.keywords)):
        yield lambda each, index=index: each.keywords[index].value  # type: ignore[misc]
    if node.args or node.keywords:
        yield lambda _each: ast.Constant(None)


def _rare_parts(node: ast.AST) -> Iterator[Part]:
    match node:
        case ast.UnaryOp():
            yield lambda each: each.operand  # type: ignore[attr-defined]
        case ast.IfExp():
            yield lambda each: each.body  # type: ignore[attr-defined]
            yield lambda each: each.orelse  # type: ignore[attr-defined]
        case ast.JoinedStr(values=values):
            for index, value in enumerate(values):
                if isinstance(value, ast.FormattedValue):
                    yield lambda each, index=index: each.values[index].value  # type: ignore[misc]
            yield lambda _each: ast.Constant("")
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            yield lambda each: each.generators[0].iter  # type: ignore[attr-defined]
        case ast.Tuple(elts=[_, *_], ctx=ast.Load()) | ast.List(elts=[_, *_], ctx=ast.Load()):
            for index in range(len(node.elts)):
                yield lambda each, index=index: _no_star(each.elts[index])  # type: ignore[misc]
        case ast.Lambda():
            yield lambda each: each.body  # type: ignore[attr-defined]


def _no_star(node: ast.expr) -> ast.expr | None:
    return None if isinstance(node, ast.Starred) else node


def _is_module(node: ast.expr) -> bool:
    """Whether an expression is a module of torch, by its name: `torch`, `nn`, `torch.nn`, `F`."""
    match node:
        case ast.Name(id="torch" | "nn" | "F" | "math" | "np"):
            return True
        case ast.Attribute(value=value, attr="nn" | "_dynamo" | "functional" | "compiler" | "utils" | "config"):
            return _is_module(value)
    return False


def _shorter(number: int, node: ast.AST, field: str) -> Iterator[Edit]:
    block = getattr(node, field, None)
    is_load = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    if not isinstance(block, list) or not block or not is_load or isinstance(node, ast.BoolOp | ast.JoinedStr):
        return
    if isinstance(node, ast.ClassDef | ast.arguments) or (field == "generators" and len(block) == 1):
        return
    if len(block) > 3 and field in ("keywords", "args", "elts"):
        half = len(block) // 2
        yield on(number, lambda each: _cut(each, field, slice(0, None)))
        yield on(number, lambda each: _cut(each, field, slice(half, None)))
        yield on(number, lambda each: _cut(each, field, slice(0, half)))
    for index in reversed(range(len(block))):
        yield on(number, lambda each, index=index: _dropped(each, field, index))  # type: ignore[misc]


def _cut(node: ast.AST, field: str, piece: slice) -> bool:
    del getattr(node, field)[piece]
    if isinstance(node, ast.Dict):
        del node.keys[piece]
    return True


def _dropped(node: ast.AST, field: str, index: int) -> bool:
    del getattr(node, field)[index]
    if isinstance(node, ast.Dict):
        del node.keys[index]
    return True


_SMALL = (2, 3, 4)
"""Sizes to try: 0 and 1 are special to torch, so 2 comes first."""


def shrink(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that make all equal numbers smaller together, then each alone."""
    values = sorted({each.value for each in ast.walk(tree) if _is_size(each)}, reverse=True)  # type: ignore[attr-defined]
    for value in values:
        for small in _smaller(value):
            yield _all_equal(value, small)
    for number, node in numbered(tree):
        if _is_size(node):
            for small in _smaller(node.value):  # type: ignore[attr-defined]
                yield on(number, lambda each, small=small: _set(each, small))  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 12:
            yield on(number, lambda each: _set(each, ""))


def _is_size(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 2


def _smaller(value: int) -> list[int]:
    return [small for small in (*_SMALL, value // 8, value // 2) if 2 <= small < value and len(str(small)) < 3]


def _set(node: ast.AST, value: object) -> bool:
    assert isinstance(node, ast.Constant)
    node.value = value  # type: ignore[assignment]
    return True


def _all_equal(value: int, small: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        found = [each for each in ast.walk(tree) if _is_size(each) and each.value == value]  # type: ignore[attr-defined]
        for each in found:
            _set(each, small)
        return bool(found)

    return edit
