"""Keep what torch drops after it has built guards: stacks, guarded objects, and lengths of dicts.

Of a guard's stack, torch keeps only the innermost frame. Of the object of an identity guard, it keeps only the
address. The length of a guarded dict is checked without appearing in the guard's text.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from ctrace.inspector.capture.core.exception_text import named
from ctrace.inspector.facts.findings import Frame

Stack = tuple[tuple[str, int, str], ...]
"""File, line and function of each frame, outermost first."""


class GuardStacks(Struct):
    """The stack behind each guard, keyed by the guard's text, for all compilations of a run."""

    _of: dict[str, Stack] = field(default_factory=dict)
    _known: dict[Stack, Stack] = field(default_factory=dict)
    _objects: dict[str, str] = field(default_factory=dict)
    _lengths: WeakKeyDictionary[Any, dict[str, int]] = field(default_factory=WeakKeyDictionary)

    def add(self, parts: list[str], user_stack: Any) -> None:
        """Store the stack (a `traceback.StackSummary`) of a guard with these code parts."""
        stack = tuple((frame.filename, frame.lineno or 0, frame.name) for frame in user_stack)
        # Many guards share a stack, so each stack is kept once.
        self._of.update(dict.fromkeys(map(_without_hint, parts), self._known.setdefault(stack, stack)))

    def of(self, part: str) -> Stack | None:
        """Return the stack of a guard, or None if torch itself added the guard."""
        return self._of.get(_without_hint(part))

    def name_objects(self, parts: Iterable[str], value_of: Callable[[str], Any]) -> None:
        """Store the names of the objects that guards check, while `value_of` can still look up their sources."""
        for part in parts:
            if match := _OBJECT.match(part):
                value = value_of(match["source"])
                # The object may have died, and another may have got its address.
                if id(value) == int(match["id"]):
                    self._objects[match["id"]] = named(value)

    def keep_lengths(self, manager: Any, lengths: dict[str, int]) -> None:
        """Store the lengths of the dicts that a guard manager was made for."""
        self._lengths[manager] = lengths

    def lengths_of(self, manager: Any) -> dict[str, int]:
        """Return the lengths of the dicts that a guard manager was made for, keyed by source."""
        return self._lengths.get(manager, {})

    def object_of(self, part: str) -> str | None:
        """Return the name of the object that a guard checks, or None if it checks none or an unknown one."""
        match = _OBJECT.match(part)
        if match:
            return self._objects.get(match["id"])
        return None


_OBJECT = re.compile(r"___check_obj_id\((?P<source>.+?), (?P<id>\d+)\)")


def _without_hint(part: str) -> str:
    """Strip the hint that some kinds of guards append (`EQUALS_MATCH`, guards.py, 2.13)."""
    return part.partition(" (HINT: ")[0]


def frames(stack: Stack | None) -> tuple[Frame, ...]:
    """Return a stack as it is recorded."""
    return tuple(Frame(file, line, name) for file, line, name in stack or ())
