"""Which part of which graph Inductor is at work on."""

from dataclasses import dataclass
from typing import Any

from ctrace.inspector.capture.core.recorder import Recorder, compile_context


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


def current_stage() -> str:
    """Say whether Inductor is at work on a forward, a backward or an inference graph."""
    from torch._inductor.virtualized import V

    if getattr(V.graph, "is_backward", False):
        return "backward"
    return "inference" if getattr(V.graph, "is_inference", False) else "forward"
