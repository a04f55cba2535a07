"""Check that `--target` emits the code that a GPU gets: compile the same models on the local GPU and with it hidden.

Each model is captured twice, in separate processes: on the CPU with the GPU hidden and `--target` (1), and on the GPU
with `--build` (2). The kernels of both must have equal sources, apart from hashes. Kernels with equal sources must have
equal PTX without debug information, and equal registers, spills and shared memory.

Torch decides by timing on the GPU whether to pad a matmul, and the answer for the same matmul varies between runs. So
these models get the GPU to themselves. If their kernels differ, two more rows compare equal choices: (1) with the
answers that torch cached in (2), and (2) with another run of (2).

Without a GPU, or with --emit-only, only (1) runs, and must not fail.

usage: virtual_gpu.py [--target h100[,a100]] [--emit-only] [--models a,b] [--modes inference,training] [--jobs N]
                      [--json FILE] [--keep FOLDER | --saved FOLDER]
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from _compare import compared
from _tables import GPU_TWICE, SAME_CHOICES, Emitted, Row, emitted_table, good_enough, table, write

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store

FILE = Path(__file__).resolve().parent / "_models.py"
MODES = ("inference", "training")
_GRACE = 60
"""Seconds for ctrace to end a capture after its timeout, and to read it."""
_INDUCTOR = "torchinductor"
"""Folder of torch's caches."""
R = TypeVar("R")


class Failed(Exception):  # noqa: N818 - a row of the table
    """A capture left no session to compare."""


@dataclass(frozen=True)
class Bench:
    """Captures models, each in a separate process and folder."""

    folder: Path
    timeout: float
    threads: int
    """Threads of one process."""
    saved: bool = False
    """Whether all runs already exist."""

    def on_gpu(self, model: str, mode: str, suffix: str = "") -> Session:
        """Capture on the local GPU."""
        return self._captured(model, mode, f"built{suffix}", ["--build"], "cuda")

    def emitted(self, model: str, mode: str, target: str) -> Session:
        """Capture on the CPU, with the GPU hidden, and emit for the target."""
        return self._captured(model, mode, target, ["--target", target], "cpu")

    def emitted_as_timed(self, model: str, mode: str, target: str) -> Session:
        """Emit with the choices that torch made by timing in `on_gpu`."""
        side = f"{target}-timed"
        if not self.saved:
            # Of torch's caches, keep only LocalCache (torch 2.11, _inductor/codecache.py): no code, no graphs.
            kept = self._runs(model, mode, "built") / _INDUCTOR / "cache"
            shutil.copytree(kept, self._runs(model, mode, side) / _INDUCTOR / "cache")
        return self._captured(model, mode, side, ["--target", target], "cpu")

    def _runs(self, model: str, mode: str, side: str) -> Path:
        return self.folder / f"{model}-{mode}-{side}"

    def _captured(self, model: str, mode: str, side: str, options: list[str], device: str) -> Session:
        """Run `ctrace explain`, and read the saved run.

        Raises:
            Failed: no run was saved, or the model failed.
        """
        runs = self._runs(model, mode, side)
        if self.saved:
            return _read(runs)
        runs.mkdir(parents=True, exist_ok=True)
        train = ["--train"] if mode == "training" else []
        command = [sys.executable, "-m", "ctrace", "explain", str(FILE), *options, *train]
        with (runs / "screen.txt").open("w") as screen:
            try:
                subprocess.run(
                    [*command, "--timeout", str(self.timeout)],
                    env=self._environment(model, mode, device, runs),
                    stdout=screen,
                    stderr=subprocess.STDOUT,
                    timeout=self.timeout + _GRACE,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise Failed(f"{runs.name}: ctrace did not end {_GRACE} s after its --timeout") from None
        return _read(runs)

    def _environment(self, model: str, mode: str, device: str, runs: Path) -> dict[str, str]:
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
        return {
            **os.environ,
            **hidden,
            "CTRACE_DIR": str(runs),
            "TORCHINDUCTOR_CACHE_DIR": str(runs / _INDUCTOR),
            "OMP_NUM_THREADS": str(self.threads),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # Inductor would start one worker per core for each model
            "CTRACE_BENCH_MODEL": model,
            "CTRACE_BENCH_DEVICE": device,
            "CTRACE_BENCH_TRAIN": str(int(mode == "training")),
        }


def _read(runs: Path) -> Session:
    try:
        session = load(Store(runs).load())
    except CtraceError as error:
        screen = runs / "screen.txt"
        last = screen.read_text(errors="replace").split("\n")[-4:] if screen.is_file() else []
        raise Failed(f"{error.what}: {' '.join(last)[:300]}") from None
    if session.failure is not None:
        failure = session.failure
        lines = [line for line in failure.message.splitlines() if line.strip()]
        raise Failed(f"{runs.name}: {failure.phase}, {failure.type}: {' '.join(lines[:2])[:300]}")
    return session


def compare(model: str, mode: str, real: Session | Failed, virtual: Session | Failed, what: str = "") -> Row:
    """Compare two captures of a model, if both exist."""
    if isinstance(real, Failed):
        return Row(model, mode, what, failure=str(real))
    if isinstance(virtual, Failed):
        return Row(model, mode, what, failure=str(virtual))
    return Row(model, mode, what, compared(real, virtual))


def rows_of(bench: Bench, virtual: Session | Failed, target: str, model: str, mode: str) -> list[Row]:
    """Capture a model on the GPU and compare; if torch times choices, also compare with the same choices."""
    real = attempt(lambda: bench.on_gpu(model, mode))
    row = compare(model, mode, real, virtual)
    if not is_timed(virtual) or row.comparison is None or not row.comparison.differences:
        return [row]
    as_timed = attempt(lambda: bench.emitted_as_timed(model, mode, target))
    repeated = attempt(lambda: bench.on_gpu(model, mode, "-again"))
    return [
        row,
        compare(model, mode, real, as_timed, SAME_CHOICES),
        compare(model, mode, real, repeated, GPU_TWICE),
    ]


def attempt(capture: Callable[[], Session]) -> Session | Failed:
    """Return a capture's session, or its failure."""
    try:
        return capture()
    except Failed as failed:
        return failed


def is_timed(virtual: Session | Failed) -> bool:
    """Whether torch times something on the GPU before it generates code."""
    return isinstance(virtual, Session) and any(each.kind == "padding" for each in virtual.undecided)


def emit(bench: Bench, model: str, mode: str, target: str) -> Emitted:
    """Capture a model once, without a GPU."""
    began = time.perf_counter()
    session = attempt(lambda: bench.emitted(model, mode, target))
    if isinstance(session, Failed):
        return Emitted(model, mode, target, time.perf_counter() - began, failure=str(session))
    triton = [each for each in session.kernels if each.language == "triton"]
    other = sorted({each.language for each in session.kernels} - {"triton", "external"})
    return Emitted(
        model,
        mode,
        target,
        seconds=time.perf_counter() - began,
        verdict=session.verdict,
        kernels=len(triton),
        calls=sum(each.calls for each in session.kernels if each.language == "external"),
        undecided=len(session.undecided),
        problems=tuple(each.what for each in session.problems),
        failure=f"kernels in {', '.join(other)}" if other else "" if session.kernels else _nothing(session),
    )


def _nothing(session: Session) -> str:
    """Return why there are no kernels and no library calls."""
    return f"nothing was emitted: {'; '.join(each.what for each in session.problems) or 'it is not known why'}"


def main() -> int:
    """Measure and print; return 1 if a goal is missed."""
    import torch  # here, because reading saved runs does not need torch

    arguments = _arguments()
    comparing = not arguments.emit_only and (torch.cuda.is_available() or arguments.saved)
    kept = arguments.saved or arguments.keep
    with nullcontext(kept) if kept else tempfile.TemporaryDirectory(prefix="ctrace-bench-") as folder:
        threads = max(1, (os.cpu_count() or 1) // arguments.jobs)
        bench = Bench(Path(folder), arguments.timeout, threads, saved=bool(arguments.saved))
        return _compared(bench, arguments) if comparing else _emitted(bench, arguments)


def _compared(bench: Bench, arguments: argparse.Namespace) -> int:
    jobs = [(model, mode) for model in arguments.models for mode in arguments.modes]
    target = arguments.target[0]

    def emitted(model: str, mode: str) -> Session | Failed:
        return attempt(lambda: bench.emitted(model, mode, target))

    virtual = dict(zip(jobs, _each(arguments.jobs, jobs, emitted), strict=True))
    together = [job for job in jobs if not is_timed(virtual[job])]
    alone = [job for job in jobs if is_timed(virtual[job])]
    found: dict[tuple[str, ...], list[Row]] = {}
    for some, at_a_time in ((together, arguments.jobs), (alone, 1)):
        of_each = _each(at_a_time, some, lambda *job: rows_of(bench, virtual[job], target, *job))
        found |= dict(zip(some, of_each, strict=True))
    rows = [row for job in jobs for row in found[job]]
    print(f"{_about()}, against --target {target} with the GPU hidden\n")
    print(table(rows))
    if arguments.json:
        write(arguments.json, rows, {"machine": _about(), "target": target})
    return 0 if good_enough(rows) else 1


def _emitted(bench: Bench, arguments: argparse.Namespace) -> int:
    jobs = [
        (model, mode, target) for model in arguments.models for mode in arguments.modes for target in arguments.target
    ]
    rows = _each(arguments.jobs, jobs, lambda *job: emit(bench, *job))
    print(f"{_about()}: only emitted, not compared with a GPU\n")
    print(emitted_table(rows))
    if arguments.json:
        write(arguments.json, rows, {"machine": _about()})
    return 1 if any(row.failure for row in rows) else 0


def _each(at_a_time: int, jobs: Sequence[tuple[str, ...]], work: Callable[..., R]) -> list[R]:
    """Run `work` for each job, several at a time, and return the results in order.

    The last models take longest, so they start first.
    """

    def logged(job: tuple[str, ...]) -> R:
        result = work(*job)
        print(*job, "done", file=sys.stderr, flush=True)
        return result

    with ThreadPoolExecutor(at_a_time) as pool:
        return list(pool.map(logged, reversed(jobs)))[::-1]


def _about() -> str:
    import torch
    import triton

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"

    return f"{device}, torch {torch.__version__}, triton {triton.__version__}, Python {platform.python_version()}"


def _arguments() -> argparse.Namespace:
    from _models import MODELS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=_names, default=["h100"], help="of the GPU at hand; several with --emit-only")
    parser.add_argument("--emit-only", action="store_true")
    parser.add_argument("--models", type=_names, default=list(MODELS))
    parser.add_argument("--modes", type=_names, default=list(MODES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="models at a time")
    parser.add_argument("--timeout", type=float, default=180, help="seconds for one capture")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="a new folder for the runs, which stay")
    parser.add_argument("--saved", type=Path, help="run nothing: compare what an earlier --keep left")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
