"""What every hook of a capture writes through."""

import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.trace_log import TraceLog


@dataclass
class Recorder:
    """Writes our own records into the log, and keeps a hook's failure away from the user's program."""

    log: TraceLog
    _failed: set[str] = field(default_factory=set)

    def keeps(self, name: str) -> bool:
        """Return whether `record(name, ...)` writes anything now; a hook saves its work where it does not."""
        return self.log.keeps(f"ctrace_{name}")

    @contextmanager
    def keeping(self, kinds: Collection[str]) -> Iterator[None]:
        """Write records of these kinds only, torch's and our own, of what this thread does in the block."""
        before = self.log.kept
        self.log.kept = kinds
        try:
            yield
        finally:
            self.log.kept = before

    def record(self, name: str, payload: Any, at: dict[str, Any] | None = None) -> None:
        """Write artifact `ctrace_<name>`, placed in the compilation `at`, or in that under way, if there is one."""
        self.log.artifact(name, payload, compile_context() if at is None else at)

    def problem(self, what: str) -> None:
        """Say that something could not be measured, once for each wording."""
        if what not in self._failed:
            self._failed.add(what)
            self.record("problem", {"what": what})

    @contextmanager
    def watching(self, what: str) -> Iterator[None]:
        """Turn an exception of a hook into a `problem`; the program goes on as if the hook were not there."""
        try:
            yield
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            self.problem(f"{what} could not be recorded: {kind_and_message(error)} ({at.name}:{at.lineno})")


def compile_context() -> dict[str, Any]:
    """Name the compilation under way, as log entries do; empty: there is none."""
    guards = sys.modules.get("torch._guards")
    if guards is None:
        return {}
    trace_id = guards.CompileContext.current_trace_id()
    if trace_id is None or trace_id.compile_id.frame_id is None:
        return {}
    compile_id = trace_id.compile_id
    return {
        "frame_id": compile_id.frame_id,
        "frame_compile_id": compile_id.frame_compile_id,
        "attempt": trace_id.attempt,
    }
