"""Parse torch's own fusion log (`TORCH_LOGS=fusion`), to compare ctrace's data with it."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ctrace.inspector.facts.fusion_facts import Fusion, FusionRound
from ctrace.inspector.facts.session import Session

_LINE = re.compile(r"^[A-Z]\d{4} [\d:.]+ (?P<process>\d+) .*?\[__fusion\] ?(?P<text>.*)$")
_ATTEMPT = re.compile(r"===== attempting fusion \(\d+/10\): (\d+) nodes =====")
_COMPLETED = re.compile(r"completed fusion round \(\d+/10\): fused \d+ nodes into (\d+) nodes")
_FUSING = re.compile(r"fusing (\S+) with (\S+)$")
_FOUND = re.compile(r"found (\d+) possible fusions")
_REFUSED = re.compile(r"cannot fuse (\S+) with (\S+): (.*)$")


@dataclass
class Told:
    """One round, from the log or from ctrace's data."""

    before: int = 0
    after: int = 0
    fused: list[tuple[str, str]] = field(default_factory=list)
    found: int = 0
    refused: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    reorder: bool = False


def told_by_torch(log: str) -> list[list[Told]]:
    """Return the rounds of each call of `fuse_nodes`; keep processes that write at the same time apart."""
    lines: dict[str, list[str]] = {}
    for line in log.splitlines():
        if match := _LINE.match(line):
            lines.setdefault(match["process"], []).append(match["text"])
    return [rounds for each in lines.values() for rounds in _calls(each)]


def told_by_us(fusion: Fusion) -> list[Told]:
    """Convert ctrace's data to the same form; torch's log lacks pairs that it refuses silently."""
    return [_ours(each) for each in fusion.rounds]


def _ours(each: FusionRound) -> Told:
    refused = Counter((one.first, one.second, one.reason) for one in each.refused if one.reason)
    return Told(each.before, each.after, list(each.fused), len(each.candidates), refused, each.reorder)


def _calls(texts: list[str]) -> Iterator[list[Told]]:
    calls: list[list[Told]] = []
    headed = False
    for text in texts:
        if match := _ATTEMPT.match(text):
            if text.startswith("===== attempting fusion (1/10)"):
                calls.append([])
            calls[-1].append(Told(before=int(match[1])))
            headed = True
        elif text == "fuse_nodes_once, candidates:" and not headed:
            calls[-1].append(Told(reorder=True))
        elif text.startswith("fuse_nodes_once"):
            headed = False
        elif calls:
            _take(text, calls[-1][-1])
    for call in calls:
        for last in call:
            last.after = last.before - len(last.fused)  # the last round does not log it; the others are checked
    yield from calls


def _take(text: str, seen: Told) -> None:
    if match := _COMPLETED.match(text):
        assert int(match[1]) == seen.before - len(seen.fused)
    elif match := _FUSING.match(text):
        seen.fused.append((match[1], match[2]))
    elif match := _FOUND.match(text):
        seen.found = int(match[1])
    elif match := _REFUSED.match(text):
        seen.refused[match[1], match[2], match[3]] += 1
    elif text.startswith("  ") and seen.reorder:
        seen.before += 1


def assert_fused_as_logged(session: Session, log: Path) -> None:
    """Compare a session with torch's log of the same run; parts that compile at the same time have no order."""
    theirs = told_by_torch(log.read_text()) if log.exists() else []
    ours = [told_by_us(fusion) for fusion in session.fusions]
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
