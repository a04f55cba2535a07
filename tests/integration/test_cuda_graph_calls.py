"""What ctrace says of calls of CUDA graphs, from torch's own decisions, made without a GPU."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphEvent, CudaGraphStatus
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.findings.cuda_graph_fold import cuda_graphs_of
from ctrace.inspector.findings.cuda_graph_view import outlook, remedy, why_not_recorded
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.log.dispatch import decode

torch = pytest.importorskip("torch")

from torch._dynamo.mutation_guard import GenerationTracker  # noqa: E402

from ctrace.inspector.capture.core.part import PartIdentity  # noqa: E402
from ctrace.inspector.capture.core.patch import patched  # noqa: E402
from ctrace.inspector.capture.core.recorder import Recorder  # noqa: E402
from ctrace.inspector.capture.core.trace_log import TraceLog  # noqa: E402
from ctrace.inspector.capture.kernels.record_cuda_graphs import CudaGraphCalls, CudaGraphPiece  # noqa: E402
from ctrace.inspector.facts.cuda_graphs import CudaGraphCalled  # noqa: E402
from ctrace.inspector.log.reader import LogEntry, read  # noqa: E402
from tests.support.cuda_graph_trees import Manager, new_step, without_a_gpu  # noqa: E402


class Program:
    """Calls functions as compiled code does, with ctrace's hooks in place or without them."""

    def __init__(self, manager: Manager, recorder: Recorder | None, log: Path) -> None:
        self._manager = manager
        self._recorder = recorder
        self._log = log
        self.now = threading.local()

    def compiled(
        self, model: Callable[[list[Any]], Any], graph: int = 0, mode: str = "INFERENCE", **options: Any
    ) -> Callable[..., Any]:
        run = self._manager.function(model, mode, **options)
        context = {"frame_id": graph, "frame_compile_id": 0, "attempt": 0}
        piece = CudaGraphPiece(PartIdentity(context, Stage(mode.lower())), 0)
        if self._recorder is not None:
            piece.part.add(self._recorder, CudaGraphCalled(piece.part.stage))

        def call(*inputs: Any) -> Any:
            self.now.piece = piece
            try:
                return run(list(inputs))[0]
            finally:
                self.now.piece = None

        return call

    def found(self) -> list[CudaGraph]:
        """Return what the view shows."""
        assert self._recorder is not None
        self._recorder.postponed.refuse("this is a test")
        raw = CollectedLog(prefixes={})
        for entry in read(self._log):
            assert isinstance(entry, LogEntry)
            assert entry.kind == "artifact:ctrace_cuda_graph", entry.payload
            event = decode(entry)
            assert isinstance(event, CudaGraphEvent)
            raw.cuda_graphs.append(event)
        return list(cuda_graphs_of(raw))


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    from torch._inductor import cudagraph_trees

    log = tmp_path / "trace.log"
    with without_a_gpu() as manager, ExitStack() as patches:
        recorder = Recorder(TraceLog(log))
        made = Program(manager, recorder, log)
        CudaGraphCalls(recorder, made.now).install(cudagraph_trees, patches)
        yield made


def double(inputs: list[Any]) -> list[Any]:
    return [inputs[0] * 2]


def add(inputs: list[Any]) -> list[Any]:
    return [inputs[0] + inputs[1]]


X = torch.ones(4)


def test_a_loop_of_inference_records_at_the_second_call(program: Program) -> None:
    f = program.compiled(double)
    out = None
    for _ in range(4):
        new_step()
        out = f(X)
    (found,) = program.found()
    assert (found.status, found.recordings, found.again) == (CudaGraphStatus.RECORDED, 1, ())
    assert torch.equal(out, X * 2)


def test_one_call_is_only_a_warm_up(program: Program) -> None:
    f = program.compiled(double)
    new_step()
    f(X)
    (found,) = program.found()
    assert (found.status, found.recordings) == (CudaGraphStatus.UNKNOWN, 0)
    assert why_not_recorded(found) == ("torch records at the second call, and there was only one",)


@pytest.mark.parametrize("is_held", [True, False])
def test_a_forward_whose_results_are_held_waits_for_a_backward(program: Program, is_held: bool) -> None:
    f = program.compiled(double, mode="FORWARD")
    held = None
    for _ in range(5):
        new_step()
        result = f(X)
        held = result if is_held else None
        del result
    (found,) = program.found()
    if not is_held:
        assert found.status is CudaGraphStatus.RECORDED
        return
    assert held is not None
    assert (found.status, found.recordings) == (CudaGraphStatus.UNKNOWN, 0)
    (why,) = why_not_recorded(found)
    assert "pending, uninvoked backwards" in why
    assert "torch.no_grad()" in remedy(found)


def test_a_backward_ends_the_wait(program: Program) -> None:
    forward, backward = program.compiled(double, mode="FORWARD"), program.compiled(double, 1, mode="BACKWARD")
    held = None
    for _ in range(3):
        new_step()
        held = forward(X)
        backward(X)
    assert [(each.status, each.recordings) for each in program.found()] == [
        (CudaGraphStatus.RECORDED, 1),
        (CudaGraphStatus.RECORDED, 1),
    ]
    assert held is not None


def test_graphs_of_one_call_follow_each_other(program: Program) -> None:
    first, second = program.compiled(double), program.compiled(add, 1)
    for _ in range(4):
        new_step()
        y = first(X)
        z = second(y, X)
    found = program.found()
    assert [each.recordings for each in found] == [1, 1]
    assert torch.equal(z, X * 3)


def test_another_order_is_another_recording(program: Program) -> None:
    """In the second half of the calls, the second graph runs without the first one."""
    first, second = program.compiled(double), program.compiled(double, 1)
    for number in range(6):
        new_step()
        y = first(X) if number < 3 else X
        z = second(y)
    _, found = program.found()
    assert found.recordings == 2
    (again,) = found.again
    assert "runs first in its step" in again.text
    assert outlook(found) == "recorded again with the same sizes"
    assert z is not None


def test_results_of_one_step_name_the_graph_before(program: Program) -> None:
    f = program.compiled(double)
    for _ in range(3):
        new_step()
        results = [f(X), f(X + 1)]
    (found,) = program.found()
    assert found.recordings == 2
    assert [each.text for each in found.again] == [
        "it follows graph 0/0 inference, whose results are still alive, and its earlier recordings do not"
    ]
    assert len(results) == 2


def test_a_weight_that_moves_is_named(program: Program) -> None:
    f = program.compiled(add, static=(1,))
    kept = []
    for _ in range(5):
        kept.append(torch.ones(4))
        new_step()
        f(X, kept[-1])
    (found,) = program.found()
    assert found.recordings == 4
    assert all("static input data pointer changed: arg1_1" in each.text for each in found.again)


def test_a_changed_input_is_skipped(program: Program) -> None:
    f = program.compiled(lambda inputs: [inputs[0].add_(1)], mutated=(0,))
    for _ in range(3):
        new_step()
        f(torch.ones(4))
    (found,) = program.found()
    assert (found.status, [each.text for each in found.reasons]) == (
        CudaGraphStatus.SKIPPED, ["mutated inputs (1 instances)"]
    )  # fmt: skip


def test_forced_warm_ups_are_named(program: Program) -> None:
    f = program.compiled(double)
    with torch._inductor.config.patch({"triton.force_cudagraphs_warmup": True}):
        for _ in range(3):
            new_step()
            f(X)
    (found,) = program.found()
    assert found.held_back == ("force_cudagraphs_warmup is on",)


def _history(seed: int, hooks: Callable[[Manager, threading.local], ExitStack]) -> list[Any]:
    """Run a random program; return its results, and what torch recorded and warmed up after each call."""
    chance = random.Random(seed)
    GenerationTracker.generation = 0
    with without_a_gpu() as manager:
        now = threading.local()
        with hooks(manager, now):
            calls = Program(manager, None, Path())
            calls.now = now
            modes = ["INFERENCE", chance.choice(["INFERENCE", "FORWARD"]), "FORWARD"]
            functions = [calls.compiled(double, number, mode) for number, mode in enumerate(modes)]
            backward = calls.compiled(double, 3, "BACKWARD")
            held: list[Any] = []
            seen: list[Any] = []
            for _ in range(40):
                if chance.random() < 0.6:
                    new_step()
                step = GenerationTracker.generation
                of_step = [each for number, each in held if number == step]
                x = of_step[-1] if of_step and chance.random() < 0.5 else torch.full((4,), chance.random())
                out = chance.choice([*functions, backward])(x)
                seen.append((out.tolist(), manager.path_state.name, len(manager.warmed_up_functions)))
                if chance.random() < 0.7:
                    held.append((step, out))
                if held and chance.random() < 0.4:
                    held.pop(chance.randrange(len(held)))
                del out, x, of_step
            return [*seen, manager.new_graph_id().id]


def _with_hooks(log: Path) -> Callable[[Manager, threading.local], ExitStack]:
    from torch._inductor import cudagraph_trees

    def hooks(_manager: Manager, now: threading.local) -> ExitStack:
        patches = ExitStack()
        CudaGraphCalls(Recorder(TraceLog(log)), now).install(cudagraph_trees, patches)
        return patches

    return hooks


def test_hooks_change_no_result_and_no_decision(tmp_path: Path) -> None:
    """Torch decides by what is alive and by what it is asked, so a careless hook would change what it records."""
    recordings = []
    for seed in range(120):
        alone = _history(seed, lambda _manager, _now: ExitStack())
        assert _history(seed, _with_hooks(tmp_path / f"{seed}.log")) == alone, seed
        recordings.append(alone[-1])
    assert len(set(recordings)) > 5  # the programs differ


def test_a_hook_that_keeps_results_would_be_seen(tmp_path: Path) -> None:
    kept: list[Any] = []

    def careless(manager: Manager, _now: threading.local) -> ExitStack:
        patches, run = ExitStack(), Manager.run

        def keeping(self: Manager, inputs: Any, number: Any) -> Any:
            kept.append(run(self, inputs, number))
            return kept[-1]

        patches.enter_context(patched(Manager, "run", keeping))
        return patches

    alone = [_history(seed, lambda _manager, _now: ExitStack()) for seed in range(20)]
    assert [_history(seed, careless) for seed in range(20)] != alone


def test_hooks_keep_nothing_alive(program: Program) -> None:
    """Torch decides by which tensors are alive: what a hook keeps would change what it records."""
    import weakref

    f = program.compiled(double)
    inputs = []
    for number in range(5):
        x = torch.full((4,), float(number))
        inputs.append(weakref.ref(x.untyped_storage()))
        new_step()
        result = f(x)
        del x, result
    assert [each() for each in inputs] == [None] * 5
