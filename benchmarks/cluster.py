"""Compare each rank of a virtual cluster with the real one: graphs, guards, collectives, kernels.

    python benchmarks/cluster.py [--worlds 2,4] [--write] [PROGRAM ...]
    python benchmarks/cluster.py --divergences [--worlds 4] [PROGRAM ...]

Each program of `cluster_programs/` runs for real with gloo, all ranks at once, each under `ctrace run`; then each rank
runs alone with `--world N --rank R`. A third, eager run on real ranks counts collectives with torch's `CommDebugMode`,
and their bytes. `--write` makes the page in `benchmarks/results/`.

A program that takes its GPU without asking cannot run with gloo here: a line that ends in `# cpu: ...` is that code in
the real run, so that virtual ranks of the program for GPUs are compared with real ranks of the same program on CPUs.

`--divergences` asks `ctrace ranks --world N` instead: in a program with a line `# parts here`, the ranks must part at
that line, and in all others they must agree.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.stored import text_of
from ctrace.inspector.features.cluster.collective_view import collectives_document
from ctrace.inspector.features.compare.rank_summary import Apart, summary_of
from ctrace.inspector.features.compare.ranks_of_job import first_difference, items_in
from ctrace.inspector.log.folders import LogFile
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store

HERE = Path(__file__).parent
PROGRAMS = HERE / "cluster_programs"
PAGE = HERE / "results" / "cluster.md"
CTRACE = str(Path(sys.executable).parent / "ctrace")
TORCHRUN = str(Path(sys.executable).parent / "torchrun")
PLANTED = "# parts here"
ON_CPU = re.compile(r"^(?P<indent> *).*# cpu: (?P<other>.*)$", re.MULTILINE)
"""A line of a program for GPUs, and what stands there where there is none."""
_HANGING = "parts_"
"""Programs whose real ranks wait for each other in vain."""
_MOST_SECONDS = 600
KINDS = (Apart.INPUT, Apart.COLLECTIVE, Apart.GRAPH, Apart.GUARD, Apart.RECOMPILE)
_NAMES = {
    "allreduce_": "all_reduce", "_allgather_base_": "all_gather_into_tensor", "allgather_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter_tensor", "alltoall_base_": "all_to_all_single", "broadcast_": "broadcast",
    "scatter_": "scatter", "gather_": "gather", "reduce_": "reduce", "alltoall_": "all_to_all", "recv_": "recv",
}  # fmt: skip
_COUNTED = {
    "all_reduce", "all_gather_into_tensor", "all_gather", "reduce_scatter_tensor", "all_to_all_single", "broadcast",
    "scatter", "gather", "reduce", "all_to_all",
}  # fmt: skip
"""What `CommDebugMode` counts, by ctrace's names (2.13)."""


class Outcome(Struct):
    """What one program showed in one world."""

    program: str
    world: int
    ranks: int = 0
    compilations: int = 0
    kernels: int = 0
    collectives: int = 0
    differences: list[str] = field(default_factory=list)


def main() -> None:
    """Compare the programs, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--worlds", default="2,4")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--divergences", action="store_true")
    options = parser.parse_args()
    named = [PROGRAMS / f"{name}.py" for name in options.programs] or sorted(PROGRAMS.glob("*.py"))
    if options.divergences:
        for program in named:
            for world in map(int, options.worlds.split(",")):
                print(divergence(program, world), flush=True)
        return
    outcomes = []
    if not options.programs:
        named = [each for each in named if not each.name.startswith(_HANGING)]
    for program in named:
        for world in map(int, options.worlds.split(",")):
            outcome = compared(program, world)
            outcomes.append(outcome)
            print(row(outcome), flush=True)
            for each in outcome.differences:
                print(f"    {each}", flush=True)
    if options.write:
        PAGE.write_text(page(outcomes))


def compared(program: Path, world: int) -> Outcome:
    """Run a program for real and rank by rank, and compare."""
    outcome = Outcome(program.stem, world)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = program.read_text()
        copied = folder / program.name  # both at the same path, which graphs name
        copied.write_text(ON_CPU.sub(r"\g<indent>\g<other>", text))
        run_real(copied, world, folder)
        copied.write_text(text)
        for rank in range(world):
            run_virtual(copied, world, rank, folder / f"virtual{rank}")
            outcome.differences += [f"rank {rank}: {each}" for each in _rank(folder, rank, outcome)]
            outcome.ranks += 1
    return outcome


def divergence(program: Path, world: int) -> str:
    """Ask where the ranks part before they run, and return a line of a table: whether it is right."""
    lines = program.read_text().splitlines()
    planted = next((number for number, line in enumerate(lines, 1) if line.endswith(PLANTED)), None)
    with tempfile.TemporaryDirectory() as folder:
        command = [CTRACE, "ranks", str(program), "--world", str(world), "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    name = f"| {program.stem} | {world} | {planted or 'none'} |"
    if done.returncode:
        return f"{name} {' '.join(done.stderr.split())[-200:]} | not compared |"
    report = json.loads(done.stdout)
    found = report["first_divergence"]
    line = found["line"] if found is not None else None
    place = "none" if found is None else f"{Path(found['file']).name}:{line}, {found['kind']}, {found['subject']}"
    is_right = line == planted and report["agree"] is (planted is None)
    return f"{name} {place} | {'right' if is_right else 'WRONG'} |"


def run_real(program: Path, world: int, folder: Path) -> None:
    """Run all ranks at once, captured; then in eager, counted."""
    script = folder / "one.sh"
    script.write_text(f'mkdir -p real$RANK && cd real$RANK && exec {CTRACE} run --name x "$@" > out.txt 2>&1\n')
    torchrun = [TORCHRUN, "--nproc-per-node", str(world)]
    comm = str(HERE / "_cluster_comm.py")
    quietly: Any = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
    for command in (("--no-python", "bash", str(script), str(program)), (comm, str(program), str(folder / "eager"))):
        with suppress(subprocess.TimeoutExpired):  # what it did not write is missing in the comparison
            subprocess.run([*torchrun, *command], timeout=_MOST_SECONDS, **quietly)


def run_virtual(program: Path, world: int, rank: int, folder: Path) -> None:
    """Run one rank without the others, as long as it needs."""
    folder.mkdir()
    command = [CTRACE, "run", "--name", "x", "--world", str(world), "--rank", str(rank), str(program)]
    with (folder / "out.txt").open("w") as out:
        subprocess.run(command, cwd=folder, stdout=out, stderr=out, check=False)


def _rank(folder: Path, rank: int, outcome: Outcome) -> Iterator[str]:
    """Yield how one rank differs."""
    stores = [Store(folder / f"{kind}{rank}" / ".ctrace") for kind in ("real", "virtual")]
    if any(not (store.root / "x").is_dir() for store in stores):
        yield "not captured: " + " | ".join(
            (store.root.parent / "out.txt").read_text()[-300:] for store in stores if not (store.root / "x").is_dir()
        )
        return
    runs = [store.load("x") for store in stores]
    logs = [LogFile(run.log, rank, run.log.stat().st_size) for run in runs]
    real, virtual = (load(run) for run in runs)
    yield from _compilations(logs, outcome)
    yield from _kernels(real, virtual, outcome)
    yield from _collectives(folder, rank, virtual, outcome)
    if str(real.verdict) != str(virtual.verdict):
        yield f"verdict {real.verdict} is {virtual.verdict}"


def _compilations(logs: list[LogFile], outcome: Outcome) -> Iterator[str]:
    real, virtual = map(summary_of, logs)
    if [each.id for each in real.compilations] != [each.id for each in virtual.compilations]:
        yield f"compiles {[each.id for each in virtual.compilations]} and not {[each.id for each in real.compilations]}"
        return
    for one, other in zip(real.compilations, virtual.compilations, strict=True):
        outcome.compilations += 1
        for kind in KINDS:
            if one.digests.get(kind) == other.digests.get(kind):
                continue
            base, other_items = (items_in(log, one.id, kind) for log in logs)
            texts = first_difference(base, other_items, kind)
            yield f"{one.id} {kind}: {' | '.join('nothing' if each is None else each.text[:160] for each in texts)}"


def _kernels(real: Session, virtual: Session, outcome: Outcome) -> Iterator[str]:
    def kernels_of(session: Session) -> list[tuple[Any, ...]]:
        found = [
            (each.graph, each.stage, each.name, each.language, each.calls, each.source) for each in session.kernels
        ]
        # Parts of a graph, such as those that DDP cuts, are generated side by side: whose kernels are recorded first is
        # chance. The order in each part stands in its module, compared below.
        return sorted(found, key=lambda each: tuple(map(str, each)))

    outcome.kernels += len(virtual.kernels)
    if kernels_of(real) != kernels_of(virtual):
        pair = next(
            ((a, b) for a, b in zip(kernels_of(real), kernels_of(virtual), strict=False) if a != b), (None, None)
        )
        lines = zip(*("\n".join(map(str, each or ())).splitlines() for each in pair), strict=False)
        apart = next((two for two in lines if two[0] != two[1]), ("", ""))
        name = pair[0][2] if pair[0] else "one is missing"
        numbers = f"{len(real.kernels)} and {len(virtual.kernels)}"
        yield f"kernels: {numbers}, first difference in {name}: {apart[0].strip()[:200]} | {apart[1].strip()[:200]}"
    modules = [
        sorted((each.graph, str(each.stage), text_of(each.body)) for each in one.code) for one in (real, virtual)
    ]
    if modules[0] != modules[1]:
        graph, stage, _code = next((a for a, b in zip(*modules, strict=False) if a != b), ("", "", ""))
        yield f"the code around the kernels of {graph or 'some graph'} {stage}"


def _collectives(folder: Path, rank: int, virtual: Session, outcome: Outcome) -> Iterator[str]:
    found = collectives_document(virtual).collectives
    outcome.collectives += len(found)
    path = folder / f"eager{rank}.json"
    if not path.exists():
        yield "the eager run on real ranks failed"
        return
    eager = json.loads(path.read_text())
    mine = Counter(_name(each.op) for each in found)
    counted = Counter({op: mine[op] for op in mine if op in _COUNTED})
    torchs: Counter[str] = Counter()
    for packet, number in eager["comm_debug"].items():
        torchs[_name(packet.rpartition(".")[2])] += number
    if counted != torchs:
        yield f"collectives {dict(counted)}, CommDebugMode {dict(torchs)}"
    sizes: Counter[str] = Counter()
    for each in found:
        sizes[_name(each.op)] += each.bytes or 0
    seen: Counter[str] = Counter()
    for op, size in eager["bytes"].items():
        seen[_name(op)] += size
    if +sizes != +seen:
        yield f"bytes {dict(+sizes)}, a dispatch mode saw {dict(+seen)}"


def _name(op: str) -> str:
    return _NAMES.get(op, op)


def row(outcome: Outcome) -> str:
    """Return a line of the table."""
    numbers = (outcome.ranks, outcome.compilations, outcome.kernels, outcome.collectives, len(outcome.differences))
    return f"| {outcome.program} | {outcome.world} | {' | '.join(map(str, numbers))} |"


def page(outcomes: list[Outcome]) -> str:
    """Return the results as a page."""
    import torch

    head = [
        "# Virtual ranks beside real ones",
        "",
        f"`benchmarks/cluster.py`, torch {torch.__version__}, gloo on one machine. Compared: inputs, graphs,",
        "collectives, guards and recompilations of each compilation, each kernel with its source, the number of",
        "collectives beside `CommDebugMode` in eager, and their bytes beside a dispatch mode.",
        "",
        "| program | ranks of the job | compared | compilations | kernels | collectives | differences |",
        "|---|---|---|---|---|---|---|",
    ]
    details = [f"- {one.program}, {one.world}: {each}" for one in outcomes for each in one.differences]
    tail = ["", "## Differences", "", *details] if details else ["", "No difference."]
    return "\n".join([*head, *map(row, outcomes), *tail, ""])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    assert shutil.which("bash"), "the ranks start in bash"
    main()
