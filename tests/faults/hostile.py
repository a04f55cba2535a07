"""Hostile run files: values that no run.json or order.json should contain, and folders or pipes in place of files.

A good run exists beside them. Commands that read all runs see many hostile ones at once; if a command fails, each run
is tried alone. In addition, one view opens each hostile run by name.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tests.faults.study import Bench, Result, Study, Try
from tests.support.inprocess import ctrace
from tests.support.obeyed import obeyed
from tests.support.places import DATA
from tests.support.poison import COMMANDS, MARKUP, UNSEEN, WIDE

LOG = DATA / "no_ops.log"
GOOD = "20260101-000000-good"
BUG = 70
RUN_FILE, ORDER_FILE = "run.json", "order.json"
_SECONDS = 20
_AT_ONCE = 50
RAW = "raw:"
"""Prefix of a value that is written to the file literally, because JSON cannot express it."""
RUN: dict[str, Any] = {
    "schema": 1, "created": 1_767_225_600.0, "pid": 4_000_000, "status": "done", "seconds": 1.5,
    "target": {"path": "model.py", "name": "model", "args": ["--x"]},
    "failure": {"phase": "run", "type": "ValueError", "message": "no", "file": "model.py", "line": 3, "todo": ""},
    "summary": {"verdict": "compiled", "graphs": 1, "breaks": 0, "skipped": 0, "recompiles": 0, "torch": "2.13.0",
                "target_gpu": "h100"},
}  # fmt: skip
ORDER: dict[str, Any] = {
    "kind": "model", "path": "model.py", "module": None, "name": None, "args": [], "log": "trace.log", "owned": [],
    "options": {"inputs": [], "vary": [], "provoke": False, "train": False, "mode": None, "dynamic": None,
                "fullgraph": False, "backend": None, "build": False, "guard_cost": False, "target": None,
                "trace_only": False},
    "gpu": None,
}  # fmt: skip
VALUES: tuple[Any, ...] = (
    f"{RAW}1e999", f"{RAW}-1e999", f"{RAW}NaN", f"{RAW}Infinity", f"{RAW}{'9' * 400}", f"{RAW}-{'9' * 400}",
    f"{RAW}{'9' * 5000}", f"{RAW}{'[' * 5000}{']' * 5000}", f"{RAW}{'[' * 200_000}", f"{RAW}\"\\ud800\"",
    f"{RAW}\"\\udc80\"", f"{RAW}\"\x1b[31m\"", f"{RAW}\"\\u0000\"", None, True, False, 0, -1, 1, 2**31, 2**63, 2**64,
    -(2**63), 1.5, -0.0, 1e300, 253_402_300_800, -62_135_596_801, "", " ", "x", "running", "done", "1", "/",
    "../../etc/passwd", "\x00", UNSEEN, MARKUP, COMMANDS, WIDE, "[red]x[/]", "[/nope]", "x" * 100_000, [], [1], ["x"],
    [[]], [UNSEEN], [COMMANDS], [None], {}, {"": ""}, {"path": 1}, {"verdict": UNSEEN}, {"verdict": COMMANDS},
    {"graphs": "x"}, {"name": "good"}, {"created": 0},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One hostile run: how its folder is spoiled."""

    name: str
    spoil: Callable[[Path], None]


def faults(seed: int) -> Iterator[Fault]:
    """Yield every value in every field, then files that are none, then endless pairs of values."""
    draw = random.Random(seed)
    for file in ("run.json", "order.json", "trace.log"):
        yield from (Fault(f"{file} {name}", _whole(file, spoil)) for name, spoil in _FILES.items())
    for at in _places(RUN):
        yield from (_one(RUN_FILE, at, number) for number in range(len(VALUES)))
    for at in _places(ORDER):
        yield from (_one(ORDER_FILE, at, number) for number in draw.sample(range(len(VALUES)), 25))
    while True:
        file, whole = draw.choice((("run.json", RUN), ("order.json", ORDER)))
        chosen = {at: draw.choice(VALUES) for at in draw.sample(_places(whole), 2)}
        yield Fault(f"{file} {chosen!r:.80}", _setting(file, chosen))


def _one(file: str, at: tuple[Any, ...], number: int) -> Fault:
    return Fault(f"{file} {'.'.join(map(str, at))}, value {number}", _setting(file, {at: VALUES[number]}))


def _places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [at, *(place for name, each in below for place in _places(each, (*at, name)))]


def _setting(file: str, values: dict[tuple[Any, ...], Any]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        data = json.loads(json.dumps(RUN if file == "run.json" else ORDER))
        for at, value in values.items():
            data = _with(data, at, value)
        text = json.dumps(data)
        for value in values.values():
            if isinstance(value, str) and value.startswith(RAW):
                text = text.replace(json.dumps(value), value.removeprefix(RAW))
        (folder / file).write_text(text)

    return spoil


def _with(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    if isinstance(data, dict):
        return {**data, at[0]: _with(data.get(at[0]), at[1:], value)}
    if isinstance(data, list) and at[0] in range(len(data)):
        return [*data[: at[0]], _with(data[at[0]], at[1:], value), *data[at[0] + 1 :]]
    return data


def _whole(file: str, spoil: Callable[[Path], object]) -> Callable[[Path], None]:
    def spoiled(folder: Path) -> None:
        (folder / file).unlink()
        spoil(folder / file)

    return spoiled


_FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: None,
    "empty": lambda file: file.write_bytes(b""),
    "folder": lambda file: file.mkdir(),
    "pipe": lambda file: os.mkfifo(file),
    "endless": lambda file: file.symlink_to("/dev/zero"),
    "loop": lambda file: file.symlink_to(file.name),
    "binary": lambda file: file.write_bytes(bytes(range(256))),
    "not utf-8": lambda file: file.write_bytes(b'{"schema": "\xff\xfe"}'),
    "a mark first": lambda file: file.write_bytes(b"\xef\xbb\xbf{}"),
    "twice": lambda file: file.write_text('{"schema": 1, "schema": 1}'),
    "a list": lambda file: file.write_text("[]"),
    "cut": lambda file: file.write_text(json.dumps(RUN)[:100]),
    "deep": lambda file: file.write_text('{"a":' * 100_000),
    "newer": lambda file: file.write_text(json.dumps({**RUN, "schema": 10**20})),
    "100 MB": lambda file: file.write_text(f'{{"a": "{"x" * 100_000_000}"}}'),
}


def run(bench: Bench) -> Iterator[Try]:
    """Try `bench.tries` hostile runs."""
    left: Iterator[Fault] = islice(faults(bench.seed), bench.tries)
    if bench.tries < 1000:  # a few tries are of all kinds, not the first ones
        left = iter(random.Random(bench.seed).sample(list(islice(faults(bench.seed), 3_000)), bench.tries))
    number = 0
    while some := list(islice(left, _AT_ONCE)):
        number += 1
        yield from _tried(bench, some, bench.scratch / str(number))
        shutil.rmtree(bench.scratch / str(number))


def _tried(bench: Bench, some: Sequence[Fault], place: Path) -> Iterator[Try]:
    names = _made(place, some)
    together = _of_all(bench, place)
    for fault, name in zip(some, names, strict=True):
        found = _by_name(bench, place, name)
        if found is None and fault.name.startswith(ORDER_FILE):
            found = _again(bench, fault, place)
        if found is None and together is not None:
            found = _one_of_all(bench, fault, place)
        yield Try(fault.name, found[0] if found else Result.FINE, found[1] if found else "")


def _made(place: Path, some: Sequence[Fault]) -> list[str]:
    """Make a folder with a good run and hostile ones."""
    _saved(place / ".ctrace" / GOOD)
    names = [f"20260101-000001-h{number}" for number in range(len(some))]
    for fault, name in zip(some, names, strict=True):
        _saved(place / ".ctrace" / name)
        fault.spoil(place / ".ctrace" / name)
    return names


def _saved(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({**RUN, "failure": None}))
    (folder / "order.json").write_text(json.dumps(ORDER))
    shutil.copy(LOG, folder / "trace.log")


_Wrong = tuple[Result, str] | None


def _one_of_all(bench: Bench, fault: Fault, place: Path) -> _Wrong:
    alone = place / "alone"
    _made(alone, [fault])
    try:
        return _of_all(bench, alone)
    finally:
        shutil.rmtree(alone)


def _again(bench: Bench, fault: Fault, place: Path) -> _Wrong:
    """Rerun the order for a GPU; there is no model.py, so nothing can run."""
    alone = place / "alone"
    _saved(alone / ".ctrace" / GOOD)
    fault.spoil(alone / ".ctrace" / GOOD)
    words = ["kernels", "--target", "h100"]
    try:
        return _wrong(words, *_ctrace(bench, alone, words), (2,))
    finally:
        shutil.rmtree(alone)


def _of_all(bench: Bench, place: Path) -> _Wrong:
    """Run the commands that read all runs: they show the good one, whatever the others contain."""
    for words in (["runs"], ["runs", "--json"], ["runs", "--prune", "1000"]):
        code, out, err = _ctrace(bench, place, words)
        if wrong := _wrong(words, code, out, err, (0,)):
            return wrong
        if words == ["runs"] and GOOD not in out:
            return Result.LOSS, "runs lists the good run no more"
        if words == ["runs", "--json"] and GOOD not in [each["name"] for each in json.loads(out)]:
            return Result.LOSS, "runs --json lists the good run no more"
    # Any run may claim to be the last one; refusing one with a false claim is not a bug.
    words = ["explain", "--json"]
    return _wrong(words, *_ctrace(bench, place, words), (0, 2))


def _by_name(bench: Bench, place: Path, name: str) -> _Wrong:
    words = random.Random(name).choice((["explain", name], ["explain", name, "--json"], ["breaks", name]))
    return _wrong(words, *_ctrace(bench, place, words), (0, 2))


def _wrong(words: list[str], code: int, out: str, err: str, right: tuple[int, ...]) -> _Wrong:
    what = " ".join(words)
    if code == BUG or code < 0 or "Traceback" in err:
        return Result.CRASH, f"{what}: exit {code}: {err.strip().splitlines()[-2:]!r:.300}"
    if code not in right:
        return Result.LIE, f"{what}: exit {code}: {err!r:.200}"
    if seen := obeyed(out) + obeyed(err):
        return Result.LIE, f"{what} writes {seen!r:.200}"
    if "--json" in words and code == 0:
        try:
            json.loads(out, parse_constant=_no_constant)
        except ValueError as error:
            return Result.LIE, f"{what} writes no JSON: {error}"
    return None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _ctrace(bench: Bench, place: Path, words: list[str]) -> tuple[int, str, str]:
    """Run a command; if it is this Python's ctrace, in this process, because 2,500 processes take an hour."""
    if bench.ctrace == (sys.executable, "-m", "ctrace"):
        with _within(place), _at_most(_SECONDS):
            ran = ctrace(*words)
        return ran.code, ran.out, ran.err
    try:
        done = subprocess.run([*bench.ctrace, *words], cwd=place, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return -9, "", "hangs\n"
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


@contextmanager
def _within(place: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise if the block takes longer, which counts as a crash."""

    def hang(_number: int, _frame: object) -> None:
        msg = "hangs"
        raise RuntimeError(msg)

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


FAULTS = Study("hostile run files", 2_500, run)
