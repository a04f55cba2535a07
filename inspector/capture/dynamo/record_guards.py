"""Record what torch's own guard entry lacks: stacks, dropped guards, wrapped functions' arguments (`guards`), and
times.

The tree itself is torch's entry `dynamo_cpp_guards_str` (2.11 to 2.13, guards.py:4552) with one line per leaf guard,
which names only the innermost frame, with a shortened file name. This hook records all stacks in the same order.
Sources: `get_verbose_code_parts` (guards.py:829), which writes the text of every leaf guard, and
`guard_manager_testing_hook_fn` (guards.py:202), which torch calls when a tree is finished. Both are the same in 2.11.

`cost_of` measures the time of the whole tree, of its larger parts, and of each kind of leaf guard. The whole tree is
measured cold, as torch measures it, after flushing the CPU's caches (`profile_guard_manager`,
torch/csrc/dynamo/guards.cpp, 2.11 to 2.13), and warm, as in a loop that calls the model repeatedly. A part is measured
in a tree that contains nothing else (`RootGuardManager.clone_manager`), minus the time of the nodes on the path to the
part. Such a tree lacks a shortcut that torch takes since Python 3.12 if no dict below a module has changed, so the
whole tree is also measured without it. A kind is measured by calling each leaf guard, minus the overhead of a call from
Python.
"""

import functools
import inspect
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, repeat
from types import FrameType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.guard_stacks import GuardStacks, Stack, frames
from ctrace.inspector.capture.dynamo.unmet import MISSING, Scope, children, is_relational
from ctrace.inspector.facts.guard_facts import (
    Duration,
    GuardCost,
    GuardsPlaced,
    GuardStack,
    KindCost,
    LeftOut,
    PartCost,
)

_COLD_TIMES = 9
"""Number of cold measurements for the median; each takes 25 ms to flush the caches."""
# Chosen: five rounds of a millisecond each, far above the clock's resolution, and little beside compiling.
_WARM_SECONDS = 0.005
_LARGE = 8
"""A part with more than 1/8 of all leaf guards is measured in detail."""
_SMALL = 25
"""Parts with less than 1/25 of all leaf guards are measured together."""
# Each level measures its larger parts again, and flushes the caches each time.
_DEEPEST = 4
# A leaf guard takes less than the clock can tell.
_CALLS = 50


def cost_of(manager: Any, f_locals: dict[str, Any], *, with_parts: bool = True) -> GuardCost:
    """Measure a guard tree on the call that it was made for; times in microseconds.

    Without the parts, nothing is compared with the whole, so that one cold measurement is enough.
    """
    # The whole before its parts: a part is a difference, and both have to be measured in one state of the machine.
    root = manager.root
    # measured longer, because all parts are compared with it
    often = 1
    if with_parts:
        often = 3 * _COLD_TIMES
    whole = _timed(root, f_locals, often)
    # A clone lacks the shortcut for unchanged dicts, as the trees of the parts do.
    plain = _timed(root.clone_manager(lambda _node: True), f_locals, often)
    base = _timed(_only(root, {root.get_source()}), f_locals, often)
    if with_parts:
        parts = tuple(_parts(root, f_locals, base))
        kinds = _kinds(root, Scope.of(manager, f_locals))
    else:
        parts = ()
        kinds = ()
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
    if source == "L":
        value = scope.names["L"]
    else:
        value = scope.value(source)
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


def arguments(f_locals: dict[str, Any]) -> list[str]:
    """Return the parameter names behind `args` in a frame of torch's `inner(*args, **kwargs)` around a callable.

    Source: `wrap_inline`, torch/_dynamo/external_utils.py (2.11 to 2.13), which passes them to its `fn`. Return no
    names for another frame, or if they are unknown.
    """
    import torch

    # The exact locals of that frame, so that no function of the user is taken for it.
    if set(f_locals) != {"fn", "args", "kwargs"}:
        return []
    called = f_locals["fn"]
    try:
        signature = inspect.signature(called.forward if isinstance(called, torch.nn.Module) else called)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds]


def guards(stacks: GuardStacks, *, cost: bool, parts: bool = True) -> Hook:
    """Make the hook that records each guard's stack, stores it in `stacks`, and with `cost` times the guards, with
    `parts` also in detail.
    """

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:
            costs = None
            if cost:
                costs = functools.partial(cost_of, with_parts=parts)
            when("torch._dynamo.guards", lambda module: _install(module, recorder, patches, stacks, costs))
            yield

    return hook


def _install(
    module: ModuleType,
    recorder: Recorder,
    patches: ExitStack,
    stacks: GuardStacks,
    costs: Callable[[Any, dict[str, Any]], GuardCost] | None,
) -> None:
    original = getattr(module, "get_verbose_code_parts")  # noqa: B009 - an attribute of torch that mypy does not know

    # The last moment at which torch has a guard's text and its stack together: the tree keeps the text only.
    def worded(code_parts: Any, guard: Any, *args: Any, **kwargs: Any) -> Any:
        parts = original(code_parts, guard, *args, **kwargs)
        if guard is not None and guard.user_stack:
            stacks.add(parts, guard.user_stack)
        return parts

    objects = _Objects()

    def finished(manager: Any, f_locals: dict[str, Any], builder: Any) -> None:
        with recorder.watching("where guards come from"):
            # The frame above has what torch's `guard_filter_fn` let through.
            left_out = _left_out(builder, sys._getframe(1))
            recorder.add(_describe(manager, f_locals, stacks, left_out, objects.named(f_locals)))
        if costs is not None:
            with recorder.watching("what guards cost"):
                recorder.add(costs(manager, f_locals))

    with recorder.watching("guards"):
        patches.enter_context(patched(module, "get_verbose_code_parts", worded))
        # A slot that torch's tests use: None otherwise, and called once for each tree (guards.py, 2.13).
        patches.enter_context(patched(module, "guard_manager_testing_hook_fn", finished))


def receiver_of(f_locals: dict[str, Any]) -> str:
    """Return what a method calls its object; a resume function has other names before it."""
    if "self" in f_locals:
        return "self"
    return next(iter(f_locals), "")


class _Objects:
    """Assigns numbers to the modules whose methods are compiled, because these modules share the code's cache."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._next = count()

    def named(self, f_locals: dict[str, Any]) -> str | None:
        """Return the name of the module whose method a frame runs, such as `Block 2`, or None for another function."""
        import torch

        first = f_locals.get(receiver_of(f_locals))
        if not isinstance(first, torch.nn.Module):
            return None
        if first not in self._numbers:
            self._numbers[first] = next(self._next)  # not len(): a module that is gone keeps its number
        return f"{type(first).__name__} {self._numbers[first]}"


def _describe(
    manager: Any, f_locals: dict[str, Any], stacks: GuardStacks, left_out: tuple[LeftOut, ...], of_object: str | None
) -> GuardsPlaced:
    """Return the stacks, each leaf guard's stack number in the order of torch's text (-1 for none), and arguments."""
    known: dict[Stack, int] = {}
    parts = [*_printed(manager.root, set())]
    # Torch prints these after the tree.
    for guard in manager.root.get_epilogue_lambda_guards():
        parts += guard.verbose_code_parts()
    scope = Scope.of(manager, f_locals)
    stacks.name_objects(parts, scope.value)
    stacks.keep_lengths(manager, {source: len(scope.value(source)) for source in _dicts(manager.root)})
    lines = [_number(stacks.of(part), known) for part in parts]
    return GuardsPlaced(
        stacks=tuple(GuardStack(frames(stack)) for stack in known),
        lines=tuple(lines),
        arguments=tuple(arguments(f_locals)),
        left_out=left_out,
        of_object=of_object,
        receiver=receiver_of(f_locals) or "self",
    )


def _printed(node: Any, seen: set[Any]) -> Iterator[str]:
    """Yield leaf guards as `construct_manager_string` prints them (guards.py:663): a guard on several values once."""
    for guard in node.get_leaf_guards():
        if is_relational(guard):
            if guard in seen:
                yield ""
                continue
            seen.add(guard)
        yield from guard.verbose_code_parts()
    for child in children(node):
        yield from _printed(child, seen)


def _dicts(node: Any) -> Iterator[str]:
    """Return the dicts that are guarded key by key, which also guards their length."""
    if hasattr(node, "get_key_value_managers") and node.get_source() not in ("L", "G"):
        yield node.get_source()
    for child in children(node):
        yield from _dicts(child)


def _number(stack: Stack | None, known: dict[Stack, int]) -> int:
    if stack is None:
        return -1
    return known.setdefault(stack, len(known))


def _left_out(builder: Any, maker: FrameType) -> tuple[LeftOut, ...]:
    """Count the guards that Dynamo requested and that were dropped, by kind and by the reason.

    `maker` is the frame of `CheckFunctionManager.__init__` (guards.py, 2.11 to 2.13): its `sorted_guards` are those
    that a `guard_filter_fn` let through.
    """
    from torch._dynamo import config

    requested = builder.check_fn_manager.output_graph.guards
    found: Counter[tuple[str, str]] = Counter()
    if config.skip_nnmodule_hook_guards:
        found[_HOOKS, _HOOKS_SWITCH] = sum(guard.create_fn_name() == _HOOKS for guard in requested)
    if maker.f_locals.get("guard_filter_fn") is not None:
        # By identity: Dynamo's guards compare by name and kind, so that a dropped one may equal a kept one.
        kept = set(map(id, maker.f_locals["sorted_guards"]))
        found.update((guard.create_fn_name(), "guard_filter_fn") for guard in requested if id(guard) not in kept)
    return tuple(LeftOut(kind, why, number) for (kind, why), number in found.items() if number)


_HOOKS = "EMPTY_NN_MODULE_HOOKS_DICT"
_HOOKS_SWITCH = "torch._dynamo.config.skip_nnmodule_hook_guards"
