"""`ctrace check`, and what the pytest plugin asks."""

from ctrace.inspector.features.doors import Door

DOOR = Door(commands=("check",))
