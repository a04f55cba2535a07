"""Write a reproducer as a file: what it shows and with which versions, then the program."""

import re

from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.facts.session import Environment
from ctrace.inspector.features.fix.reduction.finding import Sought

_LONGEST = 96
"""Characters of a comment, which stands after two columns of indentation."""
_ARROWS = {
    Finding.BREAK: "graph break",
    Finding.RECOMPILE: "recompiled",
    Finding.SKIP: "runs eagerly",
    Finding.FAILURE: "raises",
    Finding.DANGER: "differs from eager",
}


def written(text: str, found: tuple[int, ...], sought: Sought, environment: Environment) -> tuple[str, tuple[int, ...]]:
    """Return the file's text, and where the lines that show the finding are now."""
    words = "" if sought.title.startswith(sought.words) else f"{sought.words}: "
    head = [f"# {_one_line(words + sought.title)}", f"# {versions(environment)}"]
    lines = [*head, *text.rstrip("\n").splitlines()]
    moved = tuple(each + len(head) for each in found)
    if moved:
        lines[moved[-1] - 1] += f"  # <- {_ARROWS.get(sought.what, 'here')}"
    return "\n".join(lines) + "\n", moved


def versions(environment: Environment) -> str:
    """Return the versions that an issue needs, on one line."""
    found = [f"torch {environment.torch}", f"Python {environment.python}"]
    return ", ".join([*found, environment.device] if environment.device else found)


def _one_line(text: str) -> str:
    """Keep the first line of a title, and nothing that names a path of the machine."""
    first = " ".join(text.split())
    first = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", first)
    return first if len(first) <= _LONGEST else f"{first[: _LONGEST - 3]}..."
