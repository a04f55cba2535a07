"""Measure guards: the time of the whole tree, of its larger parts, and of each kind of leaf guard.

The whole tree is measured cold, as torch measures it, after flushing the CPU's caches (`profile_guard_manager`,
torch/csrc/dynamo/guards.cpp, 2.11 to 2.13), and warm, as in a loop that calls the model repeatedly. A part is
measured in a tree that contains nothing else (`RootGuardManager.clone_manager`), minus the time of the nodes on the
path to the part. Such a tree lacks a shortcut that torch takes since Python 3.12 if no dict below a module has
changed, so the whole tree is also measured without it. A kind is measured by calling each leaf guard, minus the
overhead of a call from Python.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.guards.tree import children, is_relational
from ctrace.inspector.capture.guards.unmet import MISSING, Scope
from ctrace.inspector.facts.guard_facts import Duration, GuardCost, KindCost, PartCost

_COLD_TIMES = 9
"""Number of cold measurements for the median; each takes 25 ms to flush the caches."""
_WARM_SECONDS = 0.005
_LARGE = 8
"""A part with more than 1/8 of all leaf guards is measured in detail."""
_SMALL = 25
"""Parts with less than 1/25 of all leaf guards are measured together."""
# Each level measures its larger parts again, and flushes the caches each time.
_DEEPEST = 4
# A leaf guard takes less than the clock can tell.
_CALLS = 50


def cost_of(manager: Any, f_locals: dict[str, Any]) -> GuardCost:
    """Measure a guard tree on the call that it was made for; times in microseconds."""
    # The whole before its parts: a part is a difference, and both have to be measured in one state of the machine.
    root = manager.root
    often = 3 * _COLD_TIMES  # measured longer, because all parts are compared with it
    whole = _timed(root, f_locals, often)
    # A clone lacks the shortcut for unchanged dicts, as the trees of the parts do.
    plain = _timed(root.clone_manager(lambda _node: True), f_locals, often)
    base = _timed(_only(root, {root.get_source()}), f_locals, often)
    parts = tuple(_parts(root, f_locals, base))
    kinds = _kinds(root, Scope.of(manager, f_locals))
    epilogue = _called(lambda: [guard(f_locals) for guard in root.get_epilogue_lambda_guards()])
    return GuardCost(
        cold=whole.cold,
        warm=whole.warm,
        plain=plain,
        root=base,
        parts=parts,
        kinds=kinds,
        epilogue=epilogue if root.get_epilogue_lambda_guards() else 0.0,
    )


def _timed(root: Any, f_locals: dict[str, Any], times: int = _COLD_TIMES) -> Duration:
    from torch._C._dynamo.guards import profile_guard_manager

    cold = statistics.median(profile_guard_manager(root, f_locals, 1) for _ in range(times))
    return Duration(cold, _called(lambda: root.check(f_locals)))


def _called(function: Callable[[], Any]) -> float:
    """Return the shortest time of a call over several rounds, in microseconds: disturbances only add time."""
    began = time.perf_counter()
    function()
    rounds = max(int(_WARM_SECONDS / 5 / max(time.perf_counter() - began, 1e-7)), 1)
    return min(_round(function, rounds) for _ in range(5))


def _round(function: Callable[[], Any], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - began) / times * 1e6


def _only(root: Any, sources: set[str]) -> Any:
    """Copy the tree with only the nodes of these sources and their leaf guards, without the epilogue."""
    return root.clone_manager(lambda node: node.get_source() in sources)


def _parts(root: Any, f_locals: dict[str, Any], base: Duration) -> Iterator[PartCost]:
    """Measure the children of the root, and those of its large children.

    The parts of depth 0 and the root add up to the whole; deeper ones are parts of parts.
    """
    path = _Path(root, f_locals, (root.get_source(),), base, 0)
    yield from _under(path, list(children(root)), _leaves_below(root))


class _Path(Struct, frozen=True):
    """The nodes from the root to a part, and the time to check only these."""

    root: Any
    f_locals: dict[str, Any]
    sources: tuple[str, ...]
    time: Duration
    depth: int

    def measured(self, nodes: list[Any]) -> tuple[Duration, int]:
        """Measure nodes at the end of the path with everything below them, and count their leaf guards."""
        inside = {*self.sources, *(source for node in nodes for source in _sources(node))}
        timed = _timed(_only(self.root, inside), self.f_locals)
        return Duration(timed.cold - self.time.cold, timed.warm - self.time.warm), sum(map(_leaves_below, nodes))

    def to(self, node: Any) -> "_Path":
        """Extend the path to a node."""
        sources = (*self.sources, node.get_source())
        return _Path(
            self.root, self.f_locals, sources, _timed(_only(self.root, set(sources)), self.f_locals), self.depth + 1
        )


def _under(path: _Path, nodes: list[Any], leaves: int) -> Iterator[PartCost]:
    """Measure each larger node alone and all small ones together: below the clock's noise, a time means nothing."""
    small = [node for node in nodes if _leaves_below(node) * _SMALL < leaves]
    for node in nodes:
        if node in small:
            continue
        timed, number = path.measured([node])
        yield PartCost(node.get_source(), path.depth, number, timed.cold, timed.warm)
        below = list(children(node))
        if number * _LARGE > leaves and path.depth < _DEEPEST and below:
            yield from _under(path.to(node), below, leaves)
    if small:
        timed, number = path.measured(small)
        yield PartCost("", path.depth, number, timed.cold, timed.warm)


def _sources(node: Any) -> Iterator[str]:
    yield node.get_source()
    for child in children(node):
        yield from _sources(child)


def _leaves_below(node: Any) -> int:
    return len(node.get_leaf_guards()) + sum(map(_leaves_below, children(node)))


def _kinds(root: Any, scope: Scope) -> tuple[KindCost, ...]:
    """Return the time and the number of leaf guards of each kind, in microseconds."""
    of_a_call = _call_alone()
    numbers: dict[str, int] = defaultdict(int)
    costs: dict[str, float] = defaultdict(float)
    for guard, value in _with_values(root, scope):
        kind = type(guard).__name__
        numbers[kind] += 1
        costs[kind] += max(_fastest(guard, value) - of_a_call, 0.0)
    return tuple(KindCost(kind, number, costs[kind]) for kind, number in numbers.items())


def _with_values(node: Any, scope: Scope) -> Iterator[tuple[Any, Any]]:
    """Pair leaf guards with the values that they check; those on several values cannot be called alone."""
    source = node.get_source()
    value = scope.names["L"] if source == "L" else scope.value(source)
    if value is not MISSING:
        yield from ((guard, value) for guard in node.get_leaf_guards() if not is_relational(guard))
    for child in children(node):
        yield from _with_values(child, scope)


def _fastest(guard: Any, value: Any) -> float:
    return min(_loop(guard, value) for _ in range(3))


def _loop(guard: Any, value: Any) -> float:
    began = time.perf_counter()
    for _ in repeat(None, _CALLS):
        guard(value)
    return (time.perf_counter() - began) / _CALLS * 1e6


def _call_alone() -> float:
    """Measure the overhead of a call from Python, with a leaf guard that does almost nothing."""
    from torch._C._dynamo.guards import RootGuardManager

    root = RootGuardManager()
    root.add_none_match_guard(["x is None"], None)
    return _fastest(root.get_leaf_guards()[0], None)
