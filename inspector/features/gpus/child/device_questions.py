"""Record where the program asks about the device: each place once, with its source expression."""

import linecache
from types import CodeType
from typing import Any

from ctrace.inspector.capture.core.callers import OURS, folder_of_torch, folder_of_triton
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.target_facts import DeviceQuestion
from ctrace.inspector.source.owners import owner_of

_LONG = 120


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
        position = None if positions is None else tuple(positions)
        self._record(tx.f_code, tx.lineno, position, expression, answer, as_target=as_target)

    def _record(
        self, code: CodeType, line: int, position: Any, expression: str, answer: Any, *, as_target: bool
    ) -> None:
        if self.is_torchs(code.co_filename):
            return
        words = _words(code.co_filename, position) or expression
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
    return words if len(words) <= _LONG else ""
