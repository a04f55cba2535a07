"""From bytecode back to Python: proven to do the same, or refused."""

from ctrace.inspector.decompile.reconstruct import Refused, Source, nested, reconstruct

__all__ = ["Refused", "Source", "nested", "reconstruct"]
