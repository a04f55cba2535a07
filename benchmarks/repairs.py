"""Count the findings of many models by cause, how many have a proved repair, and what `ctrace fix` costs.

Targets are files, folders of files, and names of architectures of `_broken_models.py`; by default all samples and all
architectures. Each model is explained and fixed once, each in a new process; REPORT gets every finding and repair as
JSON, for check_repairs.py.
With --jobs, several models run side by side; times are then of a busy machine.
usage: repairs.py REPORT.json [--budget 90s] [--build] [--jobs 1] [TARGET ...]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from _broken_models import NAMES
from _measure import SAMPLES

ARCHITECTURES = Path(__file__).resolve().parent / "_broken_models.py"
SIX = ("tensor branch", "deepcopy", "data-dependent operator", "skipped function", ".item()", "logging")
"""The causes that are most common in public models."""
_BY_KIND = {
    "tensor_branch": "tensor branch",
    "dynamic_output": "data-dependent operator",
    "not_traced": "skipped function",
    "tensor_value": ".item()",
    "output": "logging",
}
STATES = ("proved", "with a choice", "in a library", "unproved", "not tried")
_SECONDS = 900
_EXPLAIN_EACH = 3
"""One target of so many is also explained, for the comparison of times."""


def main() -> int:
    """Measure all targets, print the table, and write the report."""
    words = sys.argv[1:]
    if not words or words[0].startswith("-"):
        print(__doc__)
        return 2
    report, words = Path(words[0]), words[1:]
    jobs = int(words.pop(words.index("--jobs") + 1)) if "--jobs" in words else 1
    budget = words.pop(words.index("--budget") + 1) if "--budget" in words else "90s"
    build = "--build" in words
    targets = list(_targets([each for each in words if not each.startswith("--")]))
    rows = []
    with ThreadPoolExecutor(jobs) as pool:
        running = [
            pool.submit(_measured, target, budget, build=build, explains=number % _EXPLAIN_EACH == 0)
            for number, target in enumerate(targets)
        ]
        for future in as_completed(running):
            rows.append(future.result())
            print(_line(rows[-1]), flush=True)
            report.write_text(json.dumps(rows, indent=1))
    _print_table(rows)
    return 0


def _targets(words: list[str]) -> Iterable[str]:
    for word in words or [str(SAMPLES), *NAMES]:
        path = Path(word)
        yield from sorted(map(str, path.glob("*.py"))) if path.is_dir() else [word]


def _measured(target: str, budget: str, *, build: bool, explains: bool) -> dict[str, Any]:
    """Fix one target, and explain it before if requested."""
    is_architecture = target in NAMES
    file = str(ARCHITECTURES) if is_architecture else str(Path(target).resolve())
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as folder:
        environment = {**os.environ, "CTRACE_DIR": folder, "CTRACE_BENCH_MODEL": target}
        seconds = _ran(["explain", file, "--json"], environment)[1] if explains else None
        words = ["fix", file, "--json", "--budget", budget, *([] if build else ["--no-build"])]
        found, fixing = _ran(words, environment)
    row: dict[str, Any] = {"target": target, "file": file, "model": target if is_architecture else ""}
    row |= {"explain_seconds": seconds, "fix_seconds": fixing, "findings": [], "repairs": []}
    if found is None:
        return {**row, "failed": True}
    row["unstable"], row["untried"] = found["unstable"], found["untried"]
    row["repairs"] = [each for each in found["repairs"] if each["proved"]]
    row["findings"] = [_finding(each, found) for each in found["findings"] if not each["expected"]]
    return row


def _ran(words: list[str], environment: dict[str, str]) -> tuple[dict[str, Any] | None, float]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "ctrace", *words]
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return None, time.perf_counter() - began
    seconds = time.perf_counter() - began
    try:
        data: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        print(ran.stderr[-500:], file=sys.stderr)
        return None, seconds
    return data, seconds


def _finding(cause: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return a finding with the best that is known about its repair."""
    mine = [each for each in found["repairs"] if cause["id"] in (each["finding"], *each["findings"])]
    proved = [each for each in mine if each["proved"]]
    free = [each for each in proved if not each["question"] and not each["library"]]
    asked = [each for each in proved if each["question"] and not each["library"]]
    state = 0 if free else 1 if asked else 2 if proved else 3 if mine else 4
    best = (free or asked or proved or mine or [None])[0]
    return {
        "id": cause["id"],
        "cause": _cause(cause),
        "title": cause["title"],
        "place": f"{cause['file']}:{cause['line']}",
        "state": STATES[state],
        "repair": best["name"] if best else None,
        "why": best["why"] if best else None,
    }


def _cause(cause: dict[str, Any]) -> str:
    """Return the name of a cause, as statistics of public models group them."""
    text = f"{cause['title']} {cause['why']}"
    if "deepcopy" in text or "copy.copy" in text:
        return "deepcopy"
    if cause["kind"] == "unsupported_call" and ("skip" in cause["why"] or "skip" in cause["title"]):
        return "skipped function"
    return str(_BY_KIND.get(cause["kind"], cause["kind"]))


def _line(row: dict[str, Any]) -> str:
    if row.get("failed"):
        return f"{row['target']}: failed"
    states = [each["state"] for each in row["findings"]]
    counted = ", ".join(f"{states.count(each)} {each}" for each in STATES if each in states) or "no findings"
    explained = f", explain {row['explain_seconds']:.0f} s" if row["explain_seconds"] else ""
    return f"{row['target']}: {counted}; fix {row['fix_seconds']:.0f} s{explained}"


def _print_table(rows: list[dict[str, Any]]) -> None:
    by_cause: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for each in row["findings"]:
            by_cause[each["cause"]].append(each["state"])
    order = [*SIX, *sorted(set(by_cause) - set(SIX), key=lambda each: -len(by_cause[each]))]
    print(f"\n| cause | findings | {' | '.join(STATES)} |\n|---|--:|{'--:|' * len(STATES)}")
    for cause in order:
        states = by_cause[cause]
        print(f"| {cause} | {len(states)} | {' | '.join(str(states.count(each)) for each in STATES)} |")
    six = [state for cause in SIX for state in by_cause[cause]]
    every = [state for states in by_cause.values() for state in states]
    for name, states in (("the six commonest causes", six), ("all causes", every)):
        good = sum(each in STATES[:3] for each in states)
        print(f"{name}: {good} of {len(states)} findings have a proved repair, {states.count('proved')} of them free")
    several = [row for row in rows if row["findings"] and row["explain_seconds"] and not row.get("failed")]
    if several:
        ratios = [row["fix_seconds"] / len(row["findings"]) / row["explain_seconds"] for row in several]
        times = [row["fix_seconds"] / len(row["findings"]) for row in several]
        print(
            f"fix takes {statistics.median(times):.0f} s per finding in the median of {len(several)} models, "
            f"{statistics.median(ratios):.1f} times as long as one explain"
        )


if __name__ == "__main__":
    sys.exit(main())
