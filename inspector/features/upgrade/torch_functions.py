"""Find the functions of torch that differ between two releases and that a model calls."""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

_LOCAL = ".<locals>."
_WORD = re.compile(r"\w+")


_Function = ast.FunctionDef | ast.AsyncFunctionDef


class TorchFunction(Struct, frozen=True):
    """A function of torch that has other code in the later release."""

    file: str
    """Below torch's folder."""
    name: str
    """Qualified, such as `GuardBuilder.TENSOR_MATCH`."""
    before: int
    """The line of its definition in the earlier release."""
    after: int
    words: frozenset[str] = frozenset()
    """The names and words of texts that only one of the two has."""
    other_words: frozenset[str] = frozenset()
    """Those that both have."""

    @property
    def module(self) -> str:
        """The module, such as `torch._dynamo.guards`."""
        parts = ("torch", *Path(self.file).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def called_functions(record: Path) -> Mapping[str, list[str]]:
    """Read which functions a process called, by file; none if it wrote no record."""
    found: dict[str, list[str]] = {}
    try:
        lines = record.read_text("utf-8").splitlines()
    except OSError:
        return found
    for line in lines:
        file, _, name = line.partition("\t")
        found.setdefault(file, []).append(name)
    return found


def differing_functions(
    before: Path, after: Path, called: Mapping[str, list[str]], folders: Iterable[str]
) -> Iterator[TorchFunction]:
    """Yield the called functions that differ.

    Args:
        before: Torch's folder of the earlier environment.
        after: That of the later one.
        called: The functions to look at; of a function in another one, the outer one.
        folders: With what the names of the files to look at start.
    """
    starts = tuple(folders)
    for file, names in sorted(called.items()):
        if not file.startswith(starts):
            continue
        try:
            sources = (before / file).read_bytes(), (after / file).read_bytes()
            trees = [ast.parse(each) for each in dict.fromkeys(sources)]
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        if len(trees) == 1:
            continue
        one, other = (dict(_defined(each, "")) for each in trees)
        bound = {*_bound(trees[1]), *dir(builtins)}
        for name in sorted({name.partition(_LOCAL)[0] for name in names} & one.keys() & other.keys()):
            old, new = (_without_annotations(each[name]) for each in (one, other))
            if _dumped(old) != _dumped(new) and _free(old) <= bound:
                words = _words(old), _words(new)
                yield TorchFunction(file, name, old.lineno, new.lineno, words[0] ^ words[1], words[0] & words[1])


def _free(node: ast.AST) -> set[str]:
    """Return the names that a function reads and does not bind: without one of them, its code cannot run."""
    read, bound = set[str](), set[str]()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str() as name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                bound.add(name)
            case _:
                pass
    return read - bound


def _defined(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Function]]:
    for each in ast.iter_child_nodes(node):
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{each.name}", each
            case ast.ClassDef():
                yield from _defined(each, f"{prefix}{each.name}.")
            case ast.If() | ast.Try() | ast.With():
                yield from _defined(each, prefix)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds at its top, also in branches."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                continue
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                pass
        todo += ast.iter_child_nodes(node)


def _without_annotations(node: _Function) -> _Function:
    node.returns = None
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            each.annotation = None
    return node


def _dumped(node: _Function) -> str:
    """Return the code of a function without its docstring and decorators: what a trial can put back."""
    is_text = ast.get_docstring(node, clean=False) is not None
    return ast.dump(ast.Module(node.body[is_text:], [])) + ast.dump(node.args)


def _words(node: ast.AST) -> frozenset[str]:
    """Return the names, attributes and words of texts in a piece of code."""
    found = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=text) | ast.Attribute(attr=text):
                found.add(text)
            case ast.Constant(value=str() as text):
                found.update(words_of(text))
            case _:
                pass
    return frozenset(found)


def words_of(text: str) -> set[str]:
    """Return the words of a text."""
    return set(_WORD.findall(text))
