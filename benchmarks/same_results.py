"""Check that ctrace changes no result: the programs of `_zoo.py` with every mode and option, against plain torch.

Each program runs twice in plain torch.compile, in processes that know nothing of ctrace, and once for each option of
ctrace that runs something: `run`, `explain --build`, `trace` (`ctrace.trace(build=True)`), `time`, `cudagraphs`,
`autotune`. All write digests of the results and the state of each compiled call (`_observed.py`). Where both plain runs
agree, ctrace's results must be the same, bit for bit. Torch times its kernels and may take another one in another run:
where ctrace's results differ by rounding only, plain torch and ctrace run again with `TORCHINDUCTOR_DETERMINISTIC=1`,
which makes torch choose without timing (torch/_inductor/config.py, 2.11), and then must agree.

Also counted: dangers that `explain` reports, since none of these programs is wrong, and programs that end differently.

usage: same_results.py [--jobs N] [--budget SECONDS] [--timeout SECONDS] [--programs a,b] [--modes a,b] [--options a,b]
                       [--sample SHARE] [--versions NAME=FOLDER,...] [--out FOLDER] [--resume FILE]

FOLDER of a version is a checkout of ctrace; without --versions, this one. When the budget ends, what runs is finished
and the rest is left out; `--resume` takes the same_results.json.gz of an earlier part, and runs what that lacks.
"""

import argparse
import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parent
ROOT = BENCHMARKS.parent
MODES = ("reduce-overhead", "default", "max-autotune", "max-autotune-no-cudagraphs")
OPTIONS = ("run", "explain", "trace", "time", "cudagraphs", "autotune")
PLAIN = ("plain 1", "plain 2")
ROUNDING = 0.02
"""Largest difference that rounding makes in these programs, relative to the largest value of a tensor."""
EQUAL, ROUNDED, CHOICE, DIFFERENT, OTHER_STATE = "equal", "rounding", "other choice", "different", "other state"
ORDER = (EQUAL, CHOICE, ROUNDED, OTHER_STATE, DIFFERENT)
UNUSABLE = ("plain fails", "plain varies", "no time")
FAULTS = (ROUNDED, OTHER_STATE, DIFFERENT, "fails", "nothing written")

MODEL = """\
import sys
sys.path.insert(0, {folder!r})
import _zoo
made = _zoo.model_of({name!r})
model = made.model
inputs = made.inputs
if __name__ == "__main__":
    _zoo.main({name!r})
"""
LOOP = """\
import sys, torch
sys.path.insert(0, {folder!r})
import _zoo
_zoo.main({name!r}, torch.compile)
"""


@dataclass(frozen=True)
class Cell:
    """One process to run: a program in a mode, plain or with an option of a version of ctrace."""

    program: str
    mode: str
    option: str
    version: str = ""
    fixed: bool = False
    """Whether torch chooses kernels without timing them."""

    @property
    def name(self) -> str:
        fixed = "fixed" if self.fixed else ""
        return "/".join(filter(None, (self.program, self.mode, self.option, self.version, fixed)))


@dataclass
class Ran:
    """How a process ended, and what it wrote."""

    status: int | None
    """The exit status; None: it ran out of time."""
    seconds: float
    lines: list[dict[str, Any]] = field(default_factory=list)
    said: str = ""
    """The end of what it printed, if it failed."""
    dangers: int | None = None


@dataclass(frozen=True)
class Study:
    """What to run, and where."""

    versions: Mapping[str, Path]
    folder: Path
    timeout: float
    kinds: Mapping[str, tuple[bool, bool]]
    """Of each program, whether it is a model, and whether it is trained."""
    running: "set[subprocess.Popen[bytes]]" = field(default_factory=set)

    def run(self, cell: Cell) -> Ran:
        """Run a cell in a folder of its own."""
        folder = self.folder / hashlib.sha256(cell.name.encode()).hexdigest()[:16]
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "results").mkdir(parents=True)
        template = MODEL if self.kinds[cell.program][0] else LOOP
        (folder / "program.py").write_text(template.format(folder=str(BENCHMARKS), name=cell.program))
        began = time.monotonic()
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                self._command(cell),
                cwd=folder,
                env=self._environment(cell, folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.running.add(process)
            try:
                status = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _end(process)
                self.running.discard(process)
        found = Ran(status, time.monotonic() - began, _first(folder / "results"))
        if status != 0:
            found.said = (folder / "output").read_text(errors="replace")[-1500:]
        found.dangers = _dangers(folder / "report.json")
        shutil.rmtree(folder, ignore_errors=True)
        return found

    def _command(self, cell: Cell) -> list[str]:
        is_model, is_trained = self.kinds[cell.program]
        if cell.option.startswith("plain") or cell.option == "trace":
            return [sys.executable, "program.py"]
        ctrace = [sys.executable, "-m", "ctrace"]
        if cell.option == "run":
            return [*ctrace, "run", "--build", "--json", "-o", "report.json", "program.py"]
        train = ["--train"] if is_trained else []
        model = ["--mode", cell.mode, *train] if is_model else []
        if cell.option == "time":
            return [*ctrace, "time", "program.py", *model, *(["--rounds", "8"] if is_model else ["--compile"])]
        return [*ctrace, cell.option, "--build", "program.py", *model, "--json", "-o", "report.json"]

    def _environment(self, cell: Cell, folder: Path) -> dict[str, str]:
        path = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        if cell.version:
            path.insert(0, str(self.versions[cell.version]))
        chosen = {
            "SAME_RESULTS": str(folder / "results"),
            "SAME_RESULTS_MODE": cell.mode,
            "SAME_RESULTS_TRACE": "1" if cell.option == "trace" else "",
            "CTRACE_DIR": str(folder / "runs"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONWARNINGS": "ignore",
            "TORCHINDUCTOR_DETERMINISTIC": "1" if cell.fixed else "0",
        }
        return {**os.environ, **chosen}


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _first(folder: Path) -> list[dict[str, Any]]:
    """Return what the first process wrote: ctrace calls the model in later ones, too, such as to try advice."""
    files = sorted(folder.glob("*.jsonl"), key=lambda file: int(file.stem))  # process numbers count up
    if not files:
        return []
    return [json.loads(line) for line in files[0].read_text().splitlines() if line.endswith("}")]


def _dangers(report: Path) -> int | None:
    try:
        return len(json.loads(report.read_text()).get("dangers") or ())
    except (OSError, ValueError):
        return None


# What a run says


@dataclass
class Comparison:
    """How a run's results compare with those of two plain runs."""

    verdict: str = EQUAL
    where: str = ""
    """The first of the worst lines."""
    lines: int = 0
    """How many lines were compared."""

    def add(self, number: int, mine: dict[str, Any], one: dict[str, Any]) -> None:
        """Compare a line."""
        self.lines += 1
        this = _line(mine, one)
        if ORDER.index(this) > ORDER.index(self.verdict):
            self.verdict, self.where = this, f"line {number + 1} ({mine['what']})"


def compared(option: str, found: Ran, first: Ran, second: Ran, *, is_model: bool) -> Comparison:
    """Compare the lines of a run with those of two plain runs, where these agree."""
    comparison = Comparison()
    if option == "time" and is_model:
        _by_key(comparison, found, first, second)
        return comparison
    for number, (mine, one, other) in enumerate(zip(found.lines, first.lines, second.lines, strict=False)):
        is_left_out = option == "trace" and one["what"].startswith("statistics")  # the process is not ctrace's
        if one["value"] == other["value"] and one["key"] == other["key"] and not is_left_out:
            comparison.add(number, mine, one)
    return comparison


def _by_key(comparison: Comparison, found: Ran, first: Ran, second: Ran) -> None:
    """Compare calls that depend on the same: `ctrace time` makes more of them than a plain run."""
    known: dict[str, dict[str, Any]] = {line["key"]: line for line in first.lines if line["what"] == "call"}
    varying = {line["key"] for line in second.lines if known.get(line["key"], line)["value"] != line["value"]}
    for number, mine in enumerate(found.lines):
        one = known.get(mine["key"])
        if one is not None and mine["key"] not in varying and mine["what"] == "call":
            comparison.add(number, mine, one)


def _line(mine: dict[str, Any], one: dict[str, Any]) -> str:
    if mine["value"] == one["value"] and mine["key"] == one["key"]:
        return EQUAL
    if mine["what"] != one["what"] or len(mine["leaves"]) != len(one["leaves"]):
        return DIFFERENT
    if not all(_close(*each) for each in zip(mine["leaves"], one["leaves"], strict=True)):
        return DIFFERENT
    if mine["value"] == one["value"]:
        return OTHER_STATE  # the same results from other generators, arguments or weights
    return ROUNDED


def _close(mine: Sequence[float], one: Sequence[float]) -> bool:
    if len(mine) != len(one):
        return False
    largest = max(one[0], 1e-3) if one else 0.0
    return all(abs(a - b) <= ROUNDING * largest for a, b in zip(mine, one, strict=True))


# Running


def cells(study: Study, args: argparse.Namespace) -> Iterator[Cell]:
    """Yield all cells so that any beginning covers as much as it can, each after the plain runs that it needs.

    In a first round, each program runs in each mode with one option, another one for each program and mode.
    """
    programs, seen = args.programs or list(study.kinds), set()
    for number in range(len(args.options)):
        for turn, mode in enumerate(args.modes):
            for place, program in enumerate(programs):
                option = args.options[(place + turn + number) % len(args.options)]
                if not _sampled(f"{program} {mode} {option}", args.sample):
                    continue
                for cell in (*_plain(program, mode), *(Cell(program, mode, option, each) for each in study.versions)):
                    if cell not in seen:
                        seen.add(cell)
                        yield cell


def _plain(program: str, mode: str) -> tuple[Cell, Cell]:
    return Cell(program, mode, PLAIN[0]), Cell(program, mode, PLAIN[1])


def _sampled(name: str, share: float) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) < share * 2**32


def run_all(study: Study, wanted: Sequence[Cell], done: dict[str, Ran], jobs: int, until: float, save: Any) -> None:
    """Run cells in parallel until the budget ends."""
    waiting = [cell for cell in wanted if cell.name not in done]
    with ThreadPoolExecutor(jobs) as pool, _ended_with_us(study):
        running: dict[Future[Ran], Cell] = {}
        while waiting or running:
            while waiting and len(running) < jobs and time.monotonic() < until:
                cell = waiting.pop(0)
                running[pool.submit(study.run, cell)] = cell
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                done[cell.name] = future.result()
                print(f"{len(done):5} {done[cell.name].seconds:6.1f} s  {cell.name}", file=sys.stderr, flush=True)
            save()


@contextmanager
def _ended_with_us(study: Study) -> Iterator[None]:
    """End what still runs if the study is interrupted, so that the pool of threads does not wait for it."""
    try:
        yield
    finally:
        for process in list(study.running):
            _end(process)


def judged(study: Study, wanted: Sequence[Cell], done: Mapping[str, Ran]) -> dict[str, dict[str, Any]]:
    """Return the outcome of each cell with ctrace that ran together with its plain runs."""
    found: dict[str, dict[str, Any]] = {}
    for cell in wanted:
        if not cell.version or cell.name not in done:
            continue
        first, second = (done.get(each.name) for each in _plain(cell.program, cell.mode))
        if first is not None and second is not None:
            found[cell.name] = _outcome(study, cell, done, first, second)
    return found


def _outcome(study: Study, cell: Cell, done: Mapping[str, Ran], first: Ran, second: Ran) -> dict[str, Any]:
    mine = done[cell.name]
    about = {**cell.__dict__, "seconds": mine.seconds, "lines": 0, "dangers": mine.dangers, "where": ""}
    if first.status != 0 or second.status != 0:
        return {**about, "outcome": "plain fails", "said": first.said[-300:]}
    if mine.status is None:
        return {**about, "outcome": "no time"}
    if not mine.lines:
        return {**about, "outcome": "nothing written", "said": mine.said}
    comparison = compared(cell.option, mine, first, second, is_model=study.kinds[cell.program][0])
    outcome = comparison.verdict
    if not comparison.lines:
        outcome = "plain varies"
    elif outcome == ROUNDED and _agrees_fixed(study, cell, done):
        outcome = CHOICE
    elif outcome == EQUAL and mine.status != 0:
        outcome = "fails"
    return {**about, "outcome": outcome, "where": comparison.where, "lines": comparison.lines, "said": mine.said}


def _agrees_fixed(study: Study, cell: Cell, done: Mapping[str, Ran]) -> bool:
    """Whether ctrace's results are those of plain torch when torch chooses its kernels without timing."""
    plain, mine = (done.get(each.name) for each in _fixed(cell))
    if plain is None or mine is None or not plain.lines:
        return False
    comparison = compared(cell.option, mine, plain, plain, is_model=study.kinds[cell.program][0])
    return comparison.verdict == EQUAL and comparison.lines > 0


def _fixed(cell: Cell) -> tuple[Cell, Cell]:
    plain = Cell(cell.program, cell.mode, PLAIN[0], fixed=True)
    return plain, Cell(cell.program, cell.mode, cell.option, cell.version, fixed=True)


def fixed_cells(wanted: Sequence[Cell], found: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """Return the runs with fixed choices for the cells that differ by rounding, each once."""
    rounded = (cell for cell in wanted if found.get(cell.name, {}).get("outcome") == ROUNDED)
    return list(dict.fromkeys(each for cell in rounded for each in _fixed(cell)))


# Reporting


def report(study: Study, found: Mapping[str, Mapping[str, Any]], planned: int, seconds: float) -> bool:
    """Print one table for each version, then what is wrong; return whether nothing is."""
    for version in study.versions:
        of_version = [each for each in found.values() if each["version"] == version]
        print(f"\nctrace {version}: {len(of_version)} runs compared with plain torch.compile")
        _table(of_version)
        lines = sum(each["lines"] for each in of_version)
        print(f"  {lines} calls, gradients and states were compared bit for bit; not those where plain torch varies")
        bad = [each for each in of_version if each["outcome"] not in (EQUAL, CHOICE)]
        for each in sorted(bad, key=lambda each: (each["outcome"], each["program"])):
            where = f", {each['where']}" if each["where"] else ""
            print(f"  {each['outcome']:15} {each['program']}, {each['mode']}, {each['option']}{where}")
        false = [each for each in of_version if each["dangers"]]
        for each in false:
            print(f"  false danger    {each['program']}, {each['mode']}, {each['option']}")
    last = list(study.versions)[-1]
    faults = [each for each in found.values() if each["version"] == last and each["outcome"] in FAULTS]
    false = [each for each in found.values() if each["version"] == last and each["dangers"]]
    compared_ = sum(each["version"] == last for each in found.values())
    print(
        f"\n{compared_} of {planned} runs in {seconds:.0f} s; {len(faults)} faults, {len(false)} false dangers ({last})"
    )
    return not faults and not false


def _table(found: Sequence[Mapping[str, Any]]) -> None:
    """Print, for each mode and option, how many runs are equal, of how many."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for each in found:
        counts.setdefault((each["mode"], each["option"]), Counter())[each["outcome"]] += 1
    options = [option for option in OPTIONS if any(key[1] == option for key in counts)]
    print(f"  {'equal, of those where plain torch agrees':42}" + "".join(f"{option:>16}" for option in options))
    for mode in MODES:
        row = []
        for option in options:
            count = counts.get((mode, option), Counter())
            usable = count.total() - sum(count[outcome] for outcome in UNUSABLE)
            equal = count[EQUAL] + count[CHOICE]
            row.append(f"{equal} of {usable}" if usable else "-")
        if any(each != "-" for each in row):
            print(f"  {mode:42}" + "".join(f"{each:>16}" for each in row))


def main() -> int:
    """Run the study; return 1 if ctrace changes a result."""
    args = _arguments()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="same-results-"))
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    study = Study(args.versions, folder, args.timeout, _kinds())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        wanted = list(cells(study, args))
        done = _loaded(args.resume)
        save = _saver(out / "same_results.json.gz", done)
        run_all(study, wanted, done, args.jobs, began + args.budget, save)
        more = fixed_cells(wanted, judged(study, wanted, done))
        run_all(study, more, done, args.jobs, began + args.budget * 1.15, save)
        save(last=True)
        found = judged(study, wanted, done)
        (out / "outcomes.json").write_text(json.dumps(found, indent=1))
        planned = sum(bool(cell.version) for cell in wanted) // max(len(study.versions), 1)
        return 0 if report(study, found, planned, time.monotonic() - began) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kinds() -> dict[str, tuple[bool, bool]]:
    """Ask a process that may import torch."""
    code = "import json, _zoo; print(json.dumps({name: _zoo.kind_of(name) for name in _zoo.PROGRAMS}))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, check=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "SAME_RESULTS": ""},
    )  # fmt: skip
    return {name: (bool(one), bool(other)) for name, (one, other) in json.loads(found.stdout.splitlines()[-1]).items()}


def _loaded(file: str | None) -> dict[str, Ran]:
    if not file or not Path(file).exists():
        return {}
    saved = json.loads(gzip.decompress(Path(file).read_bytes()))
    return {name: Ran(**ran) for name, ran in saved.items() if ran["status"] is not None}


def _saver(file: Path, done: Mapping[str, Ran]) -> Any:
    saved = [0.0]

    def save(*, last: bool = False) -> None:
        if last or time.monotonic() - saved[0] > 10:
            saved[0] = time.monotonic()
            text = json.dumps({name: ran.__dict__ for name, ran in dict(done).items()})
            file.with_suffix(".new").write_bytes(gzip.compress(text.encode(), 3))
            file.with_suffix(".new").replace(file)

    return save


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: tuple(text.split(","))  # noqa: E731
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget", type=float, default=86_400.0)
    parser.add_argument("--timeout", type=float, default=240.0)
    parser.add_argument("--programs", type=words, default=())
    parser.add_argument("--modes", type=words, default=MODES)
    parser.add_argument("--options", type=words, default=OPTIONS)
    parser.add_argument("--sample", type=float, default=1.0)
    parser.add_argument("--versions", type=_versions, default={"here": ROOT})
    parser.add_argument("--out", default="same-results")
    parser.add_argument("--resume")
    return parser.parse_args()


def _versions(text: str) -> dict[str, Path]:
    return {name: Path(folder).resolve() for name, _, folder in (each.partition("=") for each in text.split(","))}


if __name__ == "__main__":
    sys.exit(main())
