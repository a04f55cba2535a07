"""The command line of `make matrix`.

Each pair gets an environment (about 6 GB with a CUDA build of torch), which is removed afterwards unless `--keep`. Each
step's result is stored in its own cell of docs/reference/matrix.json, so a partial run replaces only its own cells. The
tables in README.md and docs/reference/versions.md are written from that file and from inspector/knowledge/.

    python tools/matrix                                  every pair
    python tools/matrix --only 2.15 --only 2.11/3.12     these pairs
    python tools/matrix --only 2.15/3.14 --steps doctor,samples --keep
    python tools/matrix --only /3.14 --not-run "this machine has no Python 3.14"
    python tools/matrix --tables                         write the tables only
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ctrace.inspector.errors import CtraceError
from matrix.environment import MINUTES, Bench, install, interpreter
from matrix.pairs import ROOT, Pair, chosen
from matrix.steps import STEPS, steps_of
from matrix.store import DATA, Cell, Store
from matrix.tables import write_tables


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
    store = Store(options.data, tuple(STEPS))
    for path in options.merge:
        store.merge(path)
    right = True
    if not (options.merge or options.tables):
        results = [_tried(pair, steps, options, store) for pair in selected]
        right = all(results)
    if options.data == DATA:
        write_tables(store)
    return 0 if right else 1


def _tried(pair: Pair, steps: Sequence[str], options: argparse.Namespace, store: Store) -> bool:
    """Run the steps of one pair; return whether none of them failed."""
    print(f"== torch {pair.torch}, Python {pair.python}", flush=True)
    if options.not_run:
        return _all(pair, steps, Cell("not run", options.not_run), store)
    python = interpreter(pair.python, options.python)
    if python is None:
        return _all(pair, steps, Cell("not run", f"the machine has no Python {pair.python}"), store)
    folder = options.envs / f"torch-{pair.torch}-python-{pair.python}"
    try:
        inside = install(pair, python, folder)
    except subprocess.CalledProcessError as error:
        return _all(pair, steps, Cell("failed", f"the install failed, exit code {error.returncode}"), store)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(inside, Path(scratch))
        about = bench.about()
        results = [_run(pair, step, bench, about, store) for step in steps]
    if not options.keep:
        shutil.rmtree(folder)
    return all(results)


def _run(pair: Pair, step: str, bench: Bench, about: dict[str, str], store: Store) -> bool:
    try:
        cell = STEPS[step](bench)
    except subprocess.TimeoutExpired:
        cell = Cell("failed", f"did not end within {MINUTES} minutes")
    except ValueError as error:  # not JSON
        cell = Cell("failed", f"unreadable output: {error}")
    print(f"   {step}: {cell}", flush=True)
    store.put(pair, step, cell, **about)
    return cell.result == "ok"


def _all(pair: Pair, steps: Sequence[str], cell: Cell, store: Store) -> bool:
    print(f"   {cell}")
    for step in steps:
        store.put(pair, step, cell)
    return cell.result != "failed"


def _parser() -> argparse.ArgumentParser:
    head, _, examples = (__doc__ or "").partition("    python")
    parser = argparse.ArgumentParser(
        prog="python tools/matrix",
        description=head,
        epilog="    python" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="TORCH[/PYTHON]", help="a pair, or all pairs of a torch")
    add("--steps", default=",".join(STEPS), metavar="NAMES", help=f"of {', '.join(STEPS)}; default: all")
    add("--keep", action="store_true", help="keep the environments, to reuse them")
    add("--envs", type=Path, default=ROOT / "build" / "matrix", metavar="DIR", help="where environments are made")
    add("--python", action="append", default=[], metavar="PATH", help="a Python to use for its version")
    add("--not-run", metavar="REASON", help="run nothing: store why the steps are not run, where there is no result")
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
