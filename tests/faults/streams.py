"""Standard streams that are closed, full, broken, or lack letters: no traceback, the right exit code, JSON kept whole.

Each command runs once on plain UTF-8 pipes, then once on each kind of stream; its exit code, and the data of its JSON,
must stay the same.
"""

import json
import os
import random
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.study import Bench, Result, Study, Try
from tests.support.places import DATA

MODEL = "größe.py"
_SOURCE = '''"""Names that few encodings hold."""
import torch
class Größe(torch.nn.Module):
    def forward(self, x):
        x = torch.relu(x * 2)
        print("größer → 日本", x.sum().item() > 3)
        return self.später(x).softmax(-1)
    def später(self, y):
        return y + y.shape[0]
model = Größe()
def inputs(): return (torch.rand(4, 8),)
scenarios = {"breit – 日本": lambda: (torch.rand(6, 8),)}
'''
_RAISING = 'import torch\nmodel = torch.nn.Linear(2, 2)\ndef inputs(): raise ValueError("größer → 日本")\n'
_PROGRAM = f"{_SOURCE}compiled = torch.compile(model)\ncompiled(*inputs())\n"
_OURS = ("this is a bug in ctrace", "cli/main.py", "Exception ignored")
"""Marks of a traceback that is not the program's."""
_SECONDS = 300
_ENVIRONMENT = {"PYTHONIOENCODING": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONUNBUFFERED": ""}


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of standard streams."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    suffix: str = ""
    """Shell code after the command."""
    prefix: str = ""
    """Shell code before the command."""
    keeps_output: bool = True
    """Whether what the command writes to stdout can be read."""
    code: int | None = None
    """The exit code if anything is written to stdout; None for the usual one."""


def _encoding(name: str) -> Stream:
    return Stream(name, {"PYTHONIOENCODING": name})


STREAMS = (
    _encoding("latin-1"),
    _encoding("ascii"),
    _encoding("ascii:strict"),
    _encoding("cp1252"),
    _encoding("cp932"),
    _encoding("utf-16"),
    Stream("C locale", {"LC_ALL": "C"}),
    Stream("POSIX locale", {"LC_ALL": "POSIX"}),
    Stream("closed stdout", suffix=" >&-", keeps_output=False),
    Stream("closed stderr", suffix=" 2>&-"),
    Stream("closed stdin", suffix=" <&-"),
    Stream("all closed", suffix=" <&- >&- 2>&-", keeps_output=False),
    Stream("broken pipe", suffix=" | true", keeps_output=False),
    Stream("broken pipe of stderr", suffix=" 2> >(exec 0<&-)"),
    Stream("full stdout", suffix=" > /dev/full", keeps_output=False, code=2),
    Stream("full stderr", suffix=" 2> /dev/full"),
    Stream("unbuffered broken pipe", {"PYTHONUNBUFFERED": "1"}, suffix=" | true", keeps_output=False),
    Stream("slow pipe", suffix=" | (sleep 1; cat)"),
    Stream("pipe that does not block", prefix="exec 1> >(sleep 1; cat); python3 -c 'import os; os.set_blocking(1, False)'; "),
)  # fmt: skip

_VIEWS = (
    "explain", "breaks", "recompiles", "guards", "shapes", "bytecode", "graphs", "fusion", "kernels", "autotune",
    "cudagraphs",
)  # fmt: skip
READING = (
    *(f"{view} {log} {form}" for view in _VIEWS for log in ("base", "FUSED") for form in ("", "--json")),
    "explain base --markdown", "explain base --verbose", "explain FUSED --markdown", "breaks base --all",
    "guards base --all", "bytecode base --all", "bytecode base --side-by-side", "bytecode base --source",
    "graphs base --all", "graphs base --dot", "graphs base --svg", "graphs base --ops", "graphs base --passes",
    "kernels FUSED --source", "kernels FUSED --wrapper", "kernels FUSED --all", "time base --compile",
    "time base --compile --json", "time base --compile --perfetto /dev/stdout", "diff base FUSED",
    "diff base FUSED --json", "diff base FUSED --markdown", "diff base FUSED --all", "ranks RANKS", "ranks RANKS --json",
    "ranks RANKS --perfetto /dev/stdout", "report base -o -", "report --ranks RANKS -o -", "runs", "runs --json",
    "targets", "targets --json", "targets h100", "schema", "schema check", "doctor", "doctor --json", "--help",
    "explain --help", "--version --verbose", "breaks --explain loop", "breaks --explain größe", "explain größer.py",
    "explain base --graph größe", "browse base", "explain -o größe/größe.txt base", "runs --keep größe",
)  # fmt: skip
RUNNING = (
    f"explain {MODEL}", f"explain {MODEL} --json", "explain raising.py", "explain raising.py --json",
    "run program.py", "run --json program.py", f"check {MODEL}", f"check {MODEL} --json", f"check {MODEL} --markdown",
    f"check {MODEL} --annotations --junit /dev/stdout", f"check {MODEL} --sarif /dev/stdout", f"fix {MODEL} --diff",
    f"fix {MODEL} --json", f"fix {MODEL}", f"repro {MODEL}", f"repro {MODEL} --issue", f"repro {MODEL} --json",
    f"time {MODEL} --rounds 3",
)  # fmt: skip


def _prepare(ctrace: tuple[str, ...], folder: Path) -> None:
    """Write programs with names that few encodings hold, and save a run of one as `base`."""
    folder.mkdir()
    for name, text in ((MODEL, _SOURCE), ("raising.py", _RAISING), ("program.py", _PROGRAM)):
        (folder / name).write_text(text, encoding="utf-8")
    command = [*ctrace, "explain", MODEL, "--name", "base"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=_environment({}, folder))


def _environment(more: dict[str, str], folder: Path) -> dict[str, str]:
    caches = {"XDG_STATE_HOME": str(folder / ".state"), "XDG_CACHE_HOME": str(folder / ".cache")}
    return {**os.environ, "LC_ALL": "C.UTF-8", **_ENVIRONMENT, **caches, **more}


def ran(ctrace: tuple[str, ...], words: str, stream: Stream, folder: Path) -> "subprocess.CompletedProcess[bytes]":
    """Run a command on a kind of streams; the exit code is the command's, even in a pipe."""
    named = words.replace("FUSED", str(DATA / "fused.log")).replace("RANKS", str(DATA / "ranks" / "branch"))
    script = f"{stream.prefix}{shlex.join(ctrace)} {named}{stream.suffix}; exit ${{PIPESTATUS[0]}}"
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=_environment(stream.environment, folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )


def judged(words: str, stream: Stream, plain: "subprocess.CompletedProcess[bytes]", done: "subprocess.CompletedProcess[bytes]") -> Try:  # fmt: skip
    """Compare a command on a kind of streams with the same command on plain pipes."""
    name = f"{words} × {stream.name}"
    said = done.stderr.decode(errors="replace")
    if done.returncode in (70, 120) or any(mark in said for mark in _OURS):
        return Try(name, Result.CRASH, f"exit code {done.returncode}: {said[-300:]}")
    expected = stream.code if stream.code is not None and plain.stdout else plain.returncode
    if done.returncode != expected:
        return Try(name, Result.LIE, f"exit code {done.returncode} instead of {expected}: {said[-300:]}")
    if not stream.keeps_output:
        return Try(name, Result.FINE)
    if plain.stdout and not done.stdout:
        return Try(name, Result.LIE, "nothing on stdout")
    if "--json" in words:
        encoding = stream.environment.get("PYTHONIOENCODING", "utf-8").partition(":")[0]
        try:
            found = json.loads(done.stdout.decode(encoding))
        except ValueError as error:
            return Try(name, Result.LIE, f"no JSON: {error}")
        if _is_repeatable(words) and found != json.loads(plain.stdout):
            return Try(name, Result.LIE, "other data")
    return Try(name, Result.FINE)


def _is_repeatable(words: str) -> bool:
    return words in READING and not words.startswith("doctor")


def run(bench: Bench) -> Iterator[Try]:
    """Try each command on each kind of streams; a few tries are a sample of all."""
    folder = bench.scratch / "work"
    _prepare(bench.ctrace, folder)
    pairs = [(words, stream) for words in (*READING, *RUNNING) for stream in STREAMS]
    if bench.tries < len(pairs):
        pairs = random.Random(bench.seed).sample(pairs, bench.tries)
    plain: dict[str, subprocess.CompletedProcess[bytes]] = {}
    for words, stream in pairs:
        if words not in plain:
            plain[words] = ran(bench.ctrace, words, Stream("plain"), folder)
        try:
            done = ran(bench.ctrace, words, stream, folder)
        except subprocess.TimeoutExpired:
            yield Try(f"{words} × {stream.name}", Result.CRASH, "it hangs")
        else:
            yield judged(words, stream, plain[words], done)


FAULTS = Study("standard streams", (len(READING) + len(RUNNING)) * len(STREAMS), run)
