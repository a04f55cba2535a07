"""The stack before an instruction, and how calls lie on it."""

from dataclasses import dataclass, field

from ctrace.inspector.rewrites.stackforms import Lists, Null, Value


@dataclass(frozen=True, slots=True)
class State:
    """What is known before an instruction runs."""

    stack: tuple[Value, ...] = ()
    variables: dict[str, Value] = field(default_factory=dict)
    """What this code put into local variables."""
    lists: Lists = field(default_factory=dict)
    keywords: tuple[str, ...] = ()


def called(taken: tuple[Value, ...]) -> tuple[Value, tuple[Value, ...]]:
    """Tell the function from the arguments; a NULL lies below or above the function."""
    if isinstance(taken[0].form, Null):
        return taken[1], taken[2:]
    return taken[0], taken[2:] if isinstance(taken[1].form, Null) else taken[1:]


def words(text: str) -> tuple[str, ...]:
    """Read a tuple of names as its repr has it."""
    parts = (part.strip(" '\"") for part in text.strip("()").split(","))
    return tuple(part for part in parts if part)
