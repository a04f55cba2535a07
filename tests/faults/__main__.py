"""Run the studies of faults and print a table: `python -m tests.faults [--ctrace CMD] [--only NAME] [--tries N]`.

Exit with 1 if anything crashed, lied, was lost or kept running.
"""

import argparse
import importlib
import pkgutil
import shlex
import sys
import tempfile
from collections import Counter
from pathlib import Path

import tests.faults
from tests.faults.study import Bench, Result, Study


def studies() -> list[Study]:
    """Find every module here with `FAULTS`."""
    names = sorted(module.name for module in pkgutil.iter_modules(tests.faults.__path__))
    modules = [importlib.import_module(f"tests.faults.{name}") for name in names if not name.startswith(("test_", "_"))]
    return [module.FAULTS for module in modules if hasattr(module, "FAULTS")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ctrace", default=f"{sys.executable} -m ctrace", help="the command under test")
    parser.add_argument("--only", default="", help="part of a study's name")
    parser.add_argument("--tries", type=int, help="tries of each study (default: all of it)")
    parser.add_argument("--seed", type=int, default=18)
    args = parser.parse_args()
    bad = 0
    rows = []
    for study in studies():
        if args.only not in study.name:
            continue
        counted: Counter[Result] = Counter()
        with tempfile.TemporaryDirectory() as scratch:
            bench = Bench(tuple(shlex.split(args.ctrace)), args.tries or study.full, args.seed, Path(scratch))
            for each in study.run(bench):
                counted[each.result] += 1
                if each.result not in (Result.FINE, Result.SILENT):
                    bad += 1
                    print(f"{each.result:6} {study.name}: {each.name}: {each.detail}", flush=True)
        rows.append((study.name, counted))
        print(_row(study.name, counted), flush=True)
    print("\n" + "\n".join(_row(name, counted) for name, counted in rows))
    return 1 if bad else 0


def _row(name: str, counted: Counter[Result]) -> str:
    numbers = "  ".join(f"{result} {counted[result]}" for result in Result)
    return f"{name:32} tries {counted.total():5}  {numbers}"


if __name__ == "__main__":
    sys.exit(main())
