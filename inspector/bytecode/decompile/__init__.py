"""From bytecode back to Python: proven to do the same, or refused."""

from ctrace.inspector.bytecode.decompile.reconstruct import NotReconstructed, Source, reconstruct

__all__ = ["NotReconstructed", "Source", "reconstruct"]
