"""A file as a tree that keeps comments and formatting, with queries for repairs.

A name means one thing in a whole file, or is not known: an edit may write it at any place. So `imports` has no name
that some scope binds in another way, such as a parameter `torch` of another function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Protocol, TypeVar, cast

import libcst as cst
from libcst import metadata

_Node = TypeVar("_Node", bound=cst.CSTNode)
_KEPT = 8
"""Parsed files that are kept: a proof goes back and forth between a few."""
_REMEMBERED = 1 << 18


class ParsedFile:
    """A parsed file. Nodes are compared by identity; none occurs twice."""

    def __init__(self, source: str) -> None:
        self.mark = "\ufeff" if source.startswith("\ufeff") else ""
        """The byte order mark of the file, which LibCST drops."""
        # The parser makes each node once, so the copy that would separate equal ones is left out.
        self._wrapper = metadata.MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self.module: cst.Module = self._wrapper.module
        # As ParentNodeProvider has them, which asks each node for its children once more.
        self._parents = {below: one for one in walk(self.module) for below in _children(one)}
        self._ranges = cast(
            "Mapping[cst.CSTNode, metadata.CodeRange]", self._wrapper.resolve(metadata.PositionProvider)
        )

    @cached_property
    def scopes(self) -> Mapping[cst.CSTNode, metadata.Scope]:
        """The scope of each node, computed on first need: it takes about as long as parsing."""
        found = self._wrapper.resolve(metadata.ScopeProvider)
        return cast("Mapping[cst.CSTNode, metadata.Scope]", found)

    @cached_property
    def bindings(self) -> list[metadata.Assignment]:
        """Everything that binds a name, in any scope, in the order of the file."""
        every = (one for scope in set(self.scopes.values()) for one in scope.assignments)
        # An annotation that is a string is parsed, too, but its nodes are none of the file.
        found = [one for one in cast("Iterator[metadata.Assignment]", every) if one.node in self._ranges]
        return sorted(found, key=lambda one: self.start(one.node))

    @cached_property
    def imports(self) -> dict[str, str]:
        """What the imports of the file bind, as dotted names; without names that are also bound in another way."""
        return {name: whole for name, whole in self._imported(self.bindings) if name not in self.bound_otherwise}

    @cached_property
    def module_imports(self) -> dict[str, str]:
        """What the imports at module level bind, those in `try` and `if` left out."""
        lines = {small for line in self.module.body if isinstance(line, cst.SimpleStatementLine) for small in line.body}
        return dict(self._imported(one for one in self.bindings if one.node in lines))

    @cached_property
    def bound_otherwise(self) -> set[str]:
        """The names that the file binds other than by import, in any scope."""
        return {one.name for one in self.bindings if not isinstance(one, metadata.ImportAssignment)}

    def _imported(self, bindings: Iterable[metadata.Assignment]) -> Iterator[tuple[str, str]]:
        """Yield the names that imports bind, and what they are, without those of relative imports."""
        for one in bindings:
            is_whole = "." not in one.name  # `import a.b` binds `a`; the scope has `a.b`, too
            if isinstance(one, metadata.ImportAssignment) and is_whole and not getattr(one.node, "relative", ()):
                yield one.name, min(found.name for found in one.get_qualified_names_for(one.name))

    def text(self, node: cst.CSTNode) -> str:
        """Return the source of a node, with the comments inside it."""
        return self.module.code_for_node(node)

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first and the last line of a node."""
        found = self._ranges[node]
        return found.start.line, found.end.line

    def start(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the line and column where a node begins."""
        found = self._ranges[node].start
        return found.line, found.column

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node around a node; None: it is the module."""
        return self._parents.get(node)

    def around(self, node: cst.CSTNode, kind: type[_Node]) -> _Node | None:
        """Return the innermost node of a kind around a node."""
        above = self.parent(node)
        while above is not None and not isinstance(above, kind):
            above = self.parent(above)
        return above

    def beside(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the other operand of the arithmetic that a node is an operand of; None: it is none."""
        above = self.parent(node)
        if not isinstance(above, cst.BinaryOperation):
            return None
        if above.left is node:
            return above.right
        return above.left

    def call_with(self, argument: cst.CSTNode) -> cst.Call | None:
        """Return the call that gets an expression as an argument; None: it is none of a call."""
        # An argument stands in a node of its own, which has its keyword and star.
        above = self.parent(argument)
        call = None
        if isinstance(above, cst.Arg):  # a base of a class is one, too
            call = self.parent(above)
        if not isinstance(call, cst.Call):
            return None
        return call

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, innermost first."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the function whose body a node is in; None: module level, or a lambda, or a class body."""
        for above in self.ancestors(node):
            if isinstance(above, cst.Lambda | cst.ClassDef):
                return None
            if isinstance(above, cst.FunctionDef):
                return above
        return None

    def owner(self, function: cst.FunctionDef) -> cst.ClassDef | None:
        """Return the class that a method belongs to; None: a plain function."""
        for above in self.ancestors(function):
            if isinstance(above, cst.FunctionDef):
                return None
            if isinstance(above, cst.ClassDef):
                return above
        return None

    def statement(self, line: int) -> cst.BaseStatement | None:
        """Return the innermost statement on a line; for a compound statement, only its head counts."""
        # From the last, since a statement inside of another one begins behind it.
        return next((one for first, last, one in reversed(self._statements) if first <= line <= last), None)

    @cached_property
    def _statements(self) -> list[tuple[int, int, cst.BaseStatement]]:
        return list(self._heads())

    def _heads(self) -> Iterator[tuple[int, int, cst.BaseStatement]]:
        """Yield the lines of each statement; for a compound statement, those of its head."""
        for node in walk(self.module):
            if not isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                continue
            first, last = self.lines(node)
            body = getattr(node, "body", None)
            if isinstance(node, cst.BaseCompoundStatement) and isinstance(body, cst.IndentedBlock):
                # Up to the line before the block, so that a head over several lines counts as a whole.
                last = min((self.lines(one)[0] for one in body.body), default=last + 1) - 1
            yield first, last, node

    def head(self, line: int) -> list[cst.CSTNode]:
        """Return every node on a line, without the blocks of a compound statement there."""
        statement = self.statement(line)
        if statement is None:
            return []
        return list(walk(statement, skip=(cst.IndentedBlock, cst.Lambda)))

    def above(self, statement: cst.CSTNode) -> list[cst.BaseStatement]:
        """Return the statements before one in its block."""
        block = self.block(statement)
        if not block:
            return []
        return block[: index_of(block, statement)]

    def block(self, statement: cst.CSTNode) -> list[cst.BaseStatement]:
        """Return the statements of the block that a statement stands in."""
        above = self.parent(statement)
        if isinstance(above, cst.IndentedBlock | cst.Module):
            return list(above.body)
        return []

    def after(self, statement: cst.CSTNode) -> list[cst.BaseStatement]:
        """Return the statements that follow one in its block."""
        block = self.block(statement)
        if not block:
            return []
        return block[index_of(block, statement) + 1 :]

    def in_loop(self, node: cst.CSTNode) -> bool:
        """Whether a node is in a loop of its function."""
        for above in self.ancestors(node):
            if isinstance(above, cst.FunctionDef | cst.ClassDef | cst.Lambda):
                return False
            if isinstance(above, cst.For | cst.While | cst.CompFor):
                return True
        return False


def index_of(nodes: list[cst.BaseStatement], node: cst.CSTNode) -> int:
    """Return the place of a node, by identity."""
    return next(index for index, one in enumerate(nodes) if one is node)


def walk(node: cst.CSTNode, skip: tuple[type[cst.CSTNode], ...] = ()) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes below it, outermost first, without nodes of the kinds to skip."""
    left = [node]
    while left:
        one = left.pop()
        yield one
        below = _children(one)
        left.extend(reversed([child for child in below if not isinstance(child, skip)] if skip else below))


@lru_cache(maxsize=_REMEMBERED)
def _children(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return the nodes directly below a node; cached, because LibCST visits the node each time."""
    return tuple(node.children)


class EditPlace(Protocol):
    """A line of a file: what the edits of advice, of repairs and of reproducers have in common."""

    @property
    def source(self) -> str:
        """Text of the whole file."""

    @property
    def line(self) -> int:
        """The line, 1-based."""


def code_of(place: EditPlace) -> ParsedFile | None:
    """Return the tree of a place's file; None: it is not Python."""
    return _parsed(place.source)


def statement_in_function(place: EditPlace) -> tuple[ParsedFile, cst.BaseStatement, cst.FunctionDef] | None:
    """Return the statement at a place, the tree of its file, and its function; None: there is none in a function."""
    code = code_of(place)
    if code is None:
        return None
    statement = code.statement(place.line)
    if statement is None:
        return None
    function = code.function(statement)
    if function is None:
        return None
    return code, statement, function


def small_of(line: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """Return the small statement of a line; None: it has several, or is a compound statement."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        return line.body[0]
    return None


def only(body: cst.CSTNode) -> cst.CSTNode | None:
    """Return the one small statement of a block; None: it has more, or a compound one."""
    if isinstance(body, cst.IndentedBlock):
        if len(body.body) != 1:
            return None
        return only(body.body[0])
    if isinstance(body, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        if len(body.body) != 1:
            return None
        return body.body[0]
    return None


def assignment_of(node: cst.CSTNode | None) -> tuple[cst.Name, cst.BaseExpression] | None:
    """Return the name and the value of `name = value`; None: a node is something else."""
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)], value=value):
            return name, value
    return None


def index_in(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the one index of `tensor[index]`; None: a node has several, or a slice, or is something else."""
    match node:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index, star=None))]):
            return index
    return None


def lone_statement(place: EditPlace) -> tuple[ParsedFile, cst.SimpleStatementLine, cst.BaseSmallStatement] | None:
    """Return the statement at a place and the tree of its file; None: it is a compound one, or shares its line."""
    code = code_of(place)
    if code is None:
        return None
    statement = code.statement(place.line)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    return code, statement, statement.body[0]


@lru_cache(maxsize=_KEPT)
def _parsed(source: str) -> ParsedFile | None:
    try:
        return ParsedFile(source)
    # LibCST visits trees by recursion, which ends at Python's limit for deeply nested code.
    except (cst.ParserSyntaxError, UnicodeError, RecursionError):
        return None
