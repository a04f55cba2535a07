"""Identify one CUDA graph, for records that are made when it runs."""

from msgspec import Struct

from ctrace.inspector.capture.core.part import PartIdentity


class CudaGraphPiece(Struct, frozen=True):
    """One of the CUDA graphs that torch splits a graph part into, by its place in the part."""

    part: PartIdentity
    number: int
