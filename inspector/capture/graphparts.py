"""Which part of which graph Inductor is at work on."""

from dataclasses import dataclass
from typing import Any

from ctrace.inspector.capture.recorder import Recorder, compile_context
from ctrace.inspector.capture.stage import current_stage


@dataclass(frozen=True)
class Part:
    """A part of a graph, to be named again when it runs, long after it was compiled."""

    context: dict[str, Any]
    stage: str

    @classmethod
    def under_way(cls) -> "Part":
        """Name the one that is being compiled."""
        return cls(compile_context(), current_stage())

    def record(self, recorder: Recorder, name: str, payload: dict[str, Any]) -> None:
        """Write a record about it."""
        recorder.record(name, {"stage": self.stage, **payload}, at=self.context)
