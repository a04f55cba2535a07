"""Inside a program: the first call of each graph, on its own thread, and nothing that the program might notice."""

import threading
import types
from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace

from ctrace.inspector.features.accuracy.child.accuracy_task import FirstCalls
from ctrace.inspector.features.accuracy.child.kernel_judge import SizeLimit
from ctrace.inspector.features.accuracy.child.node_values import cannot_repeat, in_program, modes_off, why_not_again
from ctrace.inspector.features.accuracy.child.watched_kernels import Listener, WatchedCall, WatchedGraph


class Noted(Listener):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        self.seen.append(graph.part)
        torch.rand(3)

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        self.seen.append((graph.part, number))


def graph(part: int) -> WatchedGraph:
    call = WatchedCall("kernel", False, False, {}, {}, [])
    return WatchedGraph(None, [], "forward", part, [call, call])


def run(listener: Listener, of: WatchedGraph) -> None:
    listener.entered(of, [], {})
    listener.called(of, 0, {})
    listener.called(of, 1, {})


def test_only_the_first_call_of_each_graph_is_passed_on() -> None:
    noted = Noted()
    first, one, other = FirstCalls(noted), graph(0), graph(1)
    before = torch.get_rng_state()
    for each in (one, one, other, one):
        run(first, each)
    assert noted.seen == [0, (0, 0), (0, 1), 1, (1, 0), (1, 1)]
    assert torch.equal(before, torch.get_rng_state())


def test_another_thread_does_not_disturb_a_graph_that_is_compared() -> None:
    noted = Noted()
    first, one, other = FirstCalls(noted), graph(0), graph(1)
    first.entered(one, [], {})
    thread = threading.Thread(target=run, args=(first, other))
    thread.start()
    thread.join()
    first.called(one, 0, {})
    first.called(one, 1, {})
    run(first, other)
    assert noted.seen == [0, (0, 0), (0, 1), 1, (1, 0), (1, 1)]


def test_a_graph_that_raised_leaves_room_for_the_next() -> None:
    noted = Noted()
    first = FirstCalls(noted)
    first.entered(graph(0), [], {})
    run(first, graph(1))
    assert noted.seen == [0, 1, (1, 0), (1, 1)]


def of_the_program(x: Any) -> Any:
    return x


torch.fx.wrap("of_the_program")


def test_functions_of_the_program_are_not_called_again() -> None:
    nodes = symbolic_trace(lambda x: of_the_program(torch.sin(x)) + 1).graph.nodes
    answers = {str(each.target): why_not_again(each) for each in nodes if each.op == "call_function"}
    assert [bool(why) for why in answers.values()] == [False, True, False]
    own = next(each for each in nodes if "program" in str(each.target))
    with in_program():
        assert "is not called a second time" in str(cannot_repeat(own))
    assert cannot_repeat(own) is None


def test_modules_and_communication_are_not_called_again() -> None:
    assert why_not_again(types.SimpleNamespace(op="call_module", target="layer"))
    reduce = torch.ops._c10d_functional.all_reduce.default
    assert "communicates" in why_not_again(types.SimpleNamespace(op="call_function", target=reduce))


def test_modes_of_the_program_do_not_see_what_is_compared() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Watching(), modes_off():
        torch.ones(2) + torch.rand(2)
    assert seen == []


@pytest.mark.parametrize(("most", "exceeds"), [(None, False), (79, True), (80, False)])
def test_inputs_are_bounded(most: int | None, exceeds: bool) -> None:
    x = torch.zeros(20)
    why = SizeLimit(most).exceeded_by([x, x[:3], 4])
    assert bool(why) is exceeds
    if exceeds:
        assert why == "its inputs have 8e-05 MB, more than --max-bytes (7.9e-05 MB)"


def test_half_of_the_memory_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "ctrace.inspector.features.accuracy.child.kernel_judge"
    monkeypatch.setattr(f"{module}.memory", lambda: 64 << 20)
    assert "a sixteenth of the free memory" in SizeLimit(None).exceeded_by([torch.zeros(8 << 20)])
