"""Turn bytecode back into Python source, and show the source only if its equivalence is verified."""

from ctrace.inspector.features.bytecode.decompile.reconstruct import NotReconstructed, Source, reconstruct

__all__ = ["NotReconstructed", "Source", "reconstruct"]
