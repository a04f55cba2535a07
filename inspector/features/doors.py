"""The doors of features: what each adds to the core, which knows features by their folders only.

A feature is a folder beside this module with a `door.py`; what it does in the child process stands behind
`child/door.py`. Without its folder, its commands are not offered, and the rest works as before.
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ctrace.inspector.errors import TargetError


class Door(NamedTuple):
    """What a feature adds to the core."""

    commands: tuple[str, ...] = ()
    """Names of its commands, each a module or a function of `cli/commands/`."""


@cache
def doors() -> dict[str, Door]:
    """Return the door of each feature that is there, by name."""
    folders = sorted(each.parent.name for each in Path(__file__).parent.glob("*/door.py"))
    return {name: import_module(f"ctrace.inspector.features.{name}.door").DOOR for name in folders}


def require(feature: str, what: str) -> None:
    """Refuse what only a feature can do, if it is not there.

    Raises:
        TargetError: it is not there.
    """
    if feature not in doors():
        raise TargetError(f"{what} needs the feature {feature}, which is not here", "install a ctrace that has it")
