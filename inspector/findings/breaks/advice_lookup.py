"""Look up what ctrace knows about a kind of break or of skip (`lesson`), or of cause (`cause_lesson`), without a run.

Torch's own text on a kind of break comes from the registry that torch ships (`registered`), without importing torch:
`torch/_dynamo/graph_break_registry.json` (2.11 and 2.13), gb id -> entries, newest first.
"""

import difflib
import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.errors import TargetError
from ctrace.inspector.knowledge.advice import AdviceEntry, Lifetime, Unadvised, entries, known_ids, lifetime, unadvised
from ctrace.inspector.knowledge.releases import release_of, torch_version

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
    # Torch keeps older texts of an id behind the present one: GB0170 has five entries in 2.13.
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
    # Torch's words only complete ctrace's advice: a torch without a registry, or with a damaged one, is no error.
    except (OSError, ValueError):
        return {}
    return data


def _clean(text: str) -> str:
    """Collapse white space, and write an ellipsis for fields that torch fills in at run time."""
    # The registry is made from torch's source, so texts may hold Python's quotes, `+ f"..."` and backslashes.
    return " ".join(_FIELD.sub("…", text).replace('"', "").replace("\\", "").split())


def _joined(hints: list[str]) -> tuple[str, ...]:
    """Join the pieces into which the registry splits a hint: every piece but the last ends in a blank."""
    whole = [""]
    for hint in hints:
        whole[-1] += hint
        if not hint.endswith(" "):
            whole.append("")
    return tuple(_clean(hint) for hint in whole if hint.strip())


_GB = re.compile(r"(?:gb)?(\d{1,4})", re.IGNORECASE)


class LessonVersions(Struct, frozen=True):
    """The versions of torch that have a gb id, beside the installed one."""

    JSON: ClassVar[str] = (
        "installed|null_if_empty first=life.first last=life.last|null_if_empty "
        "raised_until=life.raised_until|null_if_empty"
    )
    installed: str
    """The version of the installed torch, such as 2.13; empty if torch is not installed."""
    life: Lifetime


class Lesson(Struct, frozen=True):
    """A kind of break or skip: ctrace's advice, special cases of the advice, and torch's text."""

    JSON: ClassVar[str] = (
        "schema id=name title=entry.title reason=entry.why fix=entry.fix advice=entry.advice cases unadvised versions "
        "torch"
    )
    name: str
    entry: AdviceEntry | None
    cases: dict[str, AdviceEntry] = {}
    """The advice for constructs in the user's code, such as `assert`."""
    torch: Registered | None = None
    unadvised: Unadvised | None = None
    """Why a gb id has no entry; None if it has one."""
    version: str = ""
    """The version of the installed torch, such as 2.13; empty if torch is not installed."""
    lifetime: Lifetime | None = None
    """The versions of torch that have the gb id, as far as ctrace knows."""

    @property
    def versions(self) -> LessonVersions | None:
        """The versions of torch that have it; None if it has no gb id, or one that ctrace does not know."""
        if self.lifetime is None:
            return None
        return LessonVersions(self.version, self.lifetime)

    @property
    def absence(self) -> str:
        """Say which versions of torch have the gb id; empty if the installed one has it."""
        if self.torch is not None or self.lifetime is None or not self.version:
            return ""
        return self.lifetime.absence(self.version)


def lesson(name: str) -> Lesson:
    """Look up a gb id (`GB0170`, `gb170`, `170`) or a situation (`loop`, `print`).

    Raises:
        TargetError: neither ctrace nor the installed torch knows it.
    """
    match = _GB.fullmatch(name.strip())
    if match:
        key = f"GB{int(match[1]):04}"
    else:
        key = name.strip().lower().replace(" ", "_")
    breaks, skips = entries("breaks"), entries("skips")
    entry = breaks.get(key) or skips.get(key)
    if match:
        torch = registered(key)
        life = lifetime(key)
    else:
        torch = None
        life = None
    # An id that only another release of torch has is known by its lifetime alone.
    if entry is None and torch is None and life is None:
        raise _unknown(name, key)
    general = None
    if entry:
        general = entry.about("").calling("warning")
    cases = {case.partition("/")[2]: each.about("") for case, each in breaks.items() if case.startswith(f"{key}/")}
    why_not = None
    if match and entry is None:
        why_not = unadvised(key)
    return Lesson(key, general, cases, torch, why_not, _installed(), life)


def _installed() -> str:
    """Return the installed torch's major and minor version, such as 2.13."""
    release = release_of(torch_version() or "")
    if release:
        return ".".join(map(str, release))
    return ""


def _unknown(name: str, key: str) -> TargetError:
    known = [each for each in (*entries("breaks"), *entries("skips")) if "/" not in each]
    near = difflib.get_close_matches(key, [*known, *registered_ids(), *known_ids()], 1)
    situations = ", ".join(sorted(each for each in known if not each.startswith("GB")))
    if near:
        todo = f"did you mean {near[0]}?"
    else:
        todo = f"name a gb id such as GB0170, or one of: {situations}"
    return TargetError(f"{name}: no such kind of graph break", todo)


class CauseCase(Struct, frozen=True):
    """What to do about a cause of a recompilation."""

    JSON: ClassVar[str] = "title=entry.title reason=entry.why fix=entry.fix advice=entry.advice expected=entry.expected"
    entry: AdviceEntry


class CauseLesson(Struct, frozen=True):
    """A kind of cause, or one special case of a kind, with ctrace's advice."""

    JSON: ClassVar[str] = f"schema kind=name {CauseCase.JSON} cases"
    name: str
    entry: AdviceEntry
    cases: dict[str, CauseCase] = {}
    """The advice for special cases, such as `size/parameter`."""


def cause_lesson(name: str) -> CauseLesson:
    """Look up a kind of cause (`size`, `grad mode`) or a special case (`size/parameter`).

    Raises:
        TargetError: ctrace has no such kind.
    """
    known = entries("causes")
    key = re.sub(r"[\s-]+", "_", name.strip().lower())
    if key not in known:
        raise _unknown_cause(name, key, tuple(known))
    cases = {case: CauseCase(each.about("")) for case, each in known.items() if case.startswith(f"{key}/")}
    return CauseLesson(key, known[key].about(""), cases)


def _unknown_cause(name: str, key: str, known: tuple[str, ...]) -> TargetError:
    cases = [each for each in known if key and each.partition("/")[2] == key]
    # The name of a case alone, e.g. `parameter`, may belong to several kinds: name all of them, not the closest
    # spelling.
    near = cases or difflib.get_close_matches(key, known, 1)
    kinds = ", ".join(sorted(each for each in known if "/" not in each))
    if near:
        todo = f"did you mean {' or '.join(near)}?"
    else:
        todo = f"name one of: {kinds}"
    return TargetError(f"{name}: no such cause of a recompilation", todo)
