"""The status line of a running capture."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from ctrace.cli.console import console
from ctrace.inspector import events as ev
from ctrace.inspector.sites import resumed
from ctrace.reports.format import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class Progress:
    """Shows stage, function and elapsed time of a capture on one line, if stderr is a terminal."""

    def __init__(self, status: "Status | None" = None) -> None:
        self._status = status
        self._began = time.monotonic()
        self._stage = "starting Python and torch"
        self._function = ""
        self.child_output: int | IO[bytes] = 2
        """Where the child's stdout and stderr go: to stderr, since stdout is for the report."""

    def observe(self, event: ev.Event | None) -> None:
        """Take in what the log says."""
        if self._status is None:
            return
        match event:
            case ev.CompileStarted(stack=stack) if stack:
                self._stage, self._function = "dynamo", resumed(stack[-1].name)[0]
            case ev.GraphMade():
                self._stage = "backend"
            case ev.FusionDone(fusion=fusion):
                self._stage = f"inductor ({fusion.stage})"
            case ev.CallBegan(scenario=scenario, index=index):
                self._stage, self._function = f"scenario {scenario}, call {index + 1}", ""
            case ev.BytecodeSeen():
                self._stage = "running"
        elapsed = int(time.monotonic() - self._began)
        name = f" · {self._function}" if self._function else ""
        from rich.text import Text

        self._status.update(Text(one_line(f"{self._stage}{name} · {elapsed // 60}:{elapsed % 60:02d}", 76)))


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress while in the block; what the program prints meanwhile scrolls by above the line."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    talk = console(stderr=True)
    reading, writing = os.pipe()
    with talk.status("starting") as status, os.fdopen(writing, "wb") as sink:
        shown = Progress(status)
        shown.child_output = sink
        pump = threading.Thread(target=_pump, args=(reading, talk), daemon=True)
        pump.start()
        try:
            yield shown
        finally:
            sink.close()
            pump.join(timeout=1.0)  # a process that the program left behind may hold the pipe open


def _pump(reading: int, talk: "Console") -> None:
    with os.fdopen(reading, "rb") as source:
        for line in source:
            talk.out(line.decode("utf-8", "replace").rstrip("\n"), highlight=False)
