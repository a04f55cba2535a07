"""From bytecode back to Python: proven to do the same, or refused."""

from ctrace.inspector.bytecode.decompile.reconstruct import Refused, Source, reconstruct

__all__ = ["Refused", "Source", "reconstruct"]
