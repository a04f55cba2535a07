"""`ctrace fix` and `ctrace repro`."""

from ctrace.inspector.features.doors import Door

DOOR = Door(commands=("fix", "repro"))
