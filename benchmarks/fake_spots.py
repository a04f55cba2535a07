"""Check what becomes of a value that does not exist under `--fake`, and that no storage grows with the model's width.

Each spot of `_fake_spots.py` is a model file that asks for one value. `ctrace explain --fake --fast --json` has to stop
at the marked line, or go on where torch carries the value as a symbol; it must not crash. Each runs at two widths: the
wider model's weights are 2 GiB, which the memory of the largest process must not show.

usage: fake_spots.py [--write] [--narrow N] [--wide N] [NAME]...
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from _fake_spots import NEEDS_NONE, SPOTS, STOPS, SYMBOL, model_of
from fake_truth import replace_part

_ASKS = re.compile(r"model\.py:(\d+) asks for ")
_CLOSE = 64 << 10
"""How much more memory a wide model may take, in KiB: each side varies by some MiB between runs."""


@dataclass(frozen=True)
class Seen:
    """What became of a spot at one width."""

    outcome: str
    line: int | None
    memory: int
    """The peak memory of the largest process, in KiB."""


@dataclass(frozen=True)
class Row:
    """A spot at both widths."""

    name: str
    line: int | None
    narrow: Seen
    wide: Seen

    @property
    def is_right(self) -> bool:
        """Whether both widths end as expected, at the marked line."""
        expected = SPOTS[self.name].expected
        sides = (self.narrow, self.wide)
        lines = {side.line for side in sides if expected != NEEDS_NONE}
        return all(side.outcome == expected for side in sides) and lines <= {self.line}

    @property
    def grows(self) -> bool:
        """Whether the wide model takes more memory."""
        return self.wide.memory - self.narrow.memory > _CLOSE


def see(name: str, width: int) -> Seen:
    """Explain the model of a spot."""
    spot = SPOTS[name]
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as folder:
        text, _ = model_of(spot, width)
        (Path(folder) / "model.py").write_text(text, encoding="utf-8")
        options = ("--train",) if spot.train else ()
        command = [sys.executable, "-m", "ctrace", "explain", "model.py", "--fake", "--fast", "--json", *options]
        with (Path(folder) / "out").open("w+") as out, (Path(folder) / "err").open("w+") as err:
            child = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0), err.seek(0)
            return Seen(*_outcome(out.read(), err.read()), used.ru_maxrss)


def _outcome(out: str, err: str) -> tuple[str, int | None]:
    if not out:  # the model or its inputs were not made: two lines say where
        asked = _ASKS.search(err.splitlines()[-2]) if len(err.splitlines()) > 1 else None
        return (STOPS, int(asked[1])) if asked else (f"failed: {' '.join(err.split())[-150:]}", None)
    report = json.loads(out)
    if report["stopped"]:
        return STOPS, report["stopped"]["line"]
    if report["error"]:
        return f"failed: {report['error']['message'][:150]}", None
    if report["assumed"]:
        return SYMBOL, report["assumed"][0]["line"]
    return NEEDS_NONE, None


def table(rows: list[Row], narrow: int, wide: int) -> str:
    """Return the results in Markdown."""
    import torch

    right = sum(row.is_right for row in rows)
    expected = Counter(SPOTS[row.name].expected for row in rows)
    most = max(row.wide.memory - row.narrow.memory for row in rows) / 1024
    weights = 2 * wide * wide * 4 / (1 << 30)
    lines = [
        f"`benchmarks/fake_spots.py`, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{datetime.now(UTC):%Y-%m-%d}. {right} of {len(rows)} spots end as they have to: {expected[STOPS]} stop at "
        f"their line, {expected[SYMBOL]} go on with a symbol, {expected[NEEDS_NONE]} ask for nothing. With layers of "
        f"{wide} in place of {narrow} ({weights:.1f} GiB of weights), the largest process takes at most {most:.0f} MiB "
        "more.",
        "",
        "| spot | line | has to | does | memory, MiB | wide |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        does = row.wide.outcome if row.wide.line is None else f"{row.wide.outcome}, line {row.wide.line}"
        does = does if row.is_right else f"**{does}**"
        memory = [f"{side.memory / 1024:.0f}" for side in (row.narrow, row.wide)]
        cells = [row.name, str(row.line or ""), SPOTS[row.name].expected, does.replace("|", "\\|"), *memory]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Run the spots and print; return 1 if one is wrong, or grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/fake.md")
    parser.add_argument("--narrow", type=int, default=256)
    parser.add_argument("--wide", type=int, default=16384)
    asked = parser.parse_args()
    rows = []
    for name in asked.names or SPOTS:
        began = time.monotonic()
        _, line = model_of(SPOTS[name], asked.narrow)
        rows.append(row := Row(name, line, see(name, asked.narrow), see(name, asked.wide)))
        verdict = (
            "right" if row.is_right else f"WRONG: has to: {SPOTS[name].expected} at {line}; {row.narrow}; {row.wide}"
        )
        print(f"{name}: {verdict} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    text = table(rows, asked.narrow, asked.wide)
    print(text)
    if asked.write:
        replace_part("fake_spots", text)
    return int(any(not row.is_right or row.grows for row in rows))


if __name__ == "__main__":
    sys.exit(main())
