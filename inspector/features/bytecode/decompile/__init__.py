"""Turn bytecode back into Python source, and show the source only if its equivalence is verified."""

from ctrace.inspector.features.bytecode.decompile.reconstruct import FunctionSource, NotReconstructed, reconstruct

__all__ = ["FunctionSource", "NotReconstructed", "reconstruct"]
