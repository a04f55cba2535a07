"""Run ctrace with every torch and Python that it supports, one pair after another: `make matrix`.

Each pair gets an environment (about 6 GB with a CUDA build of torch), which is removed afterwards unless `--keep`. Each
step's result is stored in its own cell of docs/reference/matrix.json, so a partial run replaces only its own cells. The
tables in README.md and docs/reference/versions.md are written from that file and from inspector/versions/.

    python tools/matrix.py                                  every pair
    python tools/matrix.py --only 2.15 --only 2.11/3.12     these pairs
    python tools/matrix.py --only 2.15/3.14 --steps doctor,samples --keep
    python tools/matrix.py --tables                         write the tables only
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # runs before anything is installed

from ctrace.inspector.errors import CtraceError, TargetError, did_you_mean  # noqa: E402
from ctrace.inspector.versions.differences import DIFFERENCES  # noqa: E402
from ctrace.inspector.versions.releases import RELEASES  # noqa: E402

DATA = ROOT / "docs" / "reference" / "matrix.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "reference" / "versions.md")
_TABLE = re.compile(r"(<!-- matrix: (?P<name>\w+) -->\n).*?(<!-- end of matrix -->\n)", re.DOTALL)
_MINUTES = 60
NEVER = "it was not tried yet"


@dataclass(frozen=True, slots=True)
class Pair:
    """A release of torch and a Python that it supports."""

    torch: str
    triton: str
    python: str

    @property
    def name(self) -> str:
        """The name in `--only` and in the data."""
        return f"{self.torch}/{self.python}"


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a step: `ok`, `failed` or `not run`."""

    result: str
    detail: str
    """A count, what failed, or the reason for not running."""

    def __str__(self) -> str:
        if self.result == "not run":
            return f"not run, because {self.detail}"
        return self.detail if self.result == "ok" else f"**failed**: {self.detail}"


@dataclass(frozen=True, slots=True)
class Bench:
    """An environment, and a working folder outside the checkout."""

    python: Path
    scratch: Path

    def torch(self) -> str:
        """Return the version of torch without importing it."""
        return self.run("-c", "from importlib import metadata; print(metadata.version('torch'))").stdout.strip()

    def run(self, *words: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a module or a file in the environment, for at most an hour."""
        bin_folder = str(self.python.parent)
        environment = {
            **os.environ,
            "NO_COLOR": "1",
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            **variables,
        }
        return subprocess.run(
            [self.python, *words],
            cwd=cwd or self.scratch,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_MINUTES * 60,
            check=False,
        )


def pairs() -> list[Pair]:
    """Return every supported pair, the newest torch first."""
    return [Pair(each.torch, each.triton, python) for each in reversed(RELEASES) for python in each.pythons]


def chosen(only: Sequence[str]) -> list[Pair]:
    """Return the pairs that `--only` names: `2.15`, `2.15.0`, `2.15/3.14` or `/3.14`."""
    known = pairs()
    if not only:
        return known
    found: list[Pair] = []
    for name in only:
        torch, _, python = name.partition("/")
        fitting = [one for one in known if _fits(one.torch, torch) and _fits(one.python, python)]
        if not fitting:
            names = [*dict.fromkeys(one.torch for one in known), *(one.name for one in known)]
            raise TargetError(f"--only {name}: no supported torch and Python have this name", did_you_mean(name, names))
        found += [one for one in fitting if one not in found]
    return found


def _fits(version: str, prefix: str) -> bool:
    return not prefix or version == prefix or version.startswith(prefix + ".")


def steps_of(names: str) -> list[str]:
    """Return the steps that `--steps` names."""
    selected = [name.strip() for name in names.split(",")]
    for name in selected:
        if name not in STEPS:
            raise TargetError(f"--steps {name}: there is no such step", did_you_mean(name, STEPS))
    return [name for name in STEPS if name in selected]


def interpreter(version: str, paths: Sequence[str]) -> str | None:
    """Find a Python of a version: from `--python`, this one, pyenv's or one on PATH; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    of_pyenv = sorted(str(path) for path in pyenv.glob(f"{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    candidates = [*paths, sys.executable, *reversed(of_pyenv), *([on_path] if on_path else [])]
    return next((path for path in candidates if _version(path) == version), None)


def _version(python: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""  # not a Python; the caller reports it


def install(pair: Pair, python: str, folder: Path) -> Path:
    """Make the environment of a pair, or reuse a complete one; return its Python.

    Raises:
        subprocess.CalledProcessError: venv or pip failed.
    """
    ready, inside = folder / ".ready", folder / "bin" / "python"
    constraints = constraints_of(pair)
    if ready.exists() and ready.read_text(encoding="utf-8") == constraints:
        return inside
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    listed = folder / "constraints.txt"
    listed.write_text(constraints, encoding="utf-8")
    command: list[str | Path] = [
        inside,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-cache-dir",
        "-c",
        listed,
        "-e",
        f"{ROOT}[dev]",
    ]
    subprocess.run(command, check=True)
    ready.write_text(constraints, encoding="utf-8")
    return inside


def constraints_of(pair: Pair) -> str:
    """Return constraints.txt with the torch and Triton versions of a pair."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    text = re.sub(r"^torch==.*$", f"torch=={pair.torch}", text, flags=re.MULTILINE)
    return re.sub(r"^triton==.*$", f"triton=={pair.triton}", text, flags=re.MULTILINE)


def _doctor(bench: Bench) -> Cell:
    done = bench.run("-m", "ctrace", "doctor", "--json")
    found = json.loads(done.stdout)
    bad = [f"{each['name']} ({each['found']})" for each in found if not each["ok"]]
    checks = [each for each in found if not each["name"].startswith("torch ")]  # the others list differences
    return _judged(not bad and done.returncode == 0, f"{len(checks)} checks", "; ".join(bad) or _last_line(done))


def _target(bench: Bench) -> Cell:
    sample = ROOT / "sample_models" / "attention.py"
    done = bench.run("-m", "ctrace", "kernels", str(sample), "--target", "h100", "--train", "--json")
    if done.returncode != 0:
        return Cell("failed", _last_line(done))
    report = json.loads(done.stdout)
    kernels = [each for each in report["built"] if each["registers"] is not None]
    wrong = [each["what"] for each in report["problems"]] or ([] if kernels else ["no kernel has machine code"])
    return _judged(not wrong, f"{len(kernels)} kernels compiled", "; ".join(wrong))


def _check(bench: Bench) -> Cell:
    """Check the samples against the lock; a torch without a section is compared with the newest torch that has one."""
    lock = bench.scratch / "ctrace.lock"
    baseline = _as_lock_of(bench.torch(), (ROOT / "ctrace.lock").read_text(encoding="utf-8"), lock)
    done = bench.run("-m", "ctrace", "check", "--lock", str(lock), cwd=ROOT)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    verdict = " ".join((lines or ["no output"])[0].split())
    return _judged(
        done.returncode == 0, f"{verdict} (baseline: torch {baseline})", f"exit code {done.returncode}: {verdict}"
    )


_SECTION = re.compile(r"^\[torch (\d+)\.(\d+)\]$", re.MULTILINE)


def _as_lock_of(torch: str, text: str, path: Path) -> str:
    """Write a lock that has a section for a torch; return the torch version that the section was recorded with."""
    minor = ".".join(torch.split(".")[:2])
    sections = sorted((int(major), int(small)) for major, small in _SECTION.findall(text))
    made_with = "{}.{}".format(*sections[-1])
    if f"[torch {minor}]" in text:
        made_with = minor
    path.write_text(text.replace(f"[torch {made_with}]", f"[torch {minor}]"), encoding="utf-8")
    return made_with


def _wheel(bench: Bench) -> Cell:
    """Build a wheel from the sdist, install it into an empty folder, and run it from there."""
    made, site, away = (bench.scratch / name for name in ("dist", "site", "away"))
    done = bench.run("-m", "build", "--outdir", str(made), str(ROOT))
    if done.returncode == 0:
        wheel = next(made.glob("*.whl"))
        done = bench.run("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel))
    if done.returncode != 0:
        return Cell("failed", _last_line(done))
    away.mkdir()
    (away / "model.py").write_text(_MODEL, encoding="utf-8")
    code = "import ctrace, sys; sys.exit(0 if ctrace.__file__.startswith(sys.argv[1]) else ctrace.__file__)"
    done = bench.run("-c", code, str(site), cwd=away, PYTHONPATH=str(site))
    if done.returncode == 0:
        done = bench.run("-m", "ctrace", "explain", "model.py", "--json", cwd=away, PYTHONPATH=str(site))
    if done.returncode != 0:
        return Cell("failed", _last_line(done))
    report = json.loads(done.stdout)
    right = report["verdict"] == "compiled" and not report["problems"]
    return _judged(right, wheel.name, f"verdict {report['verdict']}, problems {report['problems']}")


_MODEL = textwrap.dedent('''
    """Compiles whole: one graph, no break."""

    import torch

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


    def inputs():
        return (torch.rand(3, 8),)
''')


def _pytest(*arguments: str) -> Callable[[Bench], Cell]:
    """Return a step that runs tests and counts the results."""

    def run(bench: Bench) -> Cell:
        report = bench.scratch / "junit.xml"
        report.unlink(missing_ok=True)
        done = bench.run("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments, cwd=ROOT)
        if not report.exists():
            return Cell("failed", _last_line(done))
        return counted(report)

    return run


def counted(report: Path) -> Cell:
    """Count the results in pytest's JUnit file."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    failed = [
        each.get("name", "") for each in cases if each.find("failure") is not None or each.find("error") is not None
    ]
    skipped = sum(each.find("skipped") is not None for each in cases)
    passed = len(cases) - len(failed) - skipped
    detail = f"{passed} passed" + (f", {skipped} skipped" if skipped else "")
    if not cases:
        return Cell("failed", "no test ran")
    return _judged(
        not failed, detail, f"{len(failed)} of {len(cases)}: {', '.join(failed[:3])}{' …' * (len(failed) > 3)}"
    )


def _judged(right: bool, detail: str, wrong: str) -> Cell:
    return Cell("ok", detail) if right else Cell("failed", wrong)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
    return f"exit code {done.returncode}: {lines[-1][:160] if lines else 'no output'}"


STEPS: dict[str, Callable[[Bench], Cell]] = {
    "doctor": _doctor,
    "samples": _pytest("-m", "slow or not slow", "tests/integration/test_samples.py"),
    "check": _check,
    "target": _target,
    "plugin": _pytest("tests/integration/test_pytest_plugin.py"),
    "wheel": _wheel,
    "unit tests": _pytest("-n", "2", "-m", "not integration and not slow"),
    "real compiles": _pytest("-n", "2", "-m", "integration and not slow"),
}
"""The steps for each pair, cheapest first."""


class Store:
    """The stored results, one cell for each pair and step."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else "{}"
        self.rows: dict[str, dict[str, Any]] = json.loads(text)

    def put(self, pair: Pair, step: str, cell: Cell, **about: str) -> None:
        """Replace one cell; a step that was not run does not replace a result."""
        cells = self.rows.setdefault(pair.name, {}).setdefault("cells", {})
        if cell.result == "not run" and cells.get(step, {}).get("result", "not run") != "not run":
            return
        cells[step] = {"result": cell.result, "detail": cell.detail, **about}
        self._save()

    def cell(self, pair: Pair, step: str) -> Cell:
        """Return the stored result of a pair and a step."""
        found = self.rows.get(pair.name, {}).get("cells", {}).get(step)
        return Cell(found["result"], found["detail"]) if found else Cell("not run", NEVER)

    def about(self, pair: Pair, key: str) -> str:
        """Return the newest `date`, `torch` or `python` among the cells of a pair; empty if there is none."""
        cells = self.rows.get(pair.name, {}).get("cells", {}).values()
        known = [(each.get("date", ""), each[key]) for each in cells if key in each]
        return str(max(known)[1]) if known else ""

    def merge(self, other: "Store") -> None:
        """Copy the cells of another run that are at least as new as ours."""
        for pair, row in other.rows.items():
            cells = self.rows.setdefault(pair, {}).setdefault("cells", {})
            for step, cell in row["cells"].items():
                if cell.get("date", "") >= cells.get(step, {}).get("date", ""):
                    cells[step] = cell
        self._save()

    def _save(self) -> None:
        order = [pair.name for pair in pairs()]
        known = {name: self._sorted(self.rows[name]) for name in order if name in self.rows}
        self.path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def _sorted(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"cells": {step: row["cells"][step] for step in STEPS if step in row["cells"]}}


def try_pair(pair: Pair, steps: Sequence[str], options: argparse.Namespace, store: Store) -> bool:
    """Run the steps of one pair; return whether all of them pass."""
    print(f"== torch {pair.torch}, Python {pair.python}", flush=True)
    python = interpreter(pair.python, options.python)
    if python is None:
        why = Cell("not run", f"the machine has no Python {pair.python}")
        return _all(pair, steps, why, store)
    folder = options.envs / f"torch-{pair.torch}-python-{pair.python}"
    try:
        inside = install(pair, python, folder)
    except subprocess.CalledProcessError as error:
        return _all(pair, steps, Cell("failed", f"the install failed, exit code {error.returncode}"), store)
    right = True
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(inside, Path(scratch))
        about = _about(bench)
        for step in steps:
            try:
                cell = STEPS[step](bench)
            except subprocess.TimeoutExpired:
                cell = Cell("failed", f"did not end within {_MINUTES} minutes")
            except ValueError as error:  # not JSON
                cell = Cell("failed", f"unreadable output: {error}")
            print(f"   {step}: {cell}", flush=True)
            store.put(pair, step, cell, **about)
            right = right and cell.result == "ok"
    if not options.keep:
        shutil.rmtree(folder)
    return right


def _about(bench: Bench) -> dict[str, str]:
    code = "import platform, torch; print(torch.__version__, platform.python_version())"
    done = bench.run("-c", code)
    torch, python = done.stdout.split() if done.returncode == 0 else ("", "")
    return {"date": datetime.now(UTC).date().isoformat(), "torch": torch, "python": python}


def _all(pair: Pair, steps: Sequence[str], cell: Cell, store: Store) -> bool:
    print(f"   {cell}")
    for step in steps:
        store.put(pair, step, cell)
    return cell.result != "failed"


def tables(store: Store) -> dict[str, str]:
    """Return the tables, by the names in the pages' markers."""
    return {
        "short": "\n".join(_short(store)) + "\n",
        "full": "\n".join(_full(store)) + "\n",
        "differences": "\n".join(_differences()) + "\n",
    }


def _short(store: Store) -> Iterator[str]:
    pythons = list(dict.fromkeys(pair.python for pair in pairs()))
    yield f"| torch | {' | '.join(f'Python {each}' for each in pythons)} |"
    yield f"|---|{'---|' * len(pythons)}"
    for release in reversed(RELEASES):
        row = [pair for pair in pairs() if pair.torch == release.torch]
        cells = {pair.python: _summary([store.cell(pair, step) for step in STEPS]) for pair in row}
        yield f"| {release.torch} | {' | '.join(cells.get(each, 'not supported') for each in pythons)} |"


def _summary(cells: Sequence[Cell]) -> str:
    """Return one cell of the short table."""
    run = [cell for cell in cells if cell.result != "not run"]
    failed = sum(cell.result == "failed" for cell in run)
    if not run:
        return "not run"
    right = "all" if len(run) - failed == len(cells) else f"{len(run) - failed} of {len(cells)}"
    rest = len(cells) - len(run)
    words = [f"{right} ok", *([f"{failed} failed"] if failed else []), *([f"{rest} not run"] if rest else [])]
    return ", ".join(words)


def _full(store: Store) -> Iterator[str]:
    for pair in pairs():
        known = [store.cell(pair, step) for step in STEPS]
        reasons = {cell.detail for cell in known}
        yield f"### torch {pair.torch}, Python {pair.python}\n"
        if all(cell.result == "not run" for cell in known) and len(reasons) == 1:
            yield f"Not run, because {reasons.pop()}.\n"
            continue
        date, torch, python = (store.about(pair, key) for key in ("date", "torch", "python"))
        yield f"torch {torch}, Triton {pair.triton}, Python {python}; {date}.\n"
        yield "| step | result |\n|---|---|"
        yield from (f"| {step} | {_escaped(str(cell))} |" for step, cell in zip(STEPS, known, strict=True))
        yield ""


def _differences() -> Iterator[str]:
    yield "| torch | what differs | what ctrace does |\n|---|---|---|"
    for each in DIFFERENCES:
        yield f"| {each.range} | {_escaped(each.what)} | {_escaped(each.effect)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def with_tables(text: str, made: dict[str, str]) -> str:
    """Return a page with its tables replaced."""
    return _TABLE.sub(lambda match: f"{match[1]}{made[match['name']]}{match[3]}", text)


def write_tables(store: Store) -> None:
    """Write the tables into their pages."""
    made = tables(store)
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8"), made), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    head, _, examples = (__doc__ or "").partition("    python")
    parser = argparse.ArgumentParser(
        description=head, epilog="    python" + examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="TORCH[/PYTHON]", help="a pair, or all pairs of a torch")
    add("--steps", default=",".join(STEPS), metavar="NAMES", help=f"of {', '.join(STEPS)}; default: all")
    add("--keep", action="store_true", help="keep the environments, to reuse them")
    add("--envs", type=Path, default=ROOT / "build" / "matrix", metavar="DIR", help="where environments are made")
    add("--python", action="append", default=[], metavar="PATH", help="a Python to use for its version")
    add("--data", type=Path, default=DATA, metavar="FILE", help="where results are stored")
    add(
        "--merge",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="copy results, and write the tables",
    )
    add("--tables", action="store_true", help="write the tables only")
    add("--list", action="store_true", help="print the pairs as JSON, for a workflow, and stop")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the pairs; the exit code is 1 if a step failed."""
    options = _parser().parse_args(arguments)
    try:
        selected, steps = chosen(options.only), steps_of(options.steps)
    except CtraceError as error:
        print(f"{error.what}\n→ {error.todo}", file=sys.stderr)
        return error.exit_code
    if options.list:
        print(json.dumps([{"torch": each.torch, "triton": each.triton, "python": each.python} for each in selected]))
        return 0
    store = Store(options.data)
    for path in options.merge:
        store.merge(Store(path))
    right = True
    if not (options.merge or options.tables):
        results = [try_pair(pair, steps, options, store) for pair in selected]
        right = all(results)
    if options.data == DATA:
        write_tables(store)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
