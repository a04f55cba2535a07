"""Measure what a second `ctrace check` notices: changes between two checks that must not stay green, and what is none.

Each case is a small model whose graph breaks if something outside of its file says so. It is checked, the something is
changed, and it is checked again: the second check must not reuse the first one's result. The non-changes must be
reused. Both checks are real command lines; models whose changes do not touch each other share one.
usage: check_cache.py [--every N] [--only WORD] [--together] [--python OTHER_PYTHON]
`--every N` takes each Nth case, `--only WORD` those of one class, `--together` leaves out what takes two checks of its
own, such as changes of the environment; `--python` measures another ctrace.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from _cache_changes import CHANGES, NO_CHANGES, Case

MODEL = """
import ctypes, glob, importlib, importlib.metadata, importlib.util, io, json, mmap, os, pkgutil, socket, sqlite3
import subprocess, sys
from pathlib import Path
import numpy
import torch

HERE = Path(__file__).resolve().parent
{code}

class Net(torch.nn.Module):
    def forward(self, x):
        if BREAK:
            print("a graph break")
        return torch.relu(x)

model = Net()
def inputs(): return (torch.rand(4, 4),)
"""
POLICY = "version: 1\nmodels: ['*/net.py']\nlimits: {breaks: 0}\n"


def main() -> int:
    """Run the study; return 1 if a change was missed, or if a result was not reused without a change."""
    options = _options()
    cases = [each for each in (*CHANGES, *NO_CHANGES) if options.only in each.kind]
    cases = [each for each in cases if not (options.together and each.is_alone)][:: options.every]
    with tempfile.TemporaryDirectory(prefix="ctrace-cache-") as folder:
        results = dict(_measured(cases, Path(folder), options.python))
    wrong = 0
    for kind in dict.fromkeys(each.kind for each in cases):
        of_kind = [each for each in cases if each.kind == kind]
        is_change = of_kind[0].changes
        for each in of_kind:
            found = results[each]
            good = found == ("checked again" if is_change else "reused")
            wrong += not good
            print(f"{'ok   ' if good else 'WRONG'} {kind}: {each.name}: {found}")
    for kind in dict.fromkeys(each.kind for each in cases):
        of_kind = [each for each in cases if each.kind == kind]
        reused = sum(results[each] == "reused" for each in of_kind)
        print(f"{kind}: {reused} of {len(of_kind)} {'stayed green' if of_kind[0].changes else 'reused'}")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    return parser.parse_args()


def _measured(cases: Sequence[Case], folder: Path, python: str) -> Iterator[tuple[Case, str]]:
    """Yield what happened to each case; cases that change the environment are checked alone."""
    together = [each for each in cases if not each.is_alone]
    yield from _checked_twice(together, folder / "together", python)
    for number, case in enumerate(each for each in cases if each.is_alone):
        yield from _checked_twice([case], folder / f"alone{number}", python)


def _checked_twice(cases: Sequence[Case], folder: Path, python: str) -> Iterator[tuple[Case, str]]:
    if not cases:
        return
    folder.mkdir()
    (folder / "ctrace.yaml").write_text(POLICY, encoding="utf-8")
    places = {case: folder / f"m{number:02}" for number, case in enumerate(cases)}
    for case in cases:
        place = places[case]
        place.mkdir()
        (place / "net.py").write_text(MODEL.format(code=case.code), encoding="utf-8")
        case.before(place)
    time.sleep(0.05)  # a file that is as new as the check itself counts as changing
    place = next(iter(places.values()))
    first = _check(python, folder, cases[0].first(place))
    for case in cases:
        case.change(places[case])
    second = _check(python, folder, cases[0].second(place), cases[0].wrapper)
    for case in cases:
        key = f"{places[case].name}/net.py"
        yield case, _outcome(case, first[key], second[key])


def _outcome(case: Case, first: dict[str, object], second: dict[str, object]) -> str:
    if first["exit"] != 0:
        return f"not measured: the first check gave {first}"
    if second["reused"]:
        return "reused"
    if case.changes and not case.is_chance and second["exit"] == 0:
        return f"checked again, but the change has no effect: {second}"
    return "checked again" if case.changes else f"checked again: {first['notes']}"


def _check(
    python: str, folder: Path, variables: dict[str, str | None], wrapper: Sequence[str] = ()
) -> dict[str, dict[str, object]]:
    environment = {**os.environ, "CTRACE_DIR": str(folder.parent / f"{folder.name}-runs")}
    for name, value in variables.items():
        environment.pop(name, None) if value is None else environment.update({name: value})
    command = [*wrapper, python, "-m", "ctrace", "check", "--json"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr)
    report = json.loads(done.stdout)
    return {job["model"]: {**job, "notes": report["notes"]} for job in report["jobs"]}


if __name__ == "__main__":
    if shutil.which("git") is None:
        raise SystemExit("a case needs git")
    sys.exit(main())
