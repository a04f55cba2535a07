"""Answer the program's calls of torch.cuda as the target GPU would, and record them.

Dynamo recognizes these functions by identity, and its guards check that identity. So keep the functions and replace
their code. Torch's own calls get torch's answers.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.features.gpus.child.device_questions import DeviceQuestions
from ctrace.inspector.features.gpus.child.virtual_gpu import properties_of
from ctrace.inspector.knowledge.gpus.gpu import TargetGpu

_NO_ANSWER = ("get_device_capability", "get_device_name", "get_device_properties", "current_device")
"""Functions that raise without a GPU: always answered as the target."""


def facts(gpu: TargetGpu) -> Source:
    """Make the source that answers the program's calls of torch.cuda."""

    @contextmanager
    def source(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:

            def install(cuda: ModuleType) -> None:
                with recorder.watching("calls of torch.cuda"):
                    facts = DeviceAnswers.current = DeviceAnswers(gpu, DeviceQuestions.of(recorder))
                    for name in facts.answers:
                        facts.originals[name] = patches.enter_context(_recoded(getattr(cuda, name)))

            when("torch.cuda", install)
            try:
                yield
            finally:
                patches.close()
                DeviceAnswers.current = None

    return source


class DeviceAnswers:
    """Answers each caller about the device, as the target or as torch does."""

    current: "DeviceAnswers | None" = None

    def __init__(self, gpu: TargetGpu, questions: DeviceQuestions) -> None:
        properties = properties_of(gpu)
        self._questions = questions
        self.as_target = False
        """Whether every call gets the target's answer."""
        self.originals: dict[str, Callable[..., Any]] = {}
        self.answers: dict[str, Any] = {
            "is_available": True,
            "device_count": 1,
            "current_device": 0,
            "get_device_capability": gpu.capability,
            "get_device_name": gpu.title,
            "get_device_properties": properties,
            "is_bf16_supported": gpu.capability >= (8, 0),
        }

    def answer(self, name: str, args: Any, kwargs: Any) -> Any:
        """Answer one call as the target or as torch does."""
        frame = sys._getframe(3)
        if self._questions.is_torchs(frame.f_code.co_filename):
            return self.originals[name](*args, **kwargs)
        as_target = self.as_target or name in _NO_ANSWER
        answer = self.answers[name] if as_target else self.originals[name](*args, **kwargs)
        shown = gpu_named(answer) if name == "get_device_properties" else answer
        self._questions.in_frame(frame, f"torch.cuda.{name}()", shown, as_target=as_target)
        return answer


def gpu_named(properties: Any) -> str:
    """Return the text for a device's properties in the record of an answer."""
    return f"those of {properties.name}"


def answered(name: str, args: Any, kwargs: Any) -> Any:
    """Answer a call of the recoded `torch.cuda.<name>`."""
    if DeviceAnswers.current is None:
        msg = f"torch.cuda.{name} was called after ctrace had restored it; please report this"
        raise RuntimeError(msg)
    return DeviceAnswers.current.answer(name, args, kwargs)


@contextmanager
def as_the_target() -> Iterator[None]:
    """Answer every call as the target until the end of the block."""
    facts = DeviceAnswers.current
    if facts is None:
        yield
        return
    before, facts.as_target = facts.as_target, True
    try:
        yield
    finally:
        facts.as_target = before


_CODE = """
def {name}(*args, **kwargs):
    from ctrace.inspector.features.gpus.child.torch_cuda_answers import answered
    return answered({name!r}, args, kwargs)
"""


@contextmanager
def _recoded(function: FunctionType) -> Iterator[Callable[..., Any]]:
    """Redirect a function to `answered`, and return its original code as another function."""
    code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
    before = FunctionType(code, function.__globals__, function.__name__, defaults, function.__closure__)
    before.__kwdefaults__ = keywords
    function.__code__, function.__defaults__, function.__kwdefaults__ = _stub(function.__name__), None, None
    try:
        yield before
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, keywords


def _stub(name: str) -> CodeType:
    made: dict[str, Any] = {}
    exec(compile(_CODE.format(name=name), __file__, "exec"), made)
    code: CodeType = made[name].__code__
    return code
