"""The door of the feature in the child process: the module that carries out its request."""

from ctrace.inspector.features.memory.child.memory_task import main as main
