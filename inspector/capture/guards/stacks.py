"""Where the user's code made each guard: torch keeps it while it builds guards, and then only the innermost frame.

And which object a guard on identity is about, of which the guard itself holds no more than the address, and how long a
guarded dict is, which it checks without a word.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ctrace.inspector.capture.core.values import named

Stack = tuple[tuple[str, int, str], ...]
"""File, line and function of each frame, outermost first."""


@dataclass
class GuardStacks:
    """The stack behind each guard's wording, over all compilations of a run."""

    _of: dict[str, Stack] = field(default_factory=dict)
    _known: dict[Stack, Stack] = field(default_factory=dict)
    _objects: dict[str, str] = field(default_factory=dict)
    _lengths: WeakKeyDictionary[Any, dict[str, int]] = field(default_factory=WeakKeyDictionary)

    def add(self, parts: list[str], user_stack: Any) -> None:
        """Keep the stack (a `traceback.StackSummary`) of a guard that is worded so."""
        stack = tuple((frame.filename, frame.lineno or 0, frame.name) for frame in user_stack)
        self._of.update(dict.fromkeys(map(_without_hint, parts), self._known.setdefault(stack, stack)))

    def of(self, part: str) -> Stack | None:
        """Give the stack of a guard; None: torch made it for itself."""
        return self._of.get(_without_hint(part))

    def name_objects(self, parts: Iterable[str], value_of: Callable[[str], Any]) -> None:
        """Keep what each object is that guards ask for; `value_of` looks up a source, while it is what it was."""
        for part in parts:
            if match := _OBJECT.match(part):
                value = value_of(match["source"])
                if id(value) == int(match["id"]):
                    self._objects[match["id"]] = named(value)

    def keep_lengths(self, manager: Any, lengths: dict[str, int]) -> None:
        """Keep how long the dicts are that a guard manager is made for."""
        self._lengths[manager] = lengths

    def lengths_of(self, manager: Any) -> dict[str, int]:
        """Give the lengths of dicts, by source, that a guard manager was made for."""
        return self._lengths.get(manager, {})

    def object_of(self, part: str) -> str | None:
        """Name the object that a guard asks for; None: it asks for none, or for one that nobody has seen."""
        match = _OBJECT.match(part)
        return self._objects.get(match["id"]) if match else None


_OBJECT = re.compile(r"___check_obj_id\((?P<source>.+?), (?P<id>\d+)\)")


def _without_hint(part: str) -> str:
    """Cut off what some kinds of guards add after they are worded (`EQUALS_MATCH`, guards.py, 2.13)."""
    return part.partition(" (HINT: ")[0]


def frames(stack: Stack | None) -> list[dict[str, Any]]:
    """Write a stack for the log."""
    return [{"file": file, "line": line, "name": name} for file, line, name in stack or ()]
