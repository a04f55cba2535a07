"""`ctrace bytecode`."""

from ctrace.inspector.features.doors import Door

DOOR = Door(commands=("bytecode",))
