"""Measure how fast ctrace reads large logs of torch, in how much memory, and beside tlparse on the same logs.

usage: reading.py [--tlparse FILE] [--logs FOLDER] [--rounds N] [--most BYTES]

The logs are recorded here: real training steps and real recompilations (`_logs.py`), repeated as more compilations of
the same job. They take minutes to record; --logs keeps them in a folder. Times on a busy machine say little, so each
line has CPU seconds, too, and tlparse runs between the rounds of ctrace. MB are 10**6 bytes.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _logs import of_rank, recorded, write_repeated

MB = 10**6
LEAST_RATE = 200 * MB
MOST_MEMORY = 60
MOST_SECOND_VIEW = 0.5
MOST_RECOMPILING_SECONDS, MOST_RECOMPILING_MEMORY = 2.0, 80
RANKS, RANK_BYTES = 64, 20 * MB
FREE = 10 * 10**9
_LOOK_SECONDS = 0.02
"""Looking at memory more often would take time from what is measured, which uses two cores."""


@dataclass(frozen=True)
class Measured:
    """A process and its children."""

    wall: float
    cpu: float
    memory: float
    """The peak of the memory of all of them together, in MiB."""

    def line(self, size: int) -> str:
        rates = f"{size / MB / self.wall:5.0f} MB/s, {size / MB / self.cpu:5.0f} MB per CPU second"
        return f"{self.wall:6.2f} s, {self.cpu:6.2f} s CPU, {rates}, {self.memory:5.0f} MiB"


def measure(command: Sequence[str], environment: dict[str, str]) -> Measured:
    before, began = os.times(), time.perf_counter()
    child = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    ended, memory = threading.Event(), 0.0

    def look() -> None:
        nonlocal memory
        while not ended.wait(_LOOK_SECONDS):
            found = [_memory(pid) for pid in _tree(child.pid)]
            memory = max(memory, sum(now for now, _ in found), *(peak for _, peak in found))

    looking = threading.Thread(target=look)
    looking.start()
    child.wait()
    wall, after = time.perf_counter() - began, os.times()
    ended.set()
    looking.join()
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(command))
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Measured(wall, cpu, memory)


def _tree(pid: int) -> list[int]:
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _tree(int(child))
    except OSError:  # it has just ended
        pass
    return found


def _memory(pid: int) -> tuple[float, float]:
    """Return a process's memory in MiB, now and at its peak."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0, 0.0
    found = dict(line.split(":", 1) for line in status.splitlines() if line.startswith(("VmRSS", "VmHWM")))
    now, peak = (int(found.get(name, "0 kB").split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def ctrace(*words: str) -> list[str]:
    return [sys.executable, "-m", "ctrace", *words]


class Bench:
    """Runs the parts of the benchmark, and remembers whether all goals were met."""

    def __init__(self, logs: Path, scratch: Path, tlparse: str | None, rounds: int) -> None:
        self.logs, self.scratch, self.tlparse, self.rounds = logs, scratch, tlparse, rounds
        self.is_good = True
        self._runs = 0
        self._environment = {"PYTHONPYCACHEPREFIX": str(scratch / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
        """As pip installs it: with bytecode. Without, half of the second view's time would be Python's compiler."""
        measure(ctrace("explain", str(Path(__file__).parents[1] / "tests/data/print_break.torch.log")), self._in(0))

    def _in(self, run: int) -> dict[str, str]:
        return {**self._environment, "CTRACE_DIR": str(self.scratch / f"runs{run}")}

    def first(self, *words: str) -> Measured:
        """Measure a view with nothing saved from an earlier one."""
        self._runs += 1
        return measure(ctrace(*words), self._in(self._runs))

    def second(self, *words: str) -> Measured:
        """Measure a view of a log whose summary was shown before."""
        return measure(ctrace(*words), self._in(self._runs))

    def goal(self, what: str, *, met: bool) -> None:
        self.is_good &= met
        print(f"    {'met' if met else 'MISSED'}: {what}", flush=True)

    def beside(self, log: Path) -> tuple[Measured, Measured]:
        """Measure ctrace and tlparse in turn; return the medians of ctrace's first and second view."""
        size = log.stat().st_size
        print(f"\n{log.name}: {size / MB:.0f} MB; load {os.getloadavg()[0]:.1f}")
        firsts, seconds, others = [], [], []
        for _ in range(self.rounds):
            firsts.append(self.first("explain", str(log)))
            seconds.append(self.second("explain", str(log)))
            if self.tlparse:
                output = self.scratch / "tlparse"
                command = [self.tlparse, str(log), "-o", str(output), "--overwrite", "--no-browser"]
                others.append(measure(command, {}))
                shutil.rmtree(output, ignore_errors=True)
        first, second = _median(firsts), _median(seconds)
        print(f"  ctrace explain, first view   {first.line(size)}")
        print(f"  ctrace explain, second view  {second.line(size)}")
        if others:
            other = _median(others)
            print(f"  tlparse                      {other.line(size)}")
            ratios = f"{other.wall / first.wall:.1f} times the time, {other.cpu / first.cpu:.1f} times the CPU time"
            print(f"  tlparse takes {ratios}, {other.memory / first.memory:.1f} times the memory")
        else:
            print("  tlparse: not measured (--tlparse FILE)")
        return first, second

    def training(self, log: Path) -> None:
        first, second = self.beside(log)
        size = log.stat().st_size
        self.goal("first summary at 200 MB/s", met=size / first.wall >= LEAST_RATE)
        self.goal("first summary in less than 60 MiB", met=first.memory < MOST_MEMORY)
        self.goal("second view in less than 0.5 s", met=second.wall < MOST_SECOND_VIEW)

    def recompiling(self, log: Path) -> None:
        first, second = self.beside(log)
        self.goal("5,000 recompilations in 2 s", met=first.wall <= MOST_RECOMPILING_SECONDS)
        self.goal("5,000 recompilations in 80 MiB", met=first.memory <= MOST_RECOMPILING_MEMORY)
        self.goal("second view in less than 0.5 s", met=second.wall < MOST_SECOND_VIEW)

    def ranks(self, log: bytes) -> None:
        """Compare few ranks with many: memory must not grow with their number."""
        print(f"\nranks of {RANK_BYTES / MB:.0f} MB each; load {os.getloadavg()[0]:.1f}")
        memory = {}
        for number in (4, RANKS):
            folder = self.scratch / f"ranks{number}"
            folder.mkdir()
            for rank in range(number):
                write_repeated(of_rank(log, rank), folder / f"dedicated_log_torch_trace_rank_{rank}_x.log", RANK_BYTES)
            found = self.first("ranks", str(folder))
            size = sum(each.stat().st_size for each in folder.iterdir())
            print(f"  {number:3} ranks, {size / MB:5.0f} MB      {found.line(size)}", flush=True)
            memory[number] = found.memory
            shutil.rmtree(folder)
        self.goal("64 ranks need no more memory than 4, but for 10 MiB", met=memory[RANKS] < memory[4] + 10)

    def growth(self, log: bytes, most: int) -> None:
        """Measure time and memory over sizes."""
        print(f"\ngrowth; load {os.getloadavg()[0]:.1f}")
        nothing = _median([measure(ctrace("--help"), self._environment) for _ in range(3)])
        rates = {}
        for size in (2 * MB, 20 * MB, 200 * MB, 2000 * MB):
            if size > most:
                print(f"  {size / MB:5.0f} MB: not measured (--most, or less than 10 GB of disk left)")
                continue
            path = self.scratch / "growth.log"
            written = write_repeated(log, path, size)
            found = self.first("explain", str(path))
            path.unlink()
            rates[size] = (found.cpu - nothing.cpu) / written
            print(f"  {written / MB:5.0f} MB                      {found.line(written)}", flush=True)
        if len(rates) > 1:
            large = sorted(rates)[-2:]
            self.goal("linear: CPU time for each byte of the two largest differs by less than a third",
                      met=abs(rates[large[1]] / rates[large[0]] - 1) < 1 / 3)  # fmt: skip


def _median(found: Sequence[Measured]) -> Measured:
    def middle(value: Callable[[Measured], float]) -> float:
        return statistics.median(map(value, found))

    return Measured(middle(lambda each: each.wall), middle(lambda each: each.cpu), middle(lambda each: each.memory))


def _recorded(folder: Path, program: str) -> bytes:
    path = folder / f"{program}.recorded.log"
    if not path.exists():
        print(f"recording {program} ...", flush=True)
        traces = folder / f"{program}.traces"
        traces.mkdir(parents=True)
        path.write_bytes(recorded(program, traces))
        shutil.rmtree(traces)
    return path.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tlparse", default=shutil.which("tlparse"), help="the program to compare with")
    parser.add_argument("--logs", type=Path, help="a folder that keeps the recorded logs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=2000 * MB, help="the largest log of the growth, in bytes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as scratch:
        logs = args.logs or Path(scratch)
        training, recompiling = _recorded(logs, "training"), _recorded(logs, "recompiling")
        bench = Bench(logs, Path(scratch), args.tlparse, args.rounds)
        large, many = Path(scratch, "training.log"), Path(scratch, "recompiling.log")
        write_repeated(training, large, 200 * MB)
        write_repeated(recompiling, many, 8 * len(recompiling) - 1)  # 8 times 630 recompilations
        bench.training(large)
        bench.recompiling(many)
        many.unlink()
        large.unlink()
        bench.ranks(training)
        bench.growth(training, args.most if shutil.disk_usage(scratch).free > FREE else min(args.most, 200 * MB))
    return 0 if bench.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
