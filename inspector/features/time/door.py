"""`ctrace time`, and the speed in `ctrace explain`."""

from ctrace.inspector.features.doors import Door

DOOR = Door(commands=("time",))
