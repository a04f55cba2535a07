"""Look up torch's text on each kind of graph break in the registry that torch ships, without importing torch.

Source: `torch/_dynamo/graph_break_registry.json` (2.11 and 2.13): gb id -> entries, newest first.
"""

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

_FIELD = re.compile(r"\{[^{}]*\}")


class Registered(Struct, frozen=True):
    """What torch says about a gb id."""

    JSON: ClassVar[str] = "title explanation hints"
    id: str
    title: str
    explanation: str
    hints: tuple[str, ...]


def registered(gb: str) -> Registered | None:
    """Look up a gb id; return None if torch is not installed or has no such id."""
    found = _registry().get(gb)
    if not found:
        return None
    newest = found[0]
    texts = [str(hint) for hint in newest.get("Hints", ())]
    return Registered(gb, _clean(newest["Gb_type"]), _clean(newest.get("Explanation", "")), _joined(texts))


def registered_ids() -> tuple[str, ...]:
    """List the gb ids of the installed torch."""
    return tuple(_registry())


@cache
def _registry() -> dict[str, list[dict[str, str]]]:
    try:
        spec = find_spec("torch")
    except ValueError:  # a torch in sys.modules has no spec
        spec = None
    if spec is None or spec.origin is None:
        return {}
    file = Path(spec.origin).parent / "_dynamo" / "graph_break_registry.json"
    try:
        data: dict[str, list[dict[str, str]]] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data


def _clean(text: str) -> str:
    """Collapse white space, and write an ellipsis for fields that torch fills in at run time."""
    return " ".join(_FIELD.sub("…", text).replace('"', "").replace("\\", "").split())


def _joined(hints: list[str]) -> tuple[str, ...]:
    """Join the pieces into which the registry splits a hint: every piece but the last ends in a blank."""
    whole = [""]
    for hint in hints:
        whole[-1] += hint
        if not hint.endswith(" "):
            whole.append("")
    return tuple(_clean(hint) for hint in whole if hint.strip())
