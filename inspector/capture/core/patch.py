"""Patch an attribute until the end of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MISSING = object()


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[Any]:
    """Set `owner.name` to `value`, yield the old value, and restore it at the end.

    Raises:
        AttributeError: there is no such attribute, so torch has moved it.
    """
    old = getattr(owner, name)
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
