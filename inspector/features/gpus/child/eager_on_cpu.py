"""Run code written for a GPU on a machine without one: put its GPU tensors on the CPU.

Torch passes every operation on tensors, and every factory call, to the active `TorchFunctionMode` (2.11 to 2.13,
torch/overrides.py). Dynamo guards on active modes, so none is active while the compiled model is called.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.features.gpus.child.device_questions import DeviceQuestions
from ctrace.inspector.features.gpus.child.devices import is_cpu, is_gpu, on_cpu, the_gpu
from ctrace.inspector.features.gpus.child.stand_ins import StandIns
from ctrace.inspector.features.gpus.child.torch_cuda_answers import as_the_target

_ON_CPU = "put on the CPU: this machine has no such GPU"


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
        eagerly = torch.compiler.set_stance("force_eager")
        with self._reading(answers), as_the_target(), eagerly, self._stand_ins.active():
            yield

    @contextmanager
    def _reading(self, answers: dict[Any, Any]) -> Iterator[None]:
        import torch

        if torch.cuda.is_available():
            yield
            return
        with ExitStack() as patches:
            with self._recorder.watching("code that is written for a GPU"):
                patches.enter_context(patched(torch, "set_default_device", self._default(torch.set_default_device)))
                patches.enter_context(_mode(self._questions, answers))
            yield

    def _default(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_default_device(device: Any) -> None:
            if is_gpu(device):
                self._questions.in_frame(sys._getframe(1), "torch.set_default_device()", _ON_CPU, as_target=False)
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
            if args[0] in self._stay:
                return func(*args)
            return self._answer(func, frame)
        values = (*args, *kwargs.values())
        on_gpu = func is torch.Tensor.cuda or any(map(is_gpu, values))
        if on_gpu and not self._answers:  # in `running`, the compiled call records it
            _record(self._questions, frame)
        if func is torch.Tensor.cuda:
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
        if func is torch.Tensor.cpu or any(map(is_cpu, values)) or all(each in self._stay for each in tensors):
            self._stay[result] = True


def _tensors(values: Any) -> list[Any]:
    import torch

    flat = [each for value in values for each in (value if isinstance(value, tuple | list) else (value,))]
    return [each for each in flat if isinstance(each, torch.Tensor)]


def _record(questions: DeviceQuestions, frame: FrameType | None) -> None:
    """Record a request for the device "cuda", at the program's line that calls torch."""
    while frame is not None and questions.is_torchs(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None:
        questions.in_frame(frame, "cuda", _ON_CPU, as_target=False)
