"""Times of CUDA graphs, with stand-ins for what needs a GPU: what runs, on which memory, and when nothing does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.core.part import PartIdentity  # noqa: E402
from ctrace.inspector.capture.core.patch import patched  # noqa: E402
from ctrace.inspector.capture.core.recorder import Postponed  # noqa: E402
from ctrace.inspector.capture.kernels import record_cuda_graphs  # noqa: E402
from ctrace.inspector.capture.kernels.record_cuda_graphs import CudaGraphPiece, ReplayTimes  # noqa: E402
from ctrace.inspector.facts.kernel_facts import Stage  # noqa: E402
from ctrace.inspector.facts.wire import Record, payload_of  # noqa: E402

PIECE = CudaGraphPiece(PartIdentity({"frame_id": 0, "frame_compile_id": 0, "attempt": 0}, Stage.INFERENCE), 0)


class Log:
    """A recorder that keeps what it is given, and lets failures through."""

    def __init__(self) -> None:
        self.postponed = Postponed()
        self.records: list[dict[str, Any]] = []

    def add(self, record: Record, at: Any = None) -> None:
        self.records.append({name: each for name, each in payload_of(record).items() if each is not None})

    def watching(self, _what: str) -> Any:
        return nullcontext()


class Graph:
    """In place of torch.cuda.CUDAGraph."""

    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1


@pytest.fixture
def gpu() -> Iterator[list[Graph]]:
    """Let code for a GPU run on the CPU; yield the CUDA graphs that it makes."""
    made: list[Graph] = []

    def graph() -> Graph:
        made.append(Graph())
        return made[-1]

    stream = SimpleNamespace(wait_stream=lambda _other: None)
    with ExitStack() as patches:
        stand_ins: dict[str, Any] = {
            "device": lambda _device: nullcontext(),
            "Stream": lambda: stream,
            "current_stream": lambda: stream,
            "stream": lambda _stream: nullcontext(),
            "synchronize": lambda: None,
            "CUDAGraph": graph,
            "graph": lambda *_args, **_named: nullcontext(),
        }
        for name, stand_in in stand_ins.items():
            patches.enter_context(patched(torch.cuda, name, stand_in))
        patches.enter_context(patched(record_cuda_graphs, "_BLOCK_SECONDS", 0.0))
        real = torch.device
        patches.enter_context(patched(torch, "device", lambda *_args: real("cpu")))
        yield made


class Program:
    """Records the CUDA graph of one function, as torch does."""

    def __init__(self, model: Callable[[list[Any]], Any], *, static: tuple[int, ...] = (), mutated: Any = ()) -> None:
        self.log = Log()
        self.times = ReplayTimes(self.log)  # type: ignore[arg-type]
        self.calls: list[list[Any]] = []

        def boxed(inputs: list[Any]) -> Any:
            self.calls.append(list(inputs))
            inputs.clear()
            return model(self.calls[-1])

        self.code = boxed
        function = SimpleNamespace(model=boxed, static_input_idxs=static, mutated_input_idxs=mutated)
        self.manager = SimpleNamespace(ids_to_funcs={0: function}, device_index=0, current_node=None)

    def record(self, *inputs: Any, sizes: str = "[4]") -> None:
        self.times.keep(PIECE, sizes, self.manager, list(inputs), 0)

    def untimed(self) -> list[str]:
        return [each["untimed"] for each in self.log.records if each.get("untimed")]


def test_nothing_runs_before_the_program_is_over(gpu: list[Graph]) -> None:
    program, weight = Program(lambda inputs: inputs[0] * inputs[1], static=(1,)), torch.ones(4)
    x = torch.full((4,), 2.0)
    program.record(x, weight)
    x.zero_()  # the program goes on
    assert (program.calls, program.log.records, gpu) == ([], [], [])
    program.log.postponed.measure()
    (graph,) = gpu
    assert graph.replays > 0
    (found,) = program.log.records
    assert found["what"] == "timed"
    assert found["replay"] > 0
    assert found["launched"] > 0
    for call in program.calls:
        assert torch.equal(call[0], torch.full((4,), 2.0))  # as it was when torch recorded
        assert call[0].data_ptr() != x.data_ptr()
        assert call[1] is weight


@pytest.mark.parametrize(
    ("options", "model", "why"),
    [
        ({"mutated": (0,)}, lambda inputs: inputs[0].add_(1), "it changes its inputs"),
        ({}, lambda inputs: inputs[0] + torch.rand(4), "it draws random numbers"),
    ],
)
def test_what_would_change_something_is_not_timed(
    options: dict[str, Any], model: Callable[[list[Any]], Any], why: str, gpu: list[Graph]
) -> None:
    program, before = Program(model, **options), torch.get_rng_state()
    program.record(torch.ones(4))
    program.log.postponed.measure()
    assert program.untimed() == [why]
    assert torch.equal(torch.get_rng_state(), before)
    assert gpu == []


@pytest.mark.parametrize("is_freed", [True, False])
def test_a_weight_that_is_gone_is_not_read(is_freed: bool, gpu: list[Graph]) -> None:
    program = Program(lambda inputs: inputs[0] * inputs[1], static=(1,))
    weight = torch.ones(4)
    program.record(torch.ones(4), weight)
    if is_freed:
        del weight
    else:
        weight.data = torch.ones(4)  # as `model.cpu()` does
    program.log.postponed.measure()
    assert program.untimed() == ["what it reads was freed before the program ended"]
    assert (program.calls, gpu) == ([], [])


def test_code_that_torch_dropped_is_not_run(gpu: list[Graph]) -> None:
    program = Program(lambda inputs: inputs[0])
    program.record(torch.ones(4))
    program.manager.ids_to_funcs.clear()
    del program.code
    program.log.postponed.measure()
    assert program.untimed() == ["what it reads was freed before the program ended"]
    assert gpu == []


def test_inputs_too_large_to_keep(gpu: list[Graph]) -> None:
    program = Program(lambda inputs: inputs[0])
    with patched(record_cuda_graphs, "_LARGEST", 100):
        program.record(torch.ones(20))
        program.record(torch.ones(20), sizes="[21]")
    program.log.postponed.measure()
    assert program.untimed() == ["its inputs are too large to keep until the program ends"]
    assert len(gpu) == 1


def test_each_size_is_timed_once_and_a_failed_program_is_not(gpu: list[Graph]) -> None:
    program = Program(lambda inputs: inputs[0])
    for sizes in ("[4]", "[4]", "[5]"):
        program.record(torch.ones(4), sizes=sizes)
    program.log.postponed.refuse("the program failed")
    program.log.postponed.measure()
    assert program.untimed() == ["the program failed"] * 2
    assert (program.calls, gpu) == ([], [])


def test_results_of_other_graphs_are_copied_not_referred_to(gpu: list[Graph]) -> None:
    """A static input that another CUDA graph made is overwritten by the next one."""
    program, made = Program(lambda inputs: inputs[0] + inputs[1], static=(1,)), torch.full((4,), 3.0)
    program.manager.current_node = SimpleNamespace(_is_cuda_graph_recorded_tensor=lambda tensor: tensor is made)
    program.record(torch.ones(4), made)
    made.zero_()
    program.log.postponed.measure()
    assert torch.equal(program.calls[0][1], torch.full((4,), 3.0))
    assert len(gpu) == 1
