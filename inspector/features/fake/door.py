"""Models without weights have no command of their own: `--fake` reaches them through `child/door.py`."""

from ctrace.inspector.features.doors import Door

DOOR = Door()
