"""The door of the feature: what it adds to the core (see `features/doors.py`)."""

from ctrace.inspector.features.doors import Door

DOOR = Door(commands=("memory",))
