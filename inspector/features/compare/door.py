"""`ctrace diff` and `ctrace ranks`."""

from ctrace.inspector.features.doors import Door

DOOR = Door(commands=("diff", "ranks"))
