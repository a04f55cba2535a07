"""Patch an attribute until the end of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_MISSING = object()
patched_places: set[str] = set()
"""Every place that this process has patched, as `place_of` names it; `knowledge/hooks.py` has the table."""


def place_of(owner: Any, name: str) -> str:
    """Return the dotted name of an attribute of a module, of a class, or of the class of an object."""
    if isinstance(owner, ModuleType):
        return f"{owner.__name__}.{name}"
    if isinstance(owner, type):
        kind = owner
    else:
        kind = type(owner)
    return f"{kind.__module__}.{kind.__qualname__}.{name}"


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[Any]:
    """Set `owner.name` to `value`, yield the old value, and restore it at the end.

    Raises:
        AttributeError: there is no such attribute, so torch has moved it.
    """
    old = getattr(owner, name)
    # Noted for good: `ctrace doctor` asks which places were found, and not which are patched now.
    patched_places.add(place_of(owner, name))
    # A class may inherit the attribute (then the patch is deleted again) or store a descriptor, such as a staticmethod.
    own = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    try:
        yield old
    finally:
        if isinstance(owner, type) and own is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, old if own is _MISSING else own)
