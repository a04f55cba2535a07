"""Answer the program's calls of torch.cuda as the target GPU would (`DeviceAnswers`), and record them.

Dynamo recognizes these functions by identity, and its guards check that identity. So keep the functions and replace
their code. Torch's own calls get torch's answers.

`DeviceQuestions` records where the program asks about the device: each place once, with its source expression.
"""

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ctrace.inspector.capture.core.callers import OURS, folder_of_torch, folder_of_triton
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.target_gpu import DeviceQuestion
from ctrace.inspector.features.gpus.child.virtual_gpu import properties_of
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu
from ctrace.inspector.source.owners import owner_of

_LONG = 120
"""Characters of an expression that a message shows whole; a longer one is left out."""


class DeviceQuestions:
    """Records the program's questions; ignores those of torch and ctrace."""

    _latest: "DeviceQuestions | None" = None

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: set[tuple[str, int, str, str]] = set()
        self._prefixes: dict[str, str] = {}

    @classmethod
    def of(cls, recorder: Recorder) -> "DeviceQuestions":
        """Return the only instance for a capture, so that a place is recorded once."""
        if cls._latest is None or cls._latest._recorder is not recorder:
            cls._latest = cls(recorder)
        return cls._latest

    def in_frame(self, frame: Any, expression: str, answer: Any, *, as_target: bool) -> None:
        """Record a question from a frame of the running program."""
        position = _position(frame.f_code, frame.f_lasti)
        self._record(frame.f_code, frame.f_lineno, position, expression, answer, as_target=as_target)

    def traced(self, tx: Any, expression: str, answer: Any, *, as_target: bool = True) -> None:
        """Record a question from a function that Dynamo's `InstructionTranslator` is tracing."""
        positions = getattr(tx.current_instruction, "positions", None)
        position = None
        if positions is not None:
            position = tuple(positions)
        self._record(tx.f_code, tx.lineno, position, expression, answer, as_target=as_target)

    def _record(
        self, code: CodeType, line: int, position: Any, expression: str, answer: Any, *, as_target: bool
    ) -> None:
        # Torch asks by itself, too, and the report is of the program's questions.
        if self.is_torchs(code.co_filename):
            return
        words = _words(code.co_filename, position) or expression
        # With the answer: a line in a loop may get several.
        key = (code.co_filename, line, words, str(answer))
        if key in self._known:
            return
        self._known.add(key)
        question = DeviceQuestion(code.co_filename, line, code.co_name, words, str(answer), as_target)
        self._recorder.add(question, at={})

    def is_torchs(self, file: str) -> bool:
        """Whether a file belongs to torch, Triton or ctrace."""
        if not self._prefixes:
            folder = folder_of_torch().rstrip("/")
            self._prefixes = {**library_prefixes(), folder: Owner.TORCH}
        if file.startswith((OURS, folder_of_triton())):
            return True
        return owner_of(file, self._prefixes) is Owner.TORCH


def _position(code: CodeType, at: int) -> tuple[int | None, ...] | None:
    """Return the lines (first, last) and columns (first, last) of the instruction at an offset (Python 3.11)."""
    # One entry for each code unit of two bytes.
    return next((each for index, each in enumerate(code.co_positions()) if index == at // 2), None)


def _words(file: str, position: tuple[int | None, ...] | None) -> str:
    """Return the expression at a position, or "" if it is long or spans several lines; columns count UTF-8 bytes."""
    if position is None or None in position:
        return ""
    first, last, begin, end = position
    if first != last:
        return ""
    line = linecache.getline(file, first or 0).encode()
    words = line[begin:end].decode(errors="replace").strip()
    if len(words) <= _LONG:
        return words
    return ""


NO_ANSWER = ("get_device_capability", "get_device_name", "get_device_properties", "current_device")
"""Functions that raise without a GPU: always answered as the target.

Torch's own code asks them only where there is a GPU (2.13), or in the program's name: while Dynamo traces a call, in a
guard on `current_device()`, and in a graph, where `get_device_capability()` is a node.
"""
_AUTOCAST_ASKS = ("is_bf16_supported",)
"""What autocast asks in the program's name; older GPUs emulate bfloat16 (amp/autocast_mode.py, 2.11 to 2.13)."""


def facts(gpu: TargetGpu, count: int = 1, *, is_present: bool = False) -> Hook:
    """Make the hook that answers the program's calls of torch.cuda.

    `count` is the number of GPUs that a process sees; `is_present`: the program finds them when it asks.
    """

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:

            def install(cuda: ModuleType) -> None:
                with recorder.watching("calls of torch.cuda"):
                    facts = DeviceAnswers.current = DeviceAnswers(gpu, DeviceQuestions.of(recorder), count)
                    # A real GPU answers for itself.
                    facts.as_target = facts.is_present = is_present and not cuda.device_count()
                    for name in facts.answers:
                        facts.originals[name] = patches.enter_context(_recoded(getattr(cuda, name)))

            when("torch.cuda", install)
            try:
                yield
            finally:
                patches.close()
                DeviceAnswers.current = None

    return hook


class DeviceAnswers:
    """Answers each caller about the device, as the target or as torch does."""

    current: "DeviceAnswers | None" = None

    def __init__(self, gpu: TargetGpu, questions: DeviceQuestions, count: int = 1) -> None:
        properties = properties_of(gpu)
        self._questions = questions
        self.as_target = False
        """Whether every call gets the target's answer."""
        self.is_present = False
        """Whether a whole program finds the GPU, not only compiled code."""
        self.count = count
        self.index = 0
        """The current GPU, by its number."""
        self.originals: dict[str, Callable[..., Any]] = {}
        self.answers: dict[str, Any] = {
            "is_available": True,
            "device_count": count,
            "current_device": 0,
            "get_device_capability": gpu.capability,
            "get_device_name": gpu.title,
            "get_device_properties": properties,
            "is_bf16_supported": gpu.capability >= (8, 0),
        }

    def choose(self, device: Any) -> None:
        """Make a GPU the current one: a number, a device, its name, or None for the same one."""
        import torch

        if isinstance(device, str):
            device = torch.device(device)
        number = getattr(device, "index", device)
        if isinstance(number, int) and number >= 0:
            self.index = number

    def answer(self, name: str, args: Any, kwargs: Any) -> Any:
        """Answer one call as the target or as torch does."""
        # `answer`, `answered` and the recoded function lie between.
        frame = sys._getframe(3)
        if name == "current_device":
            self.answers[name] = self.index
        # Torch's own question gets torch's answer, or its code would try to use a GPU that is not there.
        if self._questions.is_torchs(frame.f_code.co_filename):
            if name in _AUTOCAST_ASKS:
                return True
            if name in NO_ANSWER:
                return self.answers[name]
            return self.originals[name](*args, **kwargs)
        as_target = self.as_target or name in NO_ANSWER
        if as_target:
            answer = self.answers[name]
        else:
            answer = self.originals[name](*args, **kwargs)
        self._questions.in_frame(frame, f"torch.cuda.{name}()", shown_answer(name, answer), as_target=as_target)
        return answer


def shown_answer(name: str, answer: Any) -> Any:
    """Return what the record of an answer of `torch.cuda.<name>` shows: of properties, only whose they are."""
    if name == "get_device_properties":
        return f"those of {answer.name}"
    return answer


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
_REPLACING = """
def {name}(*args, **kwargs):
    from ctrace.inspector.features.gpus.child.torch_cuda_answers import replacing
    return replacing({name!r}, args, kwargs)
"""
_replacing: dict[str, Callable[..., Any]] = {}
"""What runs in place of a function of torch, by module and name."""


def replacing(name: str, args: Any, kwargs: Any) -> Any:
    """Run what is in the place of a function of torch."""
    return _replacing[name](*args, **kwargs)


@contextmanager
def recoded(function: FunctionType, by: Callable[..., Any]) -> Iterator[None]:
    """Let a function run another one, whoever calls it, and stay the function that Dynamo knows."""
    key = f"{function.__module__}.{function.__name__}"
    code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
    made: dict[str, Any] = {}
    # The name in the call becomes that of module and function, as names alone are not unique.
    exec(
        compile(
            _REPLACING.format(name=function.__name__).replace(repr(function.__name__), repr(key)), __file__, "exec"
        ),
        made,
    )
    _replacing[key] = by
    function.__code__, function.__defaults__, function.__kwdefaults__ = made[function.__name__].__code__, None, None
    try:
        yield
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, keywords


@contextmanager
def _recoded(function: FunctionType) -> Iterator[Callable[..., Any]]:
    """Redirect a function to `answered`, and return its original code as another function."""
    code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
    # The original code needs a function of its own, because that of torch has other code from here on.
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
