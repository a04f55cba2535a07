"""Guards and unmet guards against torch's own objects, in this process; and capture changes nothing.

Everything here compiles with the eager backend. `_debug_get_cache_entry_list` returns torch's live entries.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ctrace
from ctrace.inspector.capture.capture_hooks import capturing
from ctrace.inspector.facts.findings import Recompile
from ctrace.inspector.findings.guard_view import guarded, heads
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.log.reader import read

pytestmark = pytest.mark.integration

RATE = 3


@pytest.fixture(autouse=True)
def _anew() -> None:
    import torch

    torch._dynamo.reset()


def _program() -> tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]:
    """Return a function with guards of many kinds, its arguments for call 0, and different ones for later calls."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(2))
            self.mode = "fast"
            self.cache = None

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x if self.mode == "fast" and self.cache is None else -x

    net = Net()

    def mixed(x: Any, y: Any, options: dict[str, Any], items: list[Any], flag: bool, scale: float) -> Any:
        x = net(x) * RATE * scale + y
        for item in items:
            x = x + item
        if options["how"] == "sum" and "extra" not in options:
            x = x.sum() * len(options)
        return -x if flag else x

    def arguments(call: int) -> tuple[Any, ...]:
        rows = (2, 2, 5, 6)[call]
        dtypes = (torch.float32, torch.float32, torch.float32, torch.float32)
        how = ("sum", "max", "sum", "sum")[call]
        items = [1.0, 2.0, 3.0][: (2, 3, 2, 2)[call]]
        x = torch.ones(rows, 3, dtype=dtypes[call])
        return x, torch.ones(rows, 3), {"how": how, "other": 1}, items, call == 1, (0.5, 1.5, 0.5, 0.5)[call]

    return mixed, arguments


def _walked(node: Any, seen: set[Any]) -> Iterator[Any]:
    """Return all leaf guards; list a guard on several values once."""
    from torch._C._dynamo.guards import RelationalGuard

    for guard in node.get_leaf_guards():
        if guard not in seen:
            yield guard
        if isinstance(guard, RelationalGuard):
            seen.add(guard)
    if hasattr(node, "get_key_value_managers"):
        for pair in node.get_key_value_managers().values():
            for each in pair:
                if each is not None:
                    yield from _walked(each, seen)
    for child in node.get_child_managers():
        yield from _walked(child, seen)


def _checks(guard: Any) -> list[str]:
    """Name the checks of a leaf guard; each expression of a lambda is one check."""
    kind = type(guard).__name__
    return [kind] * (len(guard.verbose_code_parts()) if kind == "LAMBDA_GUARD" else 1)


def _entries(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the cache entries of a function by compile id."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    return {str(entry.compile_id): entry for entry in _debug_get_cache_entry_list(function.__code__)}


def test_every_torch_guard_is_listed() -> None:
    import torch

    function, arguments = _program()
    compiled = torch.compile(function, backend="eager")
    with ctrace.trace() as traced:
        for call in range(3):
            compiled(*arguments(call))
        expected: dict[str, Counter[str]] = {}
        for id_, entry in _entries(function).items():
            root = entry.guard_manager.root
            leaves = [*_walked(root, set()), *root.get_epilogue_lambda_guards()]
            expected[id_] = Counter(itertools.chain.from_iterable(map(_checks, leaves)))
    session = traced.session
    found = {head.compilation.id: guarded(session, head) for head in heads(session)}
    assert len(expected) == 3
    assert {id_: Counter(guard.kind for guard in each.guards) for id_, each in found.items()} == expected
    assert {each.tree.unread for each in found.values()} == {0}
    assert not any(each.tree.is_misplaced for each in found.values())
    assert session.problems == ()


def test_places_are_the_innermost_lines_of_the_user() -> None:
    import torch

    places: dict[str, set[tuple[str, int] | None]] = {}

    def keep_all(entries: list[Any]) -> list[bool]:
        for entry in entries:
            stack = entry.orig_guard.user_stack or ()
            mine = [(frame.filename, frame.lineno) for frame in stack if frame.filename == __file__]
            places.setdefault(entry.orig_guard.name, set()).add(mine[-1] if mine else None)
        return [True] * len(entries)

    function, arguments = _program()
    compiled = torch.compile(function, backend="eager", options={"guard_filter_fn": keep_all})
    with ctrace.trace() as traced:
        compiled(*arguments(0))
    session = traced.session
    (head,) = heads(session)
    shown = [
        (guard.source, guard.place and (guard.place.file, guard.place.line)) for guard in guarded(session, head).guards
    ]
    known = [(source, place) for source, place in shown if source in places]
    assert len(known) > 40
    assert [(source, place) for source, place in known if place and place not in places[source]] == []
    assert {place[0] for _, place in shown if place} == {__file__}
    of_values = [guard for guard in guarded(session, head).guards if guard.source.startswith(("L[", "G["))]
    without_place = {guard.kind for guard in of_values if guard.source in places and not guard.place}
    assert without_place == {"NO_TENSOR_ALIASING"}


def _unmet_by_hand(entry: Any, f_locals: dict[str, Any]) -> Counter[str]:
    """Evaluate every leaf guard of an entry on a call's values, and count the unmet guards by source.

    Skip guards below a value that fails its own guard, as ctrace does.
    """
    manager = entry.guard_manager
    scope = {**manager.global_scope, **manager.closure_vars, "L": f_locals, "G": manager.global_scope["G"]}
    found: Counter[str] = Counter()

    def ask(node: Any) -> None:
        source = node.get_source()
        value = f_locals if source == "L" else eval(source, scope)
        failing = sum(not guard(value) for guard in node.get_leaf_guards() if "ALIASING" not in type(guard).__name__)
        if failing:
            found[source] += failing
        if failing and source not in ("L", "G"):
            return
        for keys, values in node.get_key_value_managers().values() if hasattr(node, "get_key_value_managers") else ():
            for each in (keys, values):
                if each is not None:
                    ask(each)
        for child in node.get_child_managers():
            ask(child)

    ask(manager.root)
    return found


def _raw(log: Path) -> CollectedLog:
    raw = CollectedLog()
    for entry in read(log):
        raw.add(entry)
    assert raw.problems == []
    return raw


def test_all_unmet_guards_are_found(tmp_path: Path) -> None:
    import torch

    function: Any
    function, arguments = _program()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    by_hand: dict[str, dict[str, int]] = {}
    with capturing(tmp_path / "trace.log", build=False):
        for call in range(4):
            names = function.__code__.co_varnames
            f_locals = dict(zip(names, arguments(call), strict=False))
            if "net" in function.__code__.co_freevars:
                f_locals["net"] = function.__closure__[0].cell_contents
            by_hand[f"0/{call}"] = {
                id_: sum(_unmet_by_hand(entry, f_locals).values()) for id_, entry in _entries(function).items()
            }
            compiled(*arguments(call))
    raw = _raw(tmp_path / "trace.log")
    shown = {id_: {entry.id: entry.number for entry in failed.entries} for id_, failed in raw.unmet.items()}
    assert shown == {id_: numbers for id_, numbers in by_hand.items() if numbers}
    assert max(number for numbers in shown.values() for number in numbers.values()) >= 4


CHANGES = {"x.dtype": 0, "n": 1, "mode": 2, "len(items)": 3}


def test_each_set_of_changes_has_exactly_its_causes() -> None:
    import torch

    def called(x: Any, n: int, mode: str, items: list[int]) -> Any:
        return (x * n if mode == "a" else -x) + len(items)

    base = (torch.ones(3), 5, "a", [1])
    other = (torch.ones(3, dtype=torch.float64), 6, "b", [1, 1])
    for size in range(1, len(CHANGES) + 1):
        for changed in itertools.combinations(CHANGES, size):
            torch._dynamo.reset()
            compiled: Any = torch.compile(called, backend="eager", dynamic=False)
            places = [CHANGES[name] for name in changed]
            with ctrace.trace() as traced:
                compiled(*base)
                compiled(*(other[at] if at in places else base[at] for at in range(4)))
            (recompile,) = traced.session.recompiles
            assert sorted(cause.subject for cause in recompile.causes) == sorted(changed)
            assert recompile.distances == {"0/0": size}


def test_the_nearest_entry_can_differ_from_torchs() -> None:
    import torch

    def called(x: Any, n: int, mode: str) -> Any:
        return x * n if mode == "a" else -x

    compiled = torch.compile(called, backend="eager", dynamic=False)
    wide = torch.ones(3, dtype=torch.float64)
    with ctrace.trace() as traced:
        for arguments in ((torch.ones(3), 5, "a"), (wide, 5, "b"), (wide, 6, "a"), (torch.ones(3), 7, "a")):
            compiled(*arguments)
    last: Recompile = traced.session.recompiles[-1]
    assert last.reason.startswith("0/2: ")
    assert last.distances == {"0/2": 2, "0/1": 2, "0/0": 1}  # mode "b" does not use n
    assert last.nearest == "0/0"
    assert [(cause.kind, cause.subject, cause.was, cause.now) for cause in last.causes] == [
        ("argument_value", "n", "5", "7")
    ]


@pytest.mark.long
@pytest.mark.parametrize("cost", [False, True])
def test_capture_changes_nothing(cost: bool, tmp_path: Path) -> None:
    import torch
    from torch._dynamo.utils import counters

    function, arguments = _program()

    def pair(x: Any, y: Any) -> Any:
        return x * 2 + y

    def run() -> tuple[list[Any], dict[str, Any], list[list[str]]]:
        torch._dynamo.reset()
        counters.clear()
        paired, same, twin = torch.compile(pair, backend="eager"), torch.ones(3), torch.ones(3)
        results = [paired(*each) for each in ((same, twin), (same, same), (same, twin), (same, same))]
        if not cost:  # measuring takes long
            compiled = torch.compile(function, backend="eager")
            results += [compiled(*arguments(call)) for call in (0, 1, 0, 2, 3, 1, 2)]
        seen = {name: dict(counts) for name, counts in counters.items()}
        return results, seen, [list(_entries(each)) for each in (function, pair)]

    without = run()
    with capturing(tmp_path / "trace.log", build=False, cost=cost):
        within = run()
    after = run()
    assert without[1:] == within[1:] == after[1:]
    for first, *others in zip(without[0], within[0], after[0], strict=True):
        assert all(torch.equal(first, other) for other in others)
    raw = _raw(tmp_path / "trace.log")
    assert sorted(raw.guards) == sorted(id_ for ids in within[2] for id_ in ids)
    assert bool(raw.guard_costs) is cost
