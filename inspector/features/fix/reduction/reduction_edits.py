"""The edits that make a program smaller, one step each.

Replace expressions by a part of them, and drop arguments and elements; make numbers and strings smaller: sizes, counts,
names. Drop statements, definitions, imports and what mentions a name; strip what has no effect; replace blocks by what
is in them.
"""

import ast
from collections.abc import Callable, Collection, Iterator, Sequence

from ctrace.inspector.features.fix.reduction.reduced_program import (
    Edit,
    at,
    blocks,
    holds_fast,
    is_anchor,
    is_pinned,
    numbered,
    on,
    replacing,
)

BlockPath = int
"""A block's number among all blocks of a tree, outer ones first."""
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Delete)
HOOK = "hook"
"""A word that is a part of names: of `register_forward_hook` and its siblings."""

_Mention = tuple[ast.AST, Callable[[], None]]
"""A node that mentions a word, and what removes it."""


def simplify(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits on expressions, outer ones first."""
    pinned = {id(inner) for node in ast.walk(tree) if is_pinned(node) for inner in ast.walk(node)}
    for number, node in numbered(tree):
        if id(node) in pinned:
            continue
        for part in _parts_of(node):
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


def _parts_of(node: ast.AST) -> Iterator[Part]:
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
        # `torch` in the place of `torch.relu` shows nothing, and each try is a run.
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
    if node.args or node.keywords:  # last: only where no argument can stand for the call
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
    if isinstance(node, ast.Starred):
        return None
    return node


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
    # Names on the left of `a, b = f()` have to be as many as the values.
    if not isinstance(block, list) or not block or not is_load or isinstance(node, ast.BoolOp | ast.JoinedStr):
        return
    # Bases are dropped by `unwrap`, parameters together with their arguments by `inlining.drop`.
    if isinstance(node, ast.ClassDef | ast.arguments) or (field == "generators" and len(block) == 1):
        return
    # Long lists by halves first: of a hundred items, that takes seven tries in place of a hundred.
    if len(block) > 3 and field in ("keywords", "args", "elts"):
        half = len(block) // 2
        # All of them first: often nothing of a long literal matters.
        yield on(number, lambda each: _cut(each, field, slice(0, None)))
        yield on(number, lambda each: _cut(each, field, slice(half, None)))
        yield on(number, lambda each: _cut(each, field, slice(0, half)))
    # From the end, so that the positions of those before stay.
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
    # Sizes of a model have to fit each other, so equal ones are changed together, the largest first.
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


def block_paths(tree: ast.Module) -> list[BlockPath]:
    """Return the numbers of all blocks."""
    return list(range(sum(1 for _ in blocks(tree))))


def _block(tree: ast.Module, path: BlockPath) -> list[ast.stmt]:
    return next((block for number, block in enumerate(blocks(tree)) if number == path), [])


def droppable(tree: ast.Module, path: BlockPath) -> list[int]:
    """Return the positions of the statements in a block that may go."""
    found = [number for number, each in enumerate(_block(tree, path)) if not holds_fast(each)]
    if _is_pass(_block(tree, path)):
        return []
    return found


def _is_pass(block: list[ast.stmt]) -> bool:
    return len(block) == 1 and isinstance(block[0], ast.Pass)


def dropping(path: BlockPath, positions: Sequence[int]) -> Edit:
    """Return an edit that drops statements of a block."""

    def edit(tree: ast.Module) -> bool:
        block = _block(tree, path)
        block[:] = [each for number, each in enumerate(block) if number not in positions]
        return bool(positions)

    return edit


def strip(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that drop docstrings, annotations and the return types of functions."""
    for number, node in numbered(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if not is_anchor(node):
                yield on(number, _to_nothing)
            case ast.FunctionDef(returns=ast.expr()) | ast.AsyncFunctionDef(returns=ast.expr()):
                yield on(number, lambda each: _cleared(each, "returns"))
            case ast.arg(annotation=ast.expr()):
                yield on(number, lambda each: _cleared(each, "annotation"))
            case ast.AnnAssign(value=ast.expr()):
                yield _without_annotation(number)


def _to_nothing(node: ast.AST) -> bool:
    assert isinstance(node, ast.Expr)
    node.value = ast.Constant(...)  # a block must not become empty; `...` goes with the next edit, where it may
    return True


def _cleared(node: ast.AST, field: str) -> bool:
    setattr(node, field, None)
    return True


def _without_annotation(number: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.AnnAssign)
        assert node.value is not None
        new = ast.Assign([node.target], node.value)
        return _replace(tree, node, [new])

    return edit


def _replace(tree: ast.Module, node: ast.stmt, new: Sequence[ast.stmt]) -> bool:
    from ctrace.inspector.features.fix.reduction.reduced_program import move_anchor

    for block in blocks(tree):
        for index, each in enumerate(block):
            if each is node:
                block[index : index + 1] = new
                if new:
                    move_anchor(node, new[0])
                return True
    return False


def unwrap(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that replace a block statement by one of its blocks, and edits that drop decorators and bases."""
    for number, node in numbered(tree):
        if not is_pinned(node):
            yield from _of_statement(number, node)


def _of_statement(number: int, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.With | ast.If | ast.For | ast.While | ast.Try) and not is_anchor(node):
        for field in ("body", "orelse", "finalbody"):
            if getattr(node, field, None):
                yield _unwrapping(number, field)
    if isinstance(node, ast.Return | ast.Assign | ast.AugAssign) and node.value is not None:
        yield _to_expression(number)
    if isinstance(node, ast.If | ast.For | ast.While) and node.orelse:
        yield on(number, lambda each: _emptied(each, "orelse"))
    fields = []
    if isinstance(node, ast.stmt):
        fields = ["decorator_list", "bases", "keywords"]
    if isinstance(node, ast.With) and len(node.items) > 1:
        fields += ["items"]
    for field in fields:
        for index in range(len(getattr(node, field, ()))):
            yield on(number, lambda each, field=field, index=index: _without(each, field, index))  # type: ignore[misc]


def _to_expression(number: int) -> Edit:
    """Keep what a statement computes, and not what becomes of it."""

    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.Return | ast.Assign | ast.AugAssign)
        return node.value is not None and _replace(tree, node, [ast.Expr(node.value)])

    return edit


def _unwrapping(number: int, field: str) -> Edit:
    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.stmt)
        kept: list[ast.stmt] = getattr(node, field)
        # For booleans, `<=` is an implication: if the statement has to stay, what stays of it has to hold the reason.
        return (holds_fast(node) <= any(map(holds_fast, kept))) and _replace(tree, node, kept)

    return edit


def _emptied(node: ast.AST, field: str) -> bool:
    if any(map(holds_fast, getattr(node, field))):
        return False
    setattr(node, field, [])
    return True


def _without(node: ast.AST, field: str, index: int) -> bool:
    del getattr(node, field)[index]
    return True


def unused(tree: ast.Module) -> Iterator[Edit]:
    """Yield an edit that drops all unused definitions, then edits that drop one name of an import."""
    yield drop_unused
    for number, node in numbered(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and len(node.names) > 1:
            for index, alias in enumerate(node.names):
                if (alias.asname or alias.name.partition(".")[0]) not in _read(tree):
                    yield on(number, lambda each, index=index: _without_alias(each, index))  # type: ignore[misc]


def _without_alias(node: ast.AST, index: int) -> bool:
    assert isinstance(node, ast.Import | ast.ImportFrom)
    del node.names[index]
    return True


def _read(tree: ast.AST) -> set[str]:
    """Return all names that are read, as names, attributes or strings."""
    found = set()
    for each in ast.walk(tree):
        match each:
            # A method is only read as an attribute, and `getattr(self, "scale")` reads a text.
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()) | ast.Attribute(attr=name):
                found.add(name)
            case ast.Constant(value=str(name)) if name.isidentifier():
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found.update(names)
    return found


def drop_unused(tree: ast.Module) -> bool:
    """Drop every definition and import that nothing reads, in place; return whether there was one."""
    dropped = False
    # What only a dropped definition has read is unused then, too.
    while True:
        read = _read(tree)
        again = False
        for block in list(blocks(tree)):
            kept = [each for each in block if not _is_unused(each, read, is_top=block is tree.body)]
            if len(kept) < len(block):
                block[:] = kept
                again = dropped = True
        if not again:
            return dropped


def _is_unused(node: ast.stmt, read: set[str], *, is_top: bool) -> bool:
    if holds_fast(node):
        return False
    match node:
        case ast.Expr(value=ast.Constant()):
            return not is_anchor(node)
        # A decorator may register the function, which is then called without its name.
        case ast.FunctionDef(name=name, decorator_list=[]) | ast.ClassDef(name=name, decorator_list=[]) if is_top:
            return name not in read
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            bound = {alias.asname or alias.name.partition(".")[0] for alias in names}
            return not bound & read and "*" not in bound
        # A call may do something besides: whether it may go is for `_drop_statements` to try.
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_top:
            return name not in read and not any(isinstance(each, ast.Call) for each in ast.walk(value))
    return False


def without_one(tree: ast.Module, word: str) -> Iterator[Edit]:
    """Yield edits that remove one thing each that mentions the word."""
    for number, _ in enumerate(_mentions(tree, word)):
        yield lambda copied, number=number: _removed(list(_mentions(copied, word))[number : number + 1])  # type: ignore[misc]


def without_all(words: Collection[str], but: Collection[str]) -> Edit:
    """Return an edit that removes all outside of classes that mentions one of the words, and none of the others."""

    def edit(tree: ast.Module) -> bool:
        found = [
            mention
            for word in words
            for mention in _mentions(tree, word, classes=False)
            if not any(_mentions_word(mention[0], other) for other in but)
        ]
        return _removed(found)

    return edit


def _removed(mentions: list[_Mention]) -> bool:
    for _, remove in reversed(mentions):  # from the end, so that indices stay valid
        remove()
    return bool(mentions)


def _mentions(tree: ast.Module, word: str, *, classes: bool = True) -> Iterator[_Mention]:
    """Yield the smallest things that mention a word; a part of a statement rather than all of it."""
    of_classes = [each for each in tree.body if isinstance(each, ast.ClassDef) and not classes]
    inside = {id(one) for each in of_classes for one in ast.walk(each)}
    for block in blocks(tree):
        for position, statement in enumerate(block):
            is_open = isinstance(statement, _SIMPLE) and not is_pinned(statement) and id(statement) not in inside
            if is_open and _mentions_word(statement, word):
                yield from list(_parts(statement, word)) or [(statement, _deleting(block, position))]


def _parts(statement: ast.stmt, word: str) -> Iterator[_Mention]:
    """Yield the keywords of calls, and the entries of dicts, that have others beside them."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and len(node.keywords) > 1:
            for at, keyword in enumerate(node.keywords):
                if _mentions_word(keyword, word):
                    yield keyword, _deleting(node.keywords, at)
        if isinstance(node, ast.Dict) and len(node.keys) > 1:
            for at, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
                if key is not None and _mentions_word(ast.Tuple([key, value]), word):
                    yield ast.Tuple([key, value]), _deleting(node.keys, at, node.values)


def _deleting(
    items: list[ast.stmt] | list[ast.keyword] | list[ast.expr | None], at: int, *more: list[ast.expr]
) -> Callable[[], None]:
    def delete() -> None:
        for each in (items, *more):
            del each[at]

    return delete


def _mentions_word(node: ast.AST, word: str) -> bool:
    """Whether code has a word as a name or as a text; the name of a setter contains the name of what it sets."""
    is_part = [name for name in _names(node) if word == HOOK or name.startswith("set")]
    return word in _names(node) or any(word in name for name in is_part)


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.Name(id=str(name)) | ast.Attribute(attr=str(name)) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(name)):
                yield name
