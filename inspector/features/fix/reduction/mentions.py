"""Remove what mentions a name: an argument by keyword, an entry of a dict, or a whole statement."""

import ast
from collections.abc import Callable, Collection, Iterator

from ctrace.inspector.features.fix.reduction.reduced_program import Edit, blocks, is_pinned

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Delete)
HOOK = "hook"
"""A word that is a part of names: of `register_forward_hook` and its siblings."""

_Mention = tuple[ast.AST, Callable[[], None]]
"""A node that mentions a word, and what removes it."""


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
        for at, statement in enumerate(block):
            is_open = isinstance(statement, _SIMPLE) and not is_pinned(statement) and id(statement) not in inside
            if is_open and _mentions_word(statement, word):
                yield from list(_parts(statement, word)) or [(statement, _deleting(block, at))]


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
