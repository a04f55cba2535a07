"""Two processes at once: neither undoes what the other writes, and both end as they would alone."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

from tests.faults.study import Bench, Result, Study, Try

_MODEL = "import torch\nmodel = torch.nn.Linear({}, 2)\ninputs = (torch.rand(3, {}),)\n"
_POINTWISE = "import torch\ndef model(x): return (x.sin() + 1).relu()\ninputs = (torch.rand(64, 64),)\n"
_SECONDS = 600
Pair = Callable[[Bench, Path], tuple[Result, str]]


def _together(bench: Bench, folder: Path, *commands: tuple[str, ...]) -> "list[subprocess.CompletedProcess[str]]":
    """Start commands at the same time, and wait for all."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen([*bench.ctrace, *each], cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)
        for each in commands
    ]
    ended = [(each, each.communicate(timeout=_SECONDS)) for each in started]
    return [subprocess.CompletedProcess(each.args, each.returncode, *texts) for each, texts in ended]


def _crashed(done: "list[subprocess.CompletedProcess[str]]") -> str:
    return next((each.stderr[-300:] for each in done if each.returncode == 70 or "Traceback" in each.stderr), "")


def update(bench: Bench, folder: Path) -> tuple[Result, str]:
    """Two `check --update` of different models: the lock knows both."""
    for name, size in (("a", 2), ("b", 3)):
        (folder / f"{name}.py").write_text(_MODEL.format(size, size))
    done = _together(bench, folder, ("check", "--update", "a.py"), ("check", "--update", "b.py"))
    if why := _crashed(done):
        return Result.CRASH, why
    if [each.returncode for each in done] != [0, 0]:
        return Result.LIE, f"{[each.returncode for each in done]}"
    text = (folder / "ctrace.lock").read_text()
    lost = [name for name in ("a.py", "b.py") if name not in text]
    left = [each.name for each in folder.iterdir() if each.name.startswith(".ctrace.lock")]
    return (Result.LOSS, f"{lost}") if lost else (Result.LEFT, f"{left}") if left else (Result.FINE, "")


def init(bench: Bench, folder: Path) -> tuple[Result, str]:
    """Two `check --init`: one creates the policy, the other reports that it exists."""
    for name, size in (("a", 2), ("b", 3)):
        (folder / f"{name}.py").write_text(_MODEL.format(size, size))
    done = _together(bench, folder, ("check", "--init", "a.py"), ("check", "--init", "b.py"))
    if why := _crashed(done):
        return Result.CRASH, why
    codes = [each.returncode for each in done]
    if sorted(codes) != [0, 2] or "already exists" not in done[codes.index(2)].stderr:
        return Result.LOSS, f"exit codes {codes}: {[each.stderr[-100:] for each in done]}"
    won = "ab"[codes.index(0)]
    is_whole = (
        f"{won}.py" in (folder / "ctrace.yaml").read_text() and f"{won}.py" in (folder / "ctrace.lock").read_text()
    )
    return (Result.FINE, "") if is_whole else (Result.LOSS, "the policy is not that of the one that succeeded")


def prune(bench: Bench, folder: Path) -> tuple[Result, str]:
    """`explain` beside repeated `runs --prune 0`: the new run stays."""
    (folder / "m.py").write_text(_MODEL.format(2, 2))
    done = _together(bench, folder, ("explain", "m.py"), *[("runs", "--prune", "0")] * 4)
    if why := _crashed(done):
        return Result.CRASH, why
    if any(each.returncode for each in done):
        return Result.LIE, f"{[each.returncode for each in done]}"
    return _all_saved(folder, 1)


def explains(bench: Bench, folder: Path) -> tuple[Result, str]:
    """Two `explain` in one second: two runs, each whole."""
    (folder / "m.py").write_text(_MODEL.format(2, 2))
    command = ("explain", "m.py", "--backend", "eager")
    done = _together(bench, folder, command, command)
    if why := _crashed(done):
        return Result.CRASH, why
    if any(each.returncode or "COMPILED" not in each.stdout for each in done):
        return Result.LIE, f"{[each.returncode for each in done]}"
    return _all_saved(folder, 2)


def kernels(bench: Bench, folder: Path) -> tuple[Result, str]:
    """Two runs that compile the same kernel for a GPU: both show it, and the cache has no unfinished entry."""
    (folder / "m.py").write_text(_POINTWISE)
    command = ("explain", "m.py", "--target", "h100")
    done = _together(bench, folder, command, command)
    if why := _crashed(done):
        return Result.CRASH, why
    if any(each.returncode or "could not be" in each.stdout for each in done):
        return Result.LIE, f"{[each.stdout[-200:] for each in done]}"
    left = [each.name for each in (folder / "cache").rglob("*") if each.is_file() and len(each.name) != 62]
    return (Result.LEFT, f"{left}") if left else _all_saved(folder, 2)


def _all_saved(folder: Path, number: int) -> tuple[Result, str]:
    runs = [each for each in (folder / ".ctrace").iterdir() if each.is_dir()]
    whole = [run for run in runs if json.loads((run / "run.json").read_text())["status"] == "done"]
    if len(whole) != number or (folder / ".ctrace" / ".gitignore").read_text() != "*\n":
        return Result.LOSS, f"{len(whole)} of {number} runs are there"
    return Result.FINE, ""


PAIRS: tuple[Pair, ...] = (update, init, prune, explains, kernels)


def run(bench: Bench) -> Iterator[Try]:
    """Try each pair in turn."""
    for number, pair in enumerate(islice(cycle(PAIRS), bench.tries)):
        folder = bench.scratch / str(number)
        folder.mkdir()
        yield Try(f"{pair.__name__} #{number}", *pair(bench, folder))


FAULTS = Study("two at once", 50, run)
