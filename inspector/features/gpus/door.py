"""The virtual GPU has no command of its own: `--target` reaches it through `child/door.py`."""

from ctrace.inspector.features.doors import Door

DOOR = Door()
