"""Count silent dangers that are none, and those that are missed, with plain torch in other processes as the judge.

The programs are those of danger_programs.toml, or FILEs with `model` and `inputs`. Plain torch calls each in eager,
again in eager in a process with another hash seed, other random numbers and other memory, and compiled. If the eager
runs differ, or if compiled code agrees with eager, `ctrace explain` must show no danger; otherwise it must show one.
The table has one row for each class of programs, and the columns of each CHECKOUT of ctrace, which has its own .venv;
REPORT keeps the answers, so that a later run can add those of another checkout.
usage: dangers.py [--checkout CHECKOUT]... [-k NAME] [--only-oracle] [--out REPORT.json] [FILE...]
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "danger_programs.toml"
_NEAR = 1e-5

_TEMPLATE = """\
import torch
from torch import nn
{setup}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        {init}
    def forward(self, x):
        {forward}

torch.manual_seed(0)
model = Net()
X = torch.arange(8.0).reshape(2, 4)
TRAIN = {train}

def inputs():
    return (X.clone(),)

def changed():
    {change}
    return inputs()

scenarios = {{"changed": changed}}
"""


@dataclass(frozen=True)
class Program:
    kind: str
    name: str
    text: str
    train: bool = False
    seeded: bool = False
    """Whether the program draws random numbers: then a difference counts if the seeds are the same."""

    @property
    def is_danger(self) -> bool | None:
        """Whether the table says that it is one; None: it does not say."""
        return None if self.kind == "files" else self.kind == "danger"


@dataclass
class Row:
    program: Program
    truth: str
    dangers: dict[str, list[str]] = field(default_factory=dict)
    """What each ctrace shows: the dangers, or `error: ...`."""
    notes: dict[str, str] = field(default_factory=dict)


def programs() -> Iterator[Program]:
    known = tomllib.loads(PROGRAMS.read_text())
    for kind, named in known.items():
        for name, parts in named.items():
            train, seeded = parts.pop("train", False), parts.pop("seeded", False)
            yield Program(kind, name, parts.pop("text", None) or source(train=train, **parts), train, seeded)


def source(
    setup: str = "", init: str = "pass", forward: str = "return self.fc(x)", change: str = "pass", *, train: bool
) -> str:
    def indented(text: str, by: int) -> str:
        return text.strip("\n").replace("\n", "\n" + " " * by)

    return _TEMPLATE.format(
        setup=setup.strip("\n"), init=indented(init, 8), forward=indented(forward, 8), change=indented(change, 4),
        train=train,
    )  # fmt: skip


class Oracle:
    """Plain torch in two processes that differ in what no program may depend on."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ctrace-oracle-"))
        self._processes = {
            seed: subprocess.Popen(
                [sys.executable, str(HERE / "_danger_oracle.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONHASHSEED": seed, "MALLOC_PERTURB_": memory, "OMP_NUM_THREADS": "1"},
            )
            for seed, memory in (("0", "5"), ("7", "170"))
        }

    def truth(self, file: Path, *, seeded: bool) -> str:
        """Return `agrees`, `varies`, `differs`, or why there is no answer."""
        eager = self._result(file, "eager", "0")
        other = self._result(file, "eager" if seeded else "eager-other", "7")
        compiled = self._result(file, "compiled", "0")
        failed = next((each for _, each in (*eager, *compiled) if isinstance(each, str)), None)
        if failed is not None:
            return failed.splitlines()[0][:100]
        if not _alike(eager, other):
            return "varies"
        return "agrees" if _alike(eager, compiled) else "differs"

    def _result(self, file: Path, mode: str, seed: str) -> Any:
        process, result = self._processes[seed], self._folder / "result"
        result.unlink(missing_ok=True)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{file}\t{mode}\t{result}\n")
        process.stdin.flush()
        process.stdout.readline()
        return json.loads(result.read_text()) if result.exists() else [["", "raised nothing: it ended early"]]

    def close(self) -> None:
        for each in self._processes.values():
            assert each.stdin is not None
            each.stdin.close()
            each.wait()


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if one == other or (math.isnan(one) and math.isnan(other)):
            return True
        return math.isfinite(one - other) and abs(one - other) <= _NEAR * max(abs(one), abs(other), 1e-3)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)


class Checkout:
    """Runs `ctrace explain` of one checkout."""

    def __init__(self, root: Path) -> None:
        self.name = root.name
        self._process = subprocess.Popen(
            [str(root / ".venv" / "bin" / "python"), str(HERE / "_danger_runner.py"), str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def explained(self, program: Program, file: Path) -> tuple[list[str], str]:
        """Return the dangers that are shown, and why calls were not compared."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join([str(file), *(["--train"] if program.train else [])]) + "\n")
        self._process.stdin.flush()
        _, out, err = json.loads(self._process.stdout.readline())
        try:
            report = json.loads(out)
        except ValueError:
            return [f"error: {err.strip().splitlines()[-1:]}"], ""
        found = [f"{each['kind']} {each['subject'] or ''} (call {each['call']})" for each in report["dangers"] or []]
        notes = [each["not_compared"] for each in report["scenarios"] if each["not_compared"]]
        notes += [each["what"] for each in report["problems"]]
        return found, "; ".join(dict.fromkeys(notes))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--checkout", action="append", default=[], type=Path)
    parser.add_argument("-k", default="")
    parser.add_argument("--only-oracle", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    known = [Program("files", str(each), each.read_text()) for each in args.files] or list(programs())
    roots = [] if args.only_oracle else [each.resolve() for each in args.checkout] or [HERE.parent]
    report = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    oracle, checkouts = Oracle(), [Checkout(each) for each in roots]
    rows = []
    try:
        for program in known:
            name = f"{program.kind}.{program.name}"
            if args.k in name:
                rows.append(row := _row(program, oracle, checkouts, report.get(name)))
                print(_line(row), flush=True)
                report[name] = {"truth": row.truth, "dangers": row.dangers, "notes": row.notes}
                if args.out:
                    args.out.write_text(json.dumps(report, indent=1))
    finally:
        oracle.close()
        for each in checkouts:
            each.close()
    return _print_table(rows)


def _row(program: Program, oracle: Oracle, checkouts: list[Checkout], known: dict[str, Any] | None) -> Row:
    with tempfile.TemporaryDirectory(prefix="ctrace-danger-") as folder:
        file = Path(folder) / "model.py"
        file.write_text(program.text)
        truth = known["truth"] if known else oracle.truth(file, seeded=program.seeded)
        row = Row(program, truth, *([known["dangers"], known["notes"]] if known else []))
        for each in checkouts:
            row.dangers[each.name], row.notes[each.name] = each.explained(program, file)
    return row


def _wrong(row: Row, name: str) -> str:
    """Say what is wrong with a ctrace's answer; empty: nothing."""
    shown = row.dangers.get(name, [])
    if any(each.startswith("error") for each in shown):
        return "error"
    if row.truth == "differs":
        return "" if shown else "missed"
    return "false" if shown and row.truth in ("agrees", "varies") else ""


def _line(row: Row) -> str:
    is_danger = row.program.is_danger
    doubt = " (the oracle disagrees)" if is_danger is not None and is_danger != (row.truth == "differs") else ""
    answers = (f"{_wrong(row, each) or 'right'}: {shown} {row.notes[each][:90]}" for each, shown in row.dangers.items())
    return f"{row.program.kind + '.' + row.program.name:36} {row.truth}{doubt}  {'  |  '.join(answers)}"


def _print_table(rows: list[Row]) -> int:
    names = list(dict.fromkeys(name for row in rows for name in row.dangers))
    print(f"\n{'':22}" + "".join(f" {name:>21}" for name in names))
    print(f"{'class':12} {'programs':>9}" + "  false missed  error" * len(names))
    kinds = list(dict.fromkeys(row.program.kind for row in rows))
    for kind in [*kinds, "all"]:
        mine = [row for row in rows if kind in (row.program.kind, "all")]
        counts = [[_wrong(row, each) for row in mine] for each in names]
        cells = "".join(f" {c.count('false'):>6} {c.count('missed'):>6} {c.count('error'):>6}" for c in counts)
        print(f"{kind:12} {len(mine):>9}{cells}")
    return int(bool(names) and any(_wrong(row, names[-1]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
