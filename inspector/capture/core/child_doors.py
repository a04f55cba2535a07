"""The doors of features in the child process: the core asks a feature by its name, and imports none."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

_DOOR = "ctrace.inspector.features.{}.child.door"


def has_child_door(feature: str) -> bool:
    """Whether a feature is there and takes part in the child process."""
    try:
        return find_spec(_DOOR.format(feature)) is not None
    except ModuleNotFoundError:  # the folder of the feature is not there
        return False


def child_door(feature: str) -> Any:
    """Return the module through which the core reaches a feature.

    A request names the feature: `--target` the virtual GPU, a proof the one that observes calls. So the feature is
    there, since nothing else makes such a request.

    Raises:
        ModuleNotFoundError: the feature is not there.
    """
    return import_module(_DOOR.format(feature))
