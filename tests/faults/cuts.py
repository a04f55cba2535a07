"""Cut logs written by torch alone at record boundaries: which cuts can a reader detect?

A TORCH_TRACE log has no end mark, so only unfinished work shows a cut. A small oracle searches for that independently
of the reader: a phase without an end, a compilation without metrics. If it finds any and the report looks healthy, the
report lies; if it finds none, the cut is silent.
"""

import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ctrace.inspector.facts.session import Verdict
from ctrace.inspector.features.check.trust import untrusted
from ctrace.inspector.runs.load import load_log
from tests.faults.study import Bench, Result, Study, Try

PROGRAMS = {
    "train": """
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
compiled = torch.compile(model)
for rows in (4, 6, 9):
    compiled(torch.rand(rows, 8)).sum().backward()
""",
    "breaks": """
@torch.compile
def f(x):
    y = x.sin()
    print("a break")
    if y.sum() > 0:
        y = y * 2
    return y.cos()
for rows in (3, 4, 5):
    f(torch.rand(rows))
""",
    "failures": """
torch._dynamo.config.suppress_errors = True
def refuse(graph, inputs):
    raise RuntimeError("no")
torch.compile(lambda x: x.sin(), backend=refuse)(torch.rand(3))
torch.compile(lambda x: x.cos(), backend="aot_eager")(torch.rand(3))
def generator(x):
    yield x + 1
list(torch.compile(generator)(torch.rand(3)))
""",
    "limit": """
f = torch.compile(lambda x: x.sin(), dynamic=False, backend="eager")
for rows in range(2, 14):
    f(torch.rand(rows))
""",
    "autograd": """
model = torch.nn.Linear(4, 4)
compiled = torch.compile(model, backend="aot_eager")
with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
    for _ in range(2):
        compiled(torch.rand(2, 4)).sum().backward()
""",
}


def run(bench: Bench) -> Iterator[Try]:
    """Cut logs of several programs at random record boundaries, and also check each whole log."""
    logs = [_recorded(name, text, bench.scratch) for name, text in PROGRAMS.items()]
    yield from tried(logs, bench)


def tried(logs: list[Path], bench: Bench) -> Iterator[Try]:
    """Cut some logs as often as the bench says."""
    is_here = bench.ctrace[0] == sys.executable
    for log in logs:
        verdict = _verdict(log, bench, is_here=is_here)
        result = Result.FINE if verdict not in ("incomplete", "crash") else Result.LIE
        yield Try(f"{log.stem} whole", result, f"a whole log is {verdict}")
    boundaries = [(log, at) for log in logs for at in _boundaries(log)]
    chance = random.Random(bench.seed)
    for log, at in chance.choices(boundaries, k=bench.tries - len(logs)):
        cut = bench.scratch / "cut.log"
        cut.write_bytes(log.read_bytes()[:at])
        yield _judged(f"{log.stem} at byte {at}", cut, _verdict(cut, bench, is_here=is_here))


def _judged(name: str, cut: Path, verdict: str) -> Try:
    if verdict == "crash":
        return Try(name, Result.CRASH)
    if verdict == "incomplete":
        return Try(name, Result.FINE)
    opened = left_open(cut)
    if opened:
        return Try(name, Result.LIE, f"{verdict}, though {opened}")
    return Try(name, Result.SILENT, f"{verdict}: nothing is open between two compilations")


def _verdict(log: Path, bench: Bench, *, is_here: bool) -> str:
    if is_here:
        session = load_log(log)
        doubted = [each.kind for each in untrusted(session)]
        if (session.verdict is Verdict.INCOMPLETE) != ("doubt" in doubted):
            return f"{session.verdict} to explain and {doubted} to check"
        return str(session.verdict)
    done = subprocess.run([*bench.ctrace, "explain", str(log), "--json"], capture_output=True, check=False)
    return "crash" if done.returncode not in (0, 3) else str(json.loads(done.stdout)["verdict"])


def left_open(log: Path) -> str:
    """Return what a log leaves open; empty: nothing."""
    spans: dict[bytes, list[str]] = defaultdict(list)
    started: dict[tuple[int, int], None] = {}
    header, payload = b"", b""
    for line in [*log.read_bytes().splitlines(keepends=True), b""]:
        if line.startswith(b"\t"):
            payload += line[1:]
            continue
        if header:
            _follow(header, payload, spans, started)
        header, payload = line, b""
    opened = [name for names in spans.values() for name in names[:1]]
    opened += [f"compilation {frame}/{number} has no metrics" for frame, number in started]
    return ", ".join(opened)


def _follow(header: bytes, payload: bytes, spans: dict[bytes, list[str]], started: dict[tuple[int, int], None]) -> None:
    record = json.loads(header.partition(b"] ")[2])
    compilation = record.get("frame_id"), record.get("frame_compile_id")
    if "dynamo_start" in record:
        started[compilation] = None
    elif "compilation_metrics" in record:
        started.pop(compilation, None)
    elif "chromium_event" in record:
        try:
            event = json.loads(payload)
        except ValueError:  # an instant, which tests/support/record.py shortens
            return
        names = spans[header.split()[2]]
        if event["ph"] == "B":
            names.append(event["name"])
        elif event["ph"] == "E" and event["name"] in names:
            while names.pop() != event["name"]:
                pass


def _boundaries(log: Path) -> list[int]:
    """List the offsets where a record ends and another follows."""
    found, at = [], 0
    for line in log.read_bytes().splitlines(keepends=True):
        if at and not line.startswith(b"\t"):
            found.append(at)
        at += len(line)
    return found


def _recorded(name: str, text: str, scratch: Path) -> Path:
    """Run a program and return the log that torch wrote of it."""
    folder = scratch / f"{name}_trace"
    script = scratch / f"{name}.py"
    script.write_text(f"import torch\n{text}")
    variables = {"TORCH_TRACE": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(scratch / "cache"), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(script)], env={**os.environ, **variables}, capture_output=True, check=True)
    (log,) = folder.glob("*.log")
    return log.rename(scratch / f"{name}.log")


FAULTS = Study("cuts at record boundaries", 1_000, run)
