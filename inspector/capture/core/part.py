"""Identify the part of the graph that Inductor is compiling."""

from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.recorder import Recorder, compile_context
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.wire import Record


class PartIdentity(Struct, frozen=True):
    """Identifies a part of a graph, so that records made when it runs can refer to its compilation."""

    context: dict[str, Any]
    stage: Stage

    @classmethod
    def under_way(cls) -> "PartIdentity":
        """Return the part that is being compiled."""
        return cls(compile_context(), current_stage())

    def add(self, recorder: Recorder, record: Record) -> None:
        """Write a record about the part."""
        recorder.add(record, at=self.context)


def current_stage() -> Stage:
    """Return whether Inductor is compiling a forward, a backward or an inference graph."""
    from torch._inductor.virtualized import V

    if getattr(V.graph, "is_backward", False):
        return Stage.BACKWARD
    if getattr(V.graph, "is_inference", False):
        return Stage.INFERENCE
    return Stage.FORWARD
