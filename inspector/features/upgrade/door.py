"""`ctrace upgrade`."""

from ctrace.inspector.features.doors import Door

DOOR = Door(commands=("upgrade",))
