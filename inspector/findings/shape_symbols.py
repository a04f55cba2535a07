"""Find the user's line that specialized a size, or that put a condition on it. Conditions use the user's names: sympy's
`Eq(Mod(s77, 2), 0)` becomes `x.size(0) % 2 == 0`.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.shape_facts import (
    CodeLine,
    ConditionKind,
    ConditionMet,
    ShapesSeen,
    SymbolEvent,
    SymbolFixed,
    SymbolMade,
    UnbackedMade,
)
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.owners import user_frame_or_last
from ctrace.inspector.source.source_names import user_name
from ctrace.inspector.source.stacks import resumed

_LONGEST = 2000
"""The longest condition to parse, in characters."""
_COMPARED: dict[str, type[ast.cmpop]] = {"Eq": ast.Eq, "Ne": ast.NotEq}
_OPERATORS: dict[str, type[ast.operator]] = {
    "Mod": ast.Mod, "PythonMod": ast.Mod, "FloorDiv": ast.FloorDiv, "CleanDiv": ast.FloorDiv,
}  # fmt: skip
_BOUND = re.compile(r"(?P<symbol>\w+) (?P<sign><=?|>=?) (?P<limit>-?\d+)")
# Sizes, unbacked ints, floats and unbacked floats (`prefix_str`, torch/utils/_sympy/symbol.py, 2.13).
_SYMBOL = re.compile(r"\b(?:[su]|z[su]?f|zuf)\d+\b")


def in_words(expression: str, names: Mapping[str, str]) -> str:
    """Write a condition in Python with the user's names; if it cannot be parsed, only replace the names."""
    return _SYMBOL.sub(lambda match: names.get(match[0], match[0]), _as_python(expression))


def symbols_in(expression: str) -> tuple[str, ...]:
    """Return the symbols in a condition, each once."""
    return tuple(dict.fromkeys(_SYMBOL.findall(expression)))


def bounds_of(expression: str) -> tuple[str, int | None, int | None] | None:
    """Parse `s77 > 3` to the symbol with its lowest and highest value; return None for any other form of condition."""
    match = _BOUND.fullmatch(expression)
    if match is None:
        return None
    limit, sign = int(match["limit"]), match["sign"]
    if sign[0] == ">":
        return match["symbol"], limit + (sign == ">"), None
    return match["symbol"], None, limit - (sign == "<")


@lru_cache(maxsize=2000)  # compilations of one function have the same conditions
def _as_python(expression: str) -> str:
    if len(expression) > _LONGEST:  # nobody reads it, and a damaged log may hold any text
        return expression
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return ast.unparse(_Python().visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the text comes from a log, and may be anything
        return expression


class _Python(ast.NodeTransformer):
    """Turns sympy's functions into operators."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _COMPARED:
                return ast.Compare(left, [_COMPARED[name]()], [right])
            case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _OPERATORS:
                return ast.BinOp(left, _OPERATORS[name](), right)
        return node


_CONSTANT = re.compile(r"Eq\(\w+, -?[\d.]+\)")
"""A condition that specializes a symbol; reports show it as a specialization, not as a condition."""


class FixedSize(Struct, frozen=True):
    """A condition under which a graph is valid, with the user's line that caused it."""

    source: str
    """Torch's name for the size, such as `L['x'].size()[0]`."""
    condition: str
    """In the user's names, such as `x.size(0) == 4`."""
    value: str | None
    """The only possible value; None: several are possible."""
    frame: Frame | None
    """The user's line; None: torch was not tracing user code, such as in a backend."""
    kind: ConditionKind
    reason: str
    """Torch's reason for a specialization, or its form of the condition."""
    why: str
    """A plain sentence."""
    low: int | None = None
    high: int | None = None


class Symbols:
    """Torch's events about the symbols of one compilation."""

    def __init__(self, raw: CollectedLog, compile_id: str) -> None:
        self._raw = raw
        self._events: list[SymbolEvent] = raw.symbols.get(compile_id, [])
        self._seen: ShapesSeen | None = raw.shapes.get(compile_id)
        self._sources = self._first_sources()
        self.names = {symbol: user_name(source) for symbol, source in self._sources.items()}

    def symbol_of(self, source: str) -> str | None:
        """Find the symbol that torch gave to a size, a stride or a number."""
        # Torch logs an event only where it makes a symbol; a size that shares one is in ctrace's record alone.
        made = (each.symbol for each in self._events if isinstance(each, SymbolMade) and each.source == source)
        return next(made, None) or self._symbol_seen(source)

    def source_of(self, name: str) -> str:
        """Return torch's name for a size, such as `L['x'].size()[0]`, from the name in a guard that failed.

        A log of torch says `x` there for `L['x']` (`strip_local_scope`, _dynamo/guards.py:5120, 2.13).
        """
        users = user_name(name)
        return next((made.source for made in self.made() if user_name(made.source) == users), name)

    def fixed(self, source: str) -> FixedSize | None:
        """Find the event that specialized a size to one value, directly or through another size that it must equal."""
        symbol = self.symbol_of(source)
        if symbol is not None and self._is_constant(symbol):
            return self._fixed(symbol, source, frozenset())
        return None

    def conditions(self, source: str) -> tuple[FixedSize, ...]:
        """Return the conditions on a size, each with its first line; conditions of the user's branches come first."""
        symbol = self.symbol_of(source)
        kept = [each for each in self._kept() if not _CONSTANT.fullmatch(each.expression)]
        found = [each for each in kept if symbol in symbols_in(each.expression)]
        # Torch evaluates a condition again wherever the code needs it; the first line is the one to change.
        first: dict[str, ConditionMet] = {}
        for each in found:
            first.setdefault(each.expression, each)
        ordered = sorted(first.values(), key=lambda each: _kind(each.asked) is not ConditionKind.CONDITION)
        return tuple(self._condition(each, source) for each in ordered)

    def origin(self, symbol: str) -> Frame | None:
        """Find the user's line that created a data-dependent size."""
        made = (each.stack for each in self._events if isinstance(each, UnbackedMade) and each.symbol == symbol)
        return self._frame(next(made, ()))

    def words(self, expression: str) -> str:
        """Write an expression in the user's names."""
        return in_words(expression, self.names)

    def made(self) -> Iterator[SymbolMade]:
        """Return the sizes and numbers that became symbols, in torch's order."""
        return (each for each in self._events if isinstance(each, SymbolMade))

    def _first_sources(self) -> dict[str, str]:
        sources = {each.symbol: each.source for each in self.made()}
        if self._seen:
            sources |= {symbol.name: symbol.sources[0] for symbol in self._seen.symbols if symbol.sources}
        return sources

    def _symbol_seen(self, source: str) -> str | None:
        """Find a symbol in ctrace's record: torch's events lack strides, and all but the first size with a symbol."""
        if not self._seen:
            return None
        for tensor in self._seen.tensors:
            if not source.startswith(f"{tensor.source}."):
                continue
            for at, dim in enumerate(tensor.dims):
                if source == f"{tensor.source}.size()[{at}]":
                    return dim.symbol
                if source == f"{tensor.source}.stride()[{at}]":
                    return next(iter(symbols_in(dim.stride_expression)), None)
        return None

    def _kept(self) -> list[ConditionMet]:
        """Return the conditions that became guards; without ctrace's record, all conditions that torch evaluated."""
        conditions = [each for each in self._events if isinstance(each, ConditionMet)]
        if self._seen is None:
            return conditions
        kept = frozenset(self._seen.conditions)
        # Torch also evaluates conditions that become no guard, e.g. those that hold for every size in the range.
        return [each for each in conditions if each.expression in kept]

    def _is_constant(self, symbol: str) -> bool:
        if any(isinstance(each, SymbolFixed) and each.symbol == symbol for each in self._events):
            return True
        if not self._seen:
            return False
        known = self._seen.symbols
        return any(each.name == symbol and (each.became or "").isdecimal() for each in known)

    def _fixed(self, symbol: str, source: str, passed: frozenset[str]) -> FixedSize | None:
        """Follow equalities from a symbol to the event that specialized it; `passed` are the symbols on the way."""
        event = self._fixed_itself(symbol)
        if event is not None:
            return self._constant(event, source)
        passed |= {symbol}
        for equality in self._kept():
            # Without those passed, two sizes that equal each other would lead to each other for ever.
            others = set(symbols_in(equality.expression)) - passed
            if not others or symbol not in symbols_in(equality.expression) or not equality.expression.startswith("Eq("):
                continue
            # Sorted, because the order of a set of strings differs between processes, and one run has one explanation.
            found = next((found for other in sorted(others) if (found := self._fixed(other, source, passed))), None)
            if found is not None:
                equal = self._condition(equality, source)
                where = ""
                if equal.frame:
                    where = f" (line {equal.frame.line})"
                return replace(found, why=f"{equal.condition} must hold{where}. {found.why}")
        return None

    def _fixed_itself(self, symbol: str) -> SymbolFixed | None:
        """Return the event that specialized a symbol; skip events of `find`, which only looks up an earlier result."""
        fixes = (each for each in self._events if isinstance(each, SymbolFixed) and each.symbol == symbol)
        return next((each for each in fixes if each.reason != "find"), None)

    def _constant(self, event: SymbolFixed, source: str) -> FixedSize:
        # Torch logs a specialization right after the condition that caused it: the last one before it is the cause.
        before = self._events[: self._events.index(event)]
        conditions = [
            each for each in before if isinstance(each, ConditionMet) and event.symbol in symbols_in(each.expression)
        ]
        decided = conditions[-1] if conditions else event
        kind = _kind(decided.asked)
        frame = self._frame(event.stack)
        subject = self.names.get(event.symbol, event.symbol)
        condition = f"{subject} == {event.value}"
        why = _sentence(kind, frame, subject, condition, event.value)
        return FixedSize(source, condition, event.value, frame, kind, event.reason, why)

    def _condition(self, event: ConditionMet, source: str) -> FixedSize:
        kind, frame, words = _kind(event.asked), self._frame(event.stack), self.words(event.expression)
        subject = next((self.names.get(each, each) for each in symbols_in(event.expression)), words)
        _, low, high = bounds_of(event.expression) or ("", None, None)
        why = _sentence(kind, frame, subject, words, None)
        return FixedSize(
            source=source,
            condition=words,
            value=None,
            frame=frame,
            kind=kind,
            reason=event.expression,
            why=why,
            low=low,
            high=high,
        )

    def _frame(self, stack: Iterable[CodeLine]) -> Frame | None:
        files = self._raw.files
        frames = tuple(
            Frame(files.get(each.file, "?"), each.line, resumed(each.name)[0], each.text.strip()) for each in stack
        )
        if frames:
            return user_frame_or_last(frames, self._raw.prefixes)
        return None


def _kind(functions: tuple[str, ...]) -> ConditionKind:
    """Classify a condition by torch's functions on its stack (2.11 and 2.13, fx/experimental/sym_node.py and
    symbolic_shapes.py).

    Dynamo calls `guard_scalar` when the user's code needs the value (_dynamo/variables/tensor.py).
    """
    names = set(functions)
    if "guard_scalar" in names:
        if "guard_bool" in names:
            return ConditionKind.CONDITION
        return ConditionKind.NUMBER
    if "expect_true" in names:
        return ConditionKind.CHECK
    return ConditionKind.OPERATION


def _sentence(kind: ConditionKind, frame: Frame | None, subject: str, condition: str, value: str | None) -> str:
    if frame is None:
        return f"Specialized to {value or condition} after tracing, while torch compiled the graph (`{condition}`)."
    if frame.source:
        code = f"`{frame.source}`"
    else:
        code = f"Line {frame.line}"
    if kind is ConditionKind.NUMBER:
        return f"{code} uses {subject} as a plain number, so torch specialized on {value or condition}."
    if kind is ConditionKind.CONDITION:
        only = ""
        if value:
            only = f"; only {value} takes it"
        return f"The graph contains the branch that {code} takes if {condition}{only}."
    if kind is ConditionKind.CHECK:
        return f"{code} is only valid if {condition}."
    return f"An operation in {code} depends on whether {condition}, and torch specialized on that."
