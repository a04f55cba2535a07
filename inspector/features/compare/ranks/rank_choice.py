"""Find where a program asks which rank it is: a rank that it compares its own with may differ from all others."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

_ASKS = ("get_rank", "get_local_rank", "get_node_local_rank", "get_coordinate", "get_group_rank")
_VARIABLES = ("RANK", "LOCAL_RANK", "GROUP_RANK")
_MOST_NAMED = 32
_RANK = re.compile(r"(?:^|_)rank$")
_ARITHMETIC = ("int", "float", "str", "abs", "min", "max", "divmod")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class RankQuestions(Struct, frozen=True):
    """Where a program asks which rank it is, and the numbers that it compares the answer with."""

    places: tuple[tuple[str, int], ...] = ()
    """File and line."""
    named: tuple[int, ...] = ()


def rank_questions(files: Sequence[Path]) -> RankQuestions:
    """Read source files for questions about the rank."""
    places: list[tuple[str, int]] = []
    named: set[int] = set()
    for path in files:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue  # nothing of it runs, or it is no Python: then there is no question to find
        reading = _Reading(tree)
        places += [(str(path), line) for line in reading.lines]
        named |= reading.named
    return RankQuestions(tuple(places), tuple(sorted(named))[:_MOST_NAMED])


class _Reading:
    """Follows the rank through a file: assignments, and calls of the file's own functions and classes."""

    def __init__(self, tree: ast.AST) -> None:
        nodes = list(ast.walk(tree))
        self.lines = sorted({node.lineno for node in nodes if isinstance(node, ast.expr) and _asks(node)})
        self._names: set[str] = set()
        self._parameters = dict(_functions(nodes))
        while self._learn(nodes):
            pass
        self.named = {number for node in nodes for number in self._compared(node)}

    def _learn(self, nodes: list[ast.AST]) -> bool:
        """Learn the names that hold something made of the rank; return whether there are new ones."""
        before = len(self._names)
        for node in nodes:
            if isinstance(node, ast.Assign) and self._is_of_rank(node.value):
                targets = [name for target in node.targets for name in ast.walk(target)]
                self._names |= {found for name in targets if (found := _name(name))}
            if isinstance(node, ast.Call):
                names = self._parameters.get(_name(node.func), ())
                passed = [*zip(names, node.args, strict=False), *((each.arg, each.value) for each in node.keywords)]
                self._names |= {name for name, value in passed if name and self._is_of_rank(value)}
        return len(self._names) > before

    def _is_of_rank(self, node: ast.AST) -> bool:
        """Whether an expression is the rank, or is computed from it; what another function returns is neither."""
        if _asks(node) or _name(node) in self._names or _RANK.search(_name(node)):
            return True
        if isinstance(node, ast.Call):
            return _name(node.func) in _ARITHMETIC and any(map(self._is_of_rank, node.args))
        is_arithmetic = isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Tuple)
        return is_arithmetic and any(map(self._is_of_rank, ast.iter_child_nodes(node)))

    def _compared(self, node: ast.AST) -> Iterator[int]:
        """Yield the ranks around which the answer of an expression may change."""
        if isinstance(node, ast.Compare) and self._is_of_rank(node):
            is_order = any(isinstance(op, _ORDERS) for op in node.ops)
            for number in _numbers(node):
                yield from (number - 1, number, number + 1) if is_order else (number,)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.FloorDiv) and self._is_of_rank(node.left):
            for number in _numbers(node.right):
                yield from (number - 1, number)


def _functions(nodes: list[ast.AST]) -> Iterator[tuple[str, list[str]]]:
    """Yield the parameters of each function and class, by its name, without `self`."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            yield node.name, [each.arg for each in node.args.args]
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    yield node.name, [one.arg for one in each.args.args[1:]]


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _asks(node: ast.AST) -> bool:
    """Whether an expression is a question for the rank."""
    if isinstance(node, ast.Call):
        return _name(node.func) in _ASKS or any(_is_variable(each) for each in node.args)
    return isinstance(node, ast.Subscript) and _is_variable(node.slice)


def _is_variable(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in _VARIABLES


def _numbers(node: ast.AST) -> Iterator[int]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and type(each.value) is int:
            yield each.value
