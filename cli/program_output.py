"""Show what a model prints apart from ctrace's own lines: marked, repetitions folded, each warning of torch once."""

import os
import re
import select
from collections import Counter, deque
from collections.abc import Callable

from ctrace.inspector.knowledge.counting import count

_ASKING_SECONDS = 0.2
"""Seconds after which an unfinished line counts as a prompt."""
_MARK = b"| "
_LONGEST = 1 << 16
"""Bytes after which a line without an end is broken: a program may write any number of them."""
_REMEMBERED = 100
"""How many lines back a repetition is recognized; a longer block is shown each time."""

_WARNING = re.compile(
    rb"(?:\[rank\d+\]:)?W\d{4} [\d:.]+ \d+ (?P<place>torch/\S+:\d+)\] (?:\[[!\d/_]+\] )?(?P<text>.*)", re.DOTALL
)
"""A line of a warning in torch's log; each line of a record has its head (torch/_logging/_internal.py:1026, 2.13)."""
_BREAK = b"Graph break from "
_REPORTED = {
    _BREAK: ("about a graph break", "ctrace breaks"),
    b"torch._dynamo hit config.": ("about the recompile limit", "ctrace recompiles"),
}
"""How warnings begin that ctrace reports as findings (torch/_dynamo/variables/tensor.py:1759 and
torch/_dynamo/convert_frame.py:1994, 2.13), with their subject and the command that shows it."""

_UNTRACED = re.compile(
    rb".*/_dynamo/variables/\w+\.py:\d+: UserWarning: Dynamo does not know how to trace the builtin "
)
"""How a Python warning begins that torch adds to a break (torch/_dynamo/variables/functions.py:2431, 2.13)."""
_UNTRACED_GOES_ON = (
    b"If it is a Python builtin, ",
    b"If it is a third-party C/C++ Python extension, ",
    b"  torch._dynamo.utils.warn_once(",
)
"""How its other lines begin: the hints, and the line of torch that warns."""


class _Repetitions:
    """Passes lines on, and folds a block of lines that follows itself, such as the prints of each call."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._recent: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._block: list[bytes] = []
        self._matched = 0
        self._times = 0

    def add(self, line: bytes) -> None:
        """Write a line unless it continues a repetition."""
        if self._block and line != self._block[self._matched]:
            self.flush()
        if not self._block and line in self._recent:
            recent = list(self._recent)
            start = len(recent) - 1 - recent[::-1].index(line)
            self._block = recent[start:]
        if self._block:
            self._matched += 1
            if self._matched == len(self._block):
                self._matched = 0
                self._times += 1
            return
        self._show(line)

    def flush(self) -> None:
        """Write how often the block was repeated, and the lines of a repetition that did not end."""
        block, matched, times = self._block, self._matched, self._times
        self._block, self._matched, self._times = [], 0, 0
        if times:
            what = "last line" if len(block) == 1 else f"last {len(block)} lines"
            again = "once more" if times == 1 else f"{times} more times"
            self._write(f"({what}, {again})\n".encode())
        for line in block[:matched]:
            self._show(line)

    def _show(self, line: bytes) -> None:
        self._recent.append(line)
        self._write(line)


class _Warnings:
    """Decides which lines of torch's log are shown: no warning twice, and none that ctrace reports as a finding."""

    def __init__(self) -> None:
        self.reported: Counter[bytes] = Counter()
        """How many warnings were left out because ctrace reports them, by how they begin."""
        self._seen: set[tuple[bytes, bytes]] = set()
        self._head = b""
        self._is_shown = True
        self._in_untraced = False

    def shows(self, line: bytes) -> bool:
        """Decide whether to show a line, and count it if ctrace reports what it warns of."""
        if _UNTRACED.match(line):
            self._in_untraced = True
            self.reported[_BREAK] += 1
            return False
        self._in_untraced = self._in_untraced and line.startswith(_UNTRACED_GOES_ON)
        if self._in_untraced:
            return False
        match = _WARNING.match(line)
        if match is None:
            return True
        head = line[: match.end("place")]
        if head != self._head:
            self._head = head
            self._is_shown = self._is_news(match["place"], match["text"])
        return self._is_shown

    def _is_news(self, place: bytes, text: bytes) -> bool:
        for start in _REPORTED:
            if text.startswith(start):
                self.reported[start] += 1
                return False
        is_new = (place, text) not in self._seen
        self._seen.add((place, text))
        return is_new


class ProgramOutput:
    """Forwards a model's output: whole lines, each marked, and prompts as they come.

    Torch's log is left as it is if the user asked for it with TORCH_LOGS.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[bytes], None],
        asking: Callable[[bool], None] = lambda _is_asking: None,
    ) -> None:
        self._heading = f"output of {name}\n".encode()
        self._to = write
        self._asking = asking
        self._partial = b""
        self._is_asking = False
        self._lines = _Repetitions(self._marked)
        self._warnings = None if os.environ.get("TORCH_LOGS") else _Warnings()

    def run(self, reading: int) -> None:
        """Read until all writers have closed the pipe."""
        with os.fdopen(reading, "rb", buffering=0) as source:
            while True:
                if not select.select([source], [], [], _ASKING_SECONDS if self._partial else None)[0]:
                    self._ask()
                elif chunk := source.read(1 << 16):
                    self._pass_on(chunk)
                else:
                    break
        if self._is_asking:
            self._to(self._partial + b"\n")
        elif self._partial:
            self._add(self._partial + b"\n")
        self._lines.flush()

    def notes(self) -> list[str]:
        """Say which warnings were left out, and what shows their subject instead."""
        reported = self._warnings.reported if self._warnings is not None else {}
        return [
            f"torch warned {count(times, 'time')} {_REPORTED[start][0]}: see {_REPORTED[start][1]}"
            for start, times in reported.items()
        ]

    def _pass_on(self, chunk: bytes) -> None:
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            if self._is_asking:
                self._is_asking = False
                self._to(line + b"\n")
                self._asking(False)
            else:
                self._add(line + b"\n")
        if len(self._partial) > _LONGEST:
            if self._is_asking:
                self._to(self._partial)
            else:
                self._add(self._partial + b"\n")
            self._partial = b""

    def _add(self, line: bytes) -> None:
        if self._warnings is None or self._warnings.shows(line):
            self._lines.add(line)

    def _ask(self) -> None:
        """Show an unfinished line, such as the prompt of `input()`, without the status line until the next line."""
        self._lines.flush()
        if not self._is_asking:
            self._is_asking = True
            self._asking(True)
            self._marked(self._partial)
        else:
            self._to(self._partial)
        self._partial = b""

    def _marked(self, line: bytes) -> None:
        self._to(self._heading + _MARK + line)
        self._heading = b""
