"""Choose the ranks of a virtual job that have to be captured: those that may differ from all others.

Two ranks are taken for alike if they have the same position in each dimension of each mesh: first, in the middle, or
last; the same size of every shard that does not divide; the same stage of a pipeline; and if the program compares its
rank with neither. What is taken for alike is checked by a sample.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.facts.cluster_facts import ClusterFacts, MeshMade
from ctrace.inspector.runs.virtual_world import RANKS_PER_NODE, MeshDim

_ASKS = ("get_rank", "get_local_rank", "get_node_local_rank", "get_coordinate", "get_group_rank")
_VARIABLES = ("RANK", "LOCAL_RANK", "GROUP_RANK")
_STAGE = re.compile(r"pp|pipe|stage", re.IGNORECASE)
_MOST_STAGES = 64
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


class RankClasses:
    """Says which ranks are taken for alike."""

    def __init__(
        self, world: int, cluster: ClusterFacts, mesh: tuple[MeshDim, ...] = (), named: Sequence[int] = ()
    ) -> None:
        self._world = world
        self._named = frozenset(named)
        self._uneven = cluster.uneven
        made = cluster.meshes
        if mesh or not made:
            sizes = mesh or (MeshDim("world", world),)
            made = (_regular(sizes, world),)
        self._meshes = tuple(dict.fromkeys((each.shape, each.names, each.ranks) for each in made))
        self._places = [{rank: index for index, rank in enumerate(ranks)} for _, _, ranks in self._meshes]
        self._by_class: dict[object, int] = {}
        for rank in range(world):
            self._by_class.setdefault(self._class_of(rank), rank)

    @property
    def distinct(self) -> tuple[int, ...]:
        """One rank of each class, the lowest."""
        return tuple(sorted(self._by_class.values()))

    def representative(self, rank: int) -> int:
        """Return the rank that stands for another one."""
        return self._by_class[self._class_of(rank)]

    def stage_of(self, rank: int) -> tuple[int, ...]:
        """Return the stages of pipelines that a rank is in: ranks of different stages compile different code."""
        return tuple(
            at
            for (shape, names, _), places in zip(self._meshes, self._places, strict=True)
            for at, _, name in _coordinates(places.get(rank), shape, names)
            if _STAGE.match(name)
        )

    def numbers_of(self, rank: int) -> frozenset[str]:
        """Return the numbers that say where a rank is: itself, on its node, and in each dimension of each mesh."""
        found = {rank, rank % min(RANKS_PER_NODE, self._world)}
        for (shape, names, _), places in zip(self._meshes, self._places, strict=True):
            found |= {at for at, _, _ in _coordinates(places.get(rank), shape, names)}
        return frozenset(map(str, found))

    def _class_of(self, rank: int) -> object:
        if rank in self._named:
            return rank
        return tuple(
            self._positions(places.get(rank), shape, names)
            for (shape, names, _), places in zip(self._meshes, self._places, strict=True)
        )

    def _positions(self, place: int | None, shape: tuple[int, ...], names: tuple[str, ...]) -> object:
        if place is None:
            return None
        return tuple(
            (self._position(at, size, name), self._shards(at, size))
            for at, size, name in _coordinates(place, shape, names)
        )

    def _position(self, at: int, size: int, name: str) -> object:
        if _STAGE.match(name) and size <= _MOST_STAGES:
            return at
        if at in (0, size - 1):
            return "last" if at else "first"
        return "middle"

    def _shards(self, at: int, parts: int) -> tuple[int, ...]:
        """Return the sizes of this position's shards of dimensions that do not divide, as `torch.chunk` makes them."""
        sizes = []
        for each in self._uneven:
            if each.parts == parts:
                chunk = -(-each.size // parts)
                sizes.append(max(0, min(chunk, each.size - at * chunk)))
        return tuple(sizes)


def _coordinates(place: int | None, shape: tuple[int, ...], names: tuple[str, ...]) -> list[tuple[int, int, str]]:
    """Return position, size and name of each dimension for a flat place in a mesh."""
    found = []
    for index in range(len(shape) - 1, -1, -1):
        place, at = divmod(place or 0, shape[index])
        found.append((at, shape[index], names[index] if index < len(names) else ""))
    return found[::-1]


def _regular(sizes: Sequence[MeshDim], world: int) -> MeshMade:
    return MeshMade(
        tuple(each.size for each in sizes), tuple(each.name for each in sizes), (), tuple(range(world)), (), "", 0
    )
