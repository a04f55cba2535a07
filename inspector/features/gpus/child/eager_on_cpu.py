"""Run code written for a GPU on a machine without one: put its GPU tensors on the CPU.

Torch passes every operation on tensors, and every factory call, to the active `TorchFunctionMode` (2.11 to 2.13,
torch/overrides.py). Dynamo guards on active modes, so none is active while the compiled model is called.

`StandIns` returns zeros of the right shape for ops that have no CPU kernel, and records these ops. With `--target`, a
program takes its GPU path with tensors on the CPU. An op on that path may have no CPU kernel, or none for its dtype;
`histc`, for example, has none for integers. Torch then raises NotImplementedError (c10/core,
`TORCH_CHECK_NOT_IMPLEMENTED`; dispatcher: "Could not run ... from the 'CPU' backend"); before 2.9 some kernels raise
RuntimeError with the same text. The op's meta kernel provides the shapes of the results.

Devices are translated: the program sees its tensors on the GPU; its graphs, which run on the CPU, get the CPU. A
literal "cpu" in the program is marked, because it means the CPU on a GPU machine, too.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType, ModuleType
from typing import Any

from ctrace.inspector.capture.core.callers import GRAPH_FILE
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.target_gpu import NOT_REAL, PUT_ON_CPU
from ctrace.inspector.features.gpus.child.torch_cuda_answers import DeviceQuestions, as_the_target

CPU = "cpu"
CUDA = "cuda"


class Literal(str):
    """A "cpu" in a graph that is a literal in the program."""

    __slots__ = ()


def is_gpu(value: Any) -> bool:
    """Whether a value is a CUDA device or its name."""
    if isinstance(value, str):
        # With the colon, since other names may begin so, too.
        return value == CUDA or value.startswith(f"{CUDA}:")
    return _is_device(value) and value.type == CUDA


def is_cpu(value: Any) -> bool:
    """Whether a value is the CPU device or its name."""
    if isinstance(value, str):
        # The program may name the CPU with a number, and torch takes no other than 0.
        return value in (CPU, f"{CPU}:0")
    return _is_device(value) and value.type == CPU


def on_cpu(value: Any) -> Any:
    """Return the CPU for a GPU; return anything else unchanged."""
    import torch

    if not is_gpu(value):
        return value
    if isinstance(value, str):
        return CPU
    return torch.device(CPU)


def the_gpu() -> Any:
    """Return the device that the program's tensors would be on."""
    import torch

    return torch.device(CUDA, 0)


def _is_device(value: Any) -> bool:
    import torch

    return isinstance(value, torch.device)


_LACKING = re.compile(r"not implemented for '|Could not run '")
_PLACE = re.compile(r'File "([^"\n]+)", line (\d+), in ')


class _Made:
    """The ops of a capture that returned zeros."""

    recorder: Recorder | None = None
    ops: dict[str, None]


def _why_not_real(recorder: Recorder) -> str:
    """Return why the program's values are not real, or "" if all are."""
    names = {}
    if _Made.recorder is recorder:
        names = _Made.ops
    return "; ".join(f"{name} has no kernel on the CPU and gave zeros" for name in names)


class StandIns:
    """Runs code with zeros as the results of ops without a CPU kernel."""

    def __init__(self, recorder: Recorder, target: str) -> None:
        self._recorder = recorder
        self._target = target
        self._questions = DeviceQuestions.of(recorder)

    @contextmanager
    def active(self, graph: Any = None, name: str = "") -> Iterator[None]:
        """Use zeros in the block, which runs eager code, or `graph` with the name `name`."""
        mode = _stand_in_mode(lambda func, error: self._record(func, error, graph, name))
        with mode:
            yield

    def in_graph(self, graph: Any, name: str) -> Callable[..., Any]:
        """Return a graph's forward, with zeros as the results of ops without a CPU kernel."""

        def forward(*args: Any) -> Any:
            with self.active(graph, name):
                return graph.forward(*args)

        return forward

    def _record(self, func: Any, error: Exception, graph: Any, name: str) -> None:
        # A process may capture several times, and what gave zeros then says nothing of this model.
        if _Made.recorder is not self._recorder:
            _Made.recorder, _Made.ops = self._recorder, {}
        _Made.ops[str(func)] = None
        # Some errors have no text, and their type then says the most.
        if str(error):
            first = str(error).splitlines()[0]
        else:
            first = type(error).__name__
        place = self._place(sys._getframe(2), graph)
        where = ""
        if place:
            where = f" at {place}"
        if name:
            where += f" in {name}"
        self._recorder.problem(
            f"values after {func}{where} {NOT_REAL} for it ({first}), so"
            f" it gave zeros; control flow that depends on them may differ from that on {self._target}"
        )

    def _place(self, frame: FrameType | None, graph: Any) -> str:
        """Return the program's innermost line, or the line from which the running node of `graph` was traced."""
        while frame is not None:
            file = frame.f_code.co_filename
            # The graph's own code is no file of the user, but its line leads to the node, which has the user's.
            if graph is not None and file.startswith(GRAPH_FILE):
                return _of_node(graph, frame.f_lineno)
            if not file.startswith("<") and not self._questions.is_torchs(file):
                return f"{file}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


@contextmanager
def traced_as_there(recorder: Recorder, when: When) -> Iterator[None]:
    """Let Dynamo trace ops that the CPU lacks, though their meta kernels refuse fake tensors on the CPU.

    Such a kernel calls `device_hint` (2.11 to 2.13, _meta_registrations.py). Change the answer of `device_hint` only
    after a refusal, so that the strides of all other results stay those of the CPU, where the graph runs.
    """
    recorder.doubts.append(lambda: _why_not_real(recorder))
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            with recorder.watching("ops that only the GPU has"):
                mode = module.FakeTensorMode
                patches.enter_context(patched(mode, "dispatch", _again_as_there(mode.dispatch)))
                module.log.addFilter(_is_no_refusal)
                patches.callback(module.log.removeFilter, _is_no_refusal)

        when("torch._subclasses.fake_tensor", install)
        yield


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """Keep what torch logs about a meta kernel that refuses a tensor on the CPU off the screen: it is asked again.

    An op that is refused a second time raises with the same text.
    """
    error = None
    if record.exc_info:
        error = record.exc_info[1]
    return error is None or _LACKING.search(str(error)) is None


def _again_as_there(original: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if not _LACKING.search(str(error)):
                raise
        from torch import _meta_registrations

        with patched(_meta_registrations, "device_hint", lambda _tensor: "cuda"):
            return original(*args, **kwargs)

    return dispatch


def _of_node(graph: Any, line: int) -> str:
    """Return the program's line behind a line of a graph's code, or "" (2.11 to 2.13, fx/graph.py: `PythonCode`)."""
    # The map begins after the lines that torch puts before the code.
    number = (getattr(graph, "_lineno_map", None) or {}).get(line - getattr(graph, "_prologue_start", 0))
    nodes = list(graph.graph.nodes)
    stack = None
    if number is not None and number < len(nodes):
        stack = nodes[number].meta.get("stack_trace")
    places = _PLACE.findall(stack or "")
    if places:
        return f"{places[-1][0]}:{places[-1][1]}"
    return ""


def _stand_in_mode(say: Callable[[Any, Exception], None]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class _Zeros(TorchDispatchMode):
        supports_higher_order_operators = True  # such as a user's Triton kernel, or torch.cond

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            try:
                return func(*args, **(kwargs or {}))
            except (NotImplementedError, RuntimeError) as error:
                if not _LACKING.search(str(error)):
                    raise
                # The results first: if no meta kernel knows them, torch's error goes on, and nothing is recorded.
                results = _zeros(func, args, kwargs or {}, error)
                say(func, error)
                return results

    return _Zeros()


def _zeros(func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
    """Return zeros in the shapes of an op's results; leave an argument unchanged that the op would write into.

    Call the op's meta kernel with meta tensors: where devices differ, it then follows the GPU's rules (2.11 to 2.13,
    _meta_registrations.py: `device_hint`); with fake tensors on the CPU, it would follow the CPU's.

    Raises:
        Exception: `error`, if no meta kernel knows the results.
    """
    from torch.utils import _pytree
    from torch.utils._python_dispatch import _disable_current_modes

    originals: dict[int, Any] = {}
    # Without this mode, which would catch the refusal of the meta kernel, too.
    with _disable_current_modes():
        try:
            positional, named = _pytree.tree_map(lambda value: _meta(value, originals), (args, kwargs))
            results = func(*positional, **named)
        except Exception:
            raise error from None
        return _pytree.tree_map(lambda value: _zero(value, originals), results)


def _meta(value: Any, originals: dict[int, Any]) -> Any:
    import torch

    if isinstance(value, torch.device):
        return torch.device("meta")
    if not isinstance(value, torch.Tensor):
        return value
    # With the strides of the real tensor: a meta kernel derives those of its results from them.
    made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    originals[id(made)] = (value, made)  # keep `made` alive, so that no other tensor gets its id
    return made


def _zero(value: Any, originals: dict[int, Any]) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    # The op returns an argument, so its result is that tensor, with what it held.
    if id(value) in originals:
        return originals[id(value)][0]
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype).zero_()


class Pretence:
    """Pretends to an eager program that the GPU exists."""

    def __init__(self, recorder: Recorder, target: str) -> None:
        self._recorder = recorder
        self._questions = DeviceQuestions.of(recorder)
        self._stand_ins = StandIns(recorder, target)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Put GPU tensors on the CPU in the block, which creates a model and its inputs; tensors report the CPU."""
        with self._reading({}):
            yield

    @contextmanager
    def running(self) -> Iterator[None]:
        """Put GPU tensors on the CPU in the block, which calls a model in eager; tensors report the GPU."""
        import torch

        tensor: Any = torch.Tensor
        answers = {
            tensor.is_cuda.__get__: True,
            tensor.is_cpu.__get__: False,
            tensor.get_device: 0,
            tensor.device.__get__: the_gpu(),
        }
        # What the model itself compiles would be compiled under these modes, which Dynamo guards on.
        eagerly = torch.compiler.set_stance("force_eager")
        with self._reading(answers), as_the_target(), eagerly, self._stand_ins.active():
            yield

    @contextmanager
    def _reading(self, answers: dict[Any, Any]) -> Iterator[None]:
        import torch

        # With a GPU, the program gets what it asks for.
        if torch.cuda.is_available():
            yield
            return
        with ExitStack() as patches:
            with self._recorder.watching("code that is written for a GPU"):
                patches.enter_context(patched(torch, "set_default_device", self._default(torch.set_default_device)))
                patches.enter_context(patched(torch.cuda, "set_device", lambda _device: None))
                patches.enter_context(_mode(self._questions, answers))
            yield

    def _default(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_default_device(device: Any) -> None:
            if is_gpu(device):
                self._questions.in_frame(sys._getframe(1), "torch.set_default_device()", PUT_ON_CPU, as_target=False)
            original(on_cpu(device))

        return set_default_device


def _mode(questions: DeviceQuestions, answers: dict[Any, Any]) -> AbstractContextManager[Any]:
    from torch.overrides import TorchFunctionMode

    calls = _Calls(questions, answers)

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return calls.call(func, args, kwargs or {}, sys._getframe(1))

    return OnCpu()


class _Calls:
    """Redirects torch calls from the GPU to the CPU."""

    def __init__(self, questions: DeviceQuestions, answers: dict[Any, Any]) -> None:
        from torch.utils.weak import WeakIdKeyDictionary

        self._questions = questions
        self._answers = answers
        self._stay = WeakIdKeyDictionary()
        """Tensors that would be on the CPU even with a GPU."""

    def call(self, func: Any, args: Any, kwargs: dict[str, Any], frame: FrameType) -> Any:
        """Make a torch call from `frame`, or answer it."""
        import torch

        if func in self._answers and args[0].device.type == "cpu":
            # A tensor that a GPU machine has on the CPU, too, tells the truth.
            if args[0] in self._stay:
                return func(*args)
            return self._answer(func, frame)
        values = (*args, *kwargs.values())
        on_gpu = func is torch.Tensor.cuda or any(map(is_gpu, values))
        if on_gpu and not self._answers:  # in `running`, the compiled call records it
            record_gpu(self._questions, frame)
        if func is torch.Tensor.cuda:
            # The tensor itself, as torch returns it where it is on the device already.
            return args[0]
        result = func(*map(on_cpu, args), **{name: on_cpu(value) for name, value in kwargs.items()})
        if self._answers and not on_gpu and isinstance(result, torch.Tensor):
            self._follow(func, values, result)
        return result

    def _answer(self, func: Any, frame: FrameType) -> Any:
        import torch

        tensor: Any = torch.Tensor
        if func != tensor.device.__get__:  # torch reads the device more often than the program does
            self._questions.in_frame(frame, str(func), self._answers[func], as_target=True)
        return self._answers[func]

    def _follow(self, func: Any, values: Any, result: Any) -> None:
        """Remember a result that even a GPU machine has on the CPU: created there, or computed from such tensors."""
        import torch

        tensors = _tensors(values)
        # Also with no tensor among the arguments: a factory without a device makes its tensor on the CPU.
        if func is torch.Tensor.cpu or any(map(is_cpu, values)) or all(each in self._stay for each in tensors):
            self._stay[result] = True


def _tensors(values: Any) -> list[Any]:
    import torch

    flat = [each for value in values for each in (value if isinstance(value, tuple | list) else (value,))]
    return [each for each in flat if isinstance(each, torch.Tensor)]


def record_gpu(questions: DeviceQuestions, frame: FrameType | None) -> None:
    """Record a request for the device "cuda", at the program's line that calls torch."""
    while frame is not None and questions.is_torchs(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None:
        questions.in_frame(frame, "cuda", PUT_ON_CPU, as_target=False)
