"""How many aten ops are in graphs: those of each scenario (`with_coverage`), and of each function (`functions_of`)."""

from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.facts.run_events import OpsCounted
from ctrace.inspector.facts.session import Coverage, Function, Graph, Scenario
from ctrace.inspector.findings.functions import Codes, Key, place_of
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.stacks import resumed


def coverage_of(counted: OpsCounted) -> Coverage:
    """Return how many ops of one eager call are in graphs when the call is compiled."""
    if counted.left is None:
        return Coverage(counted.eager)
    return Coverage(counted.eager, max(counted.eager - counted.left, 0))


def total(coverages: list[Coverage]) -> Coverage:
    """Return the sum of the coverage over the measured scenarios; unknown if none was measured."""
    measured = [each for each in coverages if each.ops is not None]
    if not measured:
        return Coverage()
    compiled = [each.compiled for each in measured]
    # Of one scenario not known, the share of all of them is not known, either.
    ops = sum(each.ops or 0 for each in measured)
    if None in compiled:
        return Coverage(ops)
    return Coverage(ops, sum(each or 0 for each in compiled))


def with_coverage(raw: CollectedLog, scenarios: tuple[Scenario, ...]) -> tuple[Scenario, ...]:
    """Add the coverage to each measured scenario."""
    counted = {each.scenario: coverage_of(each) for each in raw.ops}
    return tuple(replace(each, coverage=counted.get(each.name, Coverage())) for each in scenarios)


class _Place(Struct, frozen=True):
    """A code object: file, qualified name, first line."""

    file: str
    name: str
    line: int

    @property
    def key(self) -> Key:
        return self.file, self.name.rpartition(".")[2], self.line


def functions_of(raw: CollectedLog, codes: Codes, graphs: tuple[Graph, ...]) -> tuple[Function, ...]:
    """List the functions outside of torch that Dynamo processed, or whose ops were counted."""
    ops, left = _eager_ops(raw), _left_ops(raw, codes)
    own_graphs = Counter(codes.key(Frame(graph.file, graph.line, graph.function)) for graph in graphs)
    roots = _roots(raw, codes)
    measured = any(each.left is not None for each in raw.ops)

    def coverage(key: Key) -> Coverage:
        if measured:
            return _coverage(ops[key], left[key])
        return Coverage(ops.get(key))

    return tuple(
        Function(
            name=place.name,
            file=place.file,
            line=place.line,
            graphs=own_graphs[place.key],
            coverage=coverage(place.key),
            compiled_for_itself=place.key in roots,
        )
        for place in _places(raw)
    )


def _coverage(ops: int, left: int) -> Coverage:
    return Coverage(ops, max(ops - left, 0))


def _places(raw: CollectedLog) -> list[_Place]:
    """List each function once: those that were compiled, skipped or counted."""
    places = [_Place(each.file, each.name, each.line) for counted in raw.ops for each in counted.functions]
    places += [_Place(each.file, each.qualname, each.line) for each in raw.left if resumed(each.name)[1] is None]
    for compile_id in raw.seen:
        place = place_of(raw, compile_id)
        if place.resumes_at is None:
            name, code = place.function, raw.bytecode.get(compile_id)
            if code is not None and (code.file, code.line) == (place.file, place.line):
                name = code.qualname
            places.append(_Place(place.file, name, place.line))
    # The first one has the qualified name, which a compilation alone may lack.
    found: dict[Key, _Place] = {}
    for each in places:
        if owner_of(each.file, raw.prefixes) is not Owner.TORCH:
            found.setdefault(each.key, each)
    return list(found.values())


def _eager_ops(raw: CollectedLog) -> Counter[Key]:
    ops: Counter[Key] = Counter()
    for counted in raw.ops:
        for each in counted.functions:
            ops[_Place(each.file, each.name, each.line).key] += each.ops
    return ops


def _left_ops(raw: CollectedLog, codes: Codes) -> Counter[Key]:
    """Count eager ops by innermost function."""
    left: Counter[Key] = Counter()
    for counted in raw.ops:
        for each in counted.stacks:
            if each.stack:
                left[codes.key(each.stack[-1])] += each.ops
    return left


def _roots(raw: CollectedLog, codes: Codes) -> set[Key]:
    stacks = [(*code.callers, Frame(code.file, code.line, code.name)) for code in raw.bytecode.values()]
    stacks += [each.stack for each in raw.left if each.stack]
    keyed = [codes.keys(stack) for stack in stacks]
    return {keys[-1] for keys in keyed if codes.is_root(keys[-1], keys[:-1])}
