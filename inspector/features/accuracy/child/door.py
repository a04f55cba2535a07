"""The door of the feature in the child process: the module that carries out its request."""

from ctrace.inspector.features.accuracy.child.accuracy_task import main as main
