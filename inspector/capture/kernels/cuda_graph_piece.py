"""Identify one CUDA graph, for records that are made when it runs."""

from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.part import Part
from ctrace.inspector.capture.core.recorder import Recorder

RECORD = "cuda_graph"


class Piece(Struct, frozen=True):
    """One of the CUDA graphs that torch splits a graph part into, by its place in the part."""

    part: Part
    number: int

    def record(self, recorder: Recorder, what: str, **found: Any) -> None:
        """Write a record about it."""
        self.part.record(recorder, RECORD, {"what": what, "piece": self.number, **found})
