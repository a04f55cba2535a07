"""Damaged logs: flipped bits, cut ends, pieces removed, duplicated or swapped, values of other types.

Every view must show every log, and no finding may vanish silently: if a damaged log shows other graphs, breaks or
recompilations than the whole one, the report says that it is incomplete or doubtful.
"""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ctrace.inspector.diagnosis.breaks_document import breaks_document
from ctrace.inspector.diagnosis.recompiles_document import recompiles_document
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.load import load_log
from ctrace.reports.json.printer import render
from ctrace.reports.terminal.breaks_screen import breaks_screen
from ctrace.reports.terminal.recompiles_screen import recompiles_screen
from tests.faults.study import Bench, Result, Study, Try
from tests.support.explained import explain_json, explain_markdown, screen_of
from tests.support.golden import drawn
from tests.support.places import DATA

_HOSTILE: tuple[Any, ...] = (None, True, -1, 10**30, 1e999, "", "\x1b[31m", "\ud800", [], {}, [[[]]], {"": None})


def run(bench: Bench) -> Iterator[Try]:
    """Damage recorded logs of ctrace and of torch alone, differently in each try."""
    is_here = bench.ctrace[0] == sys.executable
    chance = random.Random(bench.seed)
    logs = sorted(DATA.glob("*.log"))
    whole = {log: _facts(load_log(log)) for log in logs}
    for number in range(bench.tries):
        log, damage = chance.choice(logs), chance.choice(DAMAGES)
        data = damage(log.read_bytes(), chance)
        damaged = bench.scratch / "damaged.log"
        damaged.write_bytes(data)
        look = _looked_at if is_here else _asked
        yield _judged(f"{number} {log.stem} {damage.__name__}", look, damaged, whole[log], bench)


def _judged(name: str, look: Callable[[Path, Bench], tuple[Any, bool]], log: Path, whole: Any, bench: Bench) -> Try:
    try:
        facts, is_doubted = look(log, bench)
    except Exception as error:
        return Try(name, Result.CRASH, f"{type(error).__name__}: {error}")
    if facts == whole or is_doubted:
        return Try(name, Result.FINE)
    kind = Result.SILENT if ".torch" in name else Result.LIE
    return Try(name, kind, f"{facts} instead of {whole}, without a sign")


def _facts(session: Session) -> list[Any]:
    """Count the findings of a report; a verdict alone may be right by chance."""
    return [str(session.verdict), len(session.graphs), len(session.breaks), len(session.recompiles)]


def _looked_at(log: Path, _bench: Bench) -> tuple[list[Any], bool]:
    session = load_log(log)
    for write in (
        explain_json,
        explain_markdown,
        lambda each: render(recompiles_document(each)),
        lambda each: render(breaks_document(each, Owner.USER)),
    ):
        write(session).encode("utf-8", "surrogatepass")
    drawn(screen_of(session, 100), 100)
    drawn(breaks_screen(breaks_document(session), 100, all_paths=True), 100)
    drawn(recompiles_screen(recompiles_document(session), 100, all_of_it=True), 100)
    is_doubted = session.verdict == "incomplete" or any(each.is_doubt for each in session.problems)
    return _facts(session), is_doubted or bool(session.unknown) or session.failure is not None


def _asked(log: Path, bench: Bench) -> tuple[list[Any], bool]:
    done = subprocess.run([*bench.ctrace, "explain", str(log), "--json"], capture_output=True, check=False)
    if done.returncode != 0:
        msg = f"exit code {done.returncode}: {done.stderr[-200:]!r}"
        raise RuntimeError(msg)
    data = json.loads(done.stdout)
    facts = [data["verdict"], *(len(data[name]) for name in ("graphs", "breaks", "recompiles"))]
    return facts, data["verdict"] == "incomplete" or bool(data["unknown"] or data["error"])


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Change single bits."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(data: bytes, chance: random.Random) -> bytes:
    """Cut the end at a random place."""
    return data[: chance.randrange(len(data))]


def spliced(data: bytes, chance: random.Random) -> bytes:
    """Remove a piece, or duplicate it."""
    begin, end = sorted(chance.randrange(len(data)) for _ in range(2))
    return data[:begin] + data[end:] if chance.random() < 0.5 else data[:end] + data[begin:]


def swapped(data: bytes, chance: random.Random) -> bytes:
    """Exchange two lines."""
    lines = data.splitlines(keepends=True)
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def retyped(data: bytes, chance: random.Random) -> bytes:
    """Put a value of another type into a record's metadata."""
    lines = data.splitlines(keepends=True)
    at = chance.choice([at for at, line in enumerate(lines) if b"] {" in line])
    prefix, _, text = lines[at].partition(b"] ")
    record = json.loads(text)
    _replace(record, chance)
    lines[at] = prefix + b"] " + json.dumps(record).encode() + b"\n"
    return b"".join(lines)


def _replace(value: Any, chance: random.Random) -> None:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = chance.choice(list(keys))
    if isinstance(value[key], dict | list) and value[key] and chance.random() < 0.7:
        _replace(value[key], chance)
    else:
        value[key] = chance.choice(_HOSTILE)


DAMAGES = (flipped, cut, spliced, swapped, retyped)
FAULTS = Study("damaged logs", 3_000, run)
