"""How the core reaches what observes the calls of a proof."""

from ctrace.inspector.features.fix.child.observation import observe_model, observe_program

__all__ = ["observe_model", "observe_program"]
