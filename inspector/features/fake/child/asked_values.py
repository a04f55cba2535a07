"""Answer what the program asks about values that do not exist, or stop the call that asks.

An answer comes from the user (`--assume`) or from a small run, and each is recorded. Without one, the call stops at the
line that asks.
"""

import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.calling import CallStoppedError, with_causes
from ctrace.inspector.capture.core.callers import OURS, folder_of_torch
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.fake_facts import Assumed, AssumedFrom, Stopped
from ctrace.inspector.runs.options import Assumption

_LONGEST = 200
"""Characters of a line of code that is shown."""
_NO_ADDRESS = "Cannot access data pointer of Tensor"
"""What torch says to code that asks for the memory of a tensor that has none (2.13, a text of libc10)."""
READS_MEMORY = (
    "Code that reads memory cannot run under --fake: make it a torch.library.custom_op, and register_fake its shapes."
)
_FEATURE = f"{Path(__file__).parent}/"


class AskingPlace(Struct, frozen=True):
    """A place in the program that asks for a value."""

    file: str
    line: int
    column: int | None
    """Counted from 1; None: Python keeps none for it."""
    expression: str


class SmallAnswers:
    """What a small model answered, by place and call, in the order of the questions."""

    def __init__(self) -> None:
        self._calls: list[dict[tuple[str, int, int | None], list[bool | int | float]]] = []
        self._asked: dict[tuple[str, int, int | None], int] = {}

    def begin(self) -> None:
        """Begin the next call of the small model."""
        self._calls.append({})

    def add(self, spot: AskingPlace, value: bool | float) -> None:
        """Keep an answer of the current call."""
        self._calls[-1].setdefault(_key(spot), []).append(value)

    def again(self) -> None:
        """Note that a call of the large model begins: its first question gets the first answer."""
        self._asked = {}

    def next_at(self, spot: AskingPlace, call: int) -> bool | int | float | None:
        """Return the next answer at a place in a call, or the last one there; None: nothing was asked there."""
        key = _key(spot)
        # The last call stands for all after it: a loop that the program repeats asks the same each time.
        found = self._calls[min(call, len(self._calls) - 1)].get(key, [])
        number = self._asked.get(key, 0)
        self._asked[key] = number + 1
        if not found:
            return None
        return found[min(number, len(found) - 1)]


def _key(spot: AskingPlace) -> tuple[str, int, int | None]:
    return spot.file, spot.line, spot.column


class AskedValues:
    """Answers by the user's assumptions, call by call, and else by those of a small run."""

    def __init__(self, recorder: Recorder, assumptions: Sequence[Assumption]) -> None:
        self._recorder = recorder
        self._assumptions = assumptions
        self._torch_folder = folder_of_torch()
        self._recorded: set[tuple[Any, ...]] = set()
        self.call = 0
        """The number of the model's call, from 0: each assumption has a value for each call."""
        self.small: SmallAnswers | None = None
        self._records_stops = True

    def begin(self, call: int) -> None:
        """Note that a call of the model begins, by its number."""
        self.call = call
        if self.small is not None:
            self.small.again()

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Record no stop in the block, where none matters: an eager call that counts ops, a graph's eager code."""
        before, self._records_stops = self._records_stops, False
        try:
            yield
        finally:
            self._records_stops = before

    def value(self, func: Any, args: Any) -> Any:
        """Return the value that an op asks for.

        Raises:
            CallStoppedError: nobody assumes one.
        """
        if func.overloadpacket.__name__ == "equal" and self._is_own_question():
            return True  # ctrace compares a state with an earlier one: nothing is known to differ
        spot = self.spot()
        assumed = self.assumed(spot)
        if assumed is None:
            raise self.stop(spot, f"the value of `{spot.expression}` ({_op(func)})")
        # An assumption is written as a number, and the program may tell True from 1.
        is_boolean = getattr(args[0], "dtype", None) is sys.modules["torch"].bool
        if is_boolean:
            return bool(assumed)
        return assumed

    def size(self, func: Any) -> int:
        """Return the number of elements that an op finds.

        Raises:
            CallStoppedError: nobody assumes one.
        """
        spot = self.spot()
        assumed = self.assumed(spot)
        if assumed is None:
            raise self.stop(spot, f"how many elements `{spot.expression}` finds ({_op(func)})")
        return int(assumed)

    def without_fake_kernel(self, func: Any) -> CallStoppedError:
        """Return the error for an op of which nothing says what it returns."""
        name = str(func.overloadpacket).replace(".", "::", 1)
        todo = f'Register the shapes of its results: @torch.library.register_fake("{name}").'
        return self.stop(self.spot(), f"what {name} returns: it has no fake kernel", todo)

    def stop_of_reader(self, error: BaseException) -> CallStoppedError | None:
        """Return a stop for torch's refusal to give compiled code the address of values that do not exist.

        An extension that the program calls asks for it; the call stops there. None: the exception has another cause.
        """
        # Another library may wrap torch's refusal in an exception of its own.
        found = (each for each in with_causes(error) if isinstance(each, RuntimeError) and _NO_ADDRESS in str(each))
        refusal = next(found, None)
        own = [at for at in _tracebacks(refusal) if not self._is_passed(at.tb_frame.f_code.co_filename)]
        if not own:
            return None
        spot = _spot_of(own[-1].tb_frame.f_code, own[-1].tb_lasti, own[-1].tb_lineno)
        return self.stop(spot, f"the memory of values that do not exist, in `{spot.expression}`", READS_MEMORY)

    def carried(self, spot: AskingPlace, symbol: str) -> None:
        """Record that torch carries a value as a symbol."""
        self._record(spot, symbol, AssumedFrom.SYMBOL)

    def stop(self, spot: AskingPlace, asked: str, todo: str = "") -> CallStoppedError:
        """Record that a call stops at a place, and return the exception that stops it."""
        column = ""
        if spot.column is not None:
            column = f":{spot.column}"
        todo = todo or f'To go on, say what it is: --assume "{Path(spot.file).name}:{spot.line}{column}=VALUE".'
        if self._records_stops:
            self._recorder.add(Stopped(spot.file, spot.line, spot.column, asked, todo))
        return CallStoppedError(f"{spot.file}:{spot.line} asks for {asked}", todo)

    def assumed(self, spot: AskingPlace) -> bool | int | float | None:
        """Return what the user assumes for a place, or what a small run had there, and record it; None: neither."""
        for each in self._assumptions:
            if each.is_at(spot.file, spot.line, spot.column):
                # The last value holds for all calls after it, so that one value is enough for a place in a loop.
                value = each.values[min(self.call, len(each.values) - 1)]
                self._record(spot, str(value), AssumedFrom.USER)
                return value
        found = None
        if self.small is not None:
            found = self.small.next_at(spot, self.call)
        if found is not None:
            self._record(spot, str(found), AssumedFrom.SMALL_RUN)
        return found

    def _record(self, spot: AskingPlace, value: str, origin: AssumedFrom) -> None:
        key = (spot, value, origin)
        if key not in self._recorded:
            self._recorded.add(key)
            self._recorder.add(Assumed(spot.file, spot.line, spot.column, spot.expression, value, origin))

    def spot(self, of: str = "") -> AskingPlace:
        """Return the innermost place outside of torch, ctrace and the package of a module that led here."""
        package = of.partition(".")[0]
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (self._is_passed(frame.f_code.co_filename) or _is_of(frame, package)):
            frame = frame.f_back
        if frame is None:
            return AskingPlace("<unknown>", 0, None, "")
        return _spot_of(frame.f_code, frame.f_lasti, frame.f_lineno)

    def _is_own_question(self) -> bool:
        """Whether ctrace asks, not the program."""
        frame: FrameType | None = sys._getframe(1)
        # What lies between is torch's, and this feature's hooks: the first frame beyond them asks.
        while frame is not None and frame.f_code.co_filename.startswith((self._torch_folder, _FEATURE, "<")):
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(OURS)

    def _is_passed(self, file: str) -> bool:
        return file.startswith((self._torch_folder, OURS, "<"))


def _tracebacks(error: BaseException | None) -> Iterator[TracebackType]:
    """Yield the places that an exception has come through, the innermost last; nothing without one."""
    at = None
    if error is not None:
        at = error.__traceback__
    while at is not None:
        yield at
        at = at.tb_next


def _spot_of(code: CodeType, instruction: int, current: int) -> AskingPlace:
    """Return the place of an instruction, by its offset in the code and its line."""
    file = code.co_filename
    positions = list(code.co_positions())
    # Dynamo's own instructions have the line of the `def` (2.13). The user's next one is where the graph broke.
    unknown = (None, code.co_firstlineno)
    there = next(
        (each for each in positions[instruction // 2 :] if each[0] not in unknown), (current, None, None, None)
    )
    line, end, column, end_column = there
    line = line or current
    text = linecache.getline(file, line)
    # The columns of an expression over several lines do not belong to one line: all of the first is shown.
    if column is None or end_column is None or end != line:
        return AskingPlace(file, line, None if column is None else column + 1, text.strip()[:_LONGEST])
    # Python counts columns in bytes of UTF-8.
    cut = text.encode()[column:end_column].decode(errors="replace")
    return AskingPlace(file, line, column + 1, cut[:_LONGEST])


def _is_of(frame: FrameType, package: str) -> bool:
    return bool(package) and str(frame.f_globals.get("__name__")).partition(".")[0] == package


def _op(func: Any) -> str:
    return str(func)
