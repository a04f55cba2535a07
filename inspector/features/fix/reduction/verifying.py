"""Run a finished reproducer in a new Python process without ctrace, and check that its output shows the finding."""

import os
import re
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.features.fix.reduction.finding import Sought, gbs_of, is_called, is_reason, shape_of
from ctrace.inspector.features.fix.reduction.trying import NAME
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.writing import write_text

_RAISED = re.compile(r"(?:\w+\.)*(\w+): ?(.*)")
_LONGEST = 20_000


class Ran(Struct, frozen=True):
    """A fresh run."""

    status: int
    output: str
    shows: bool


def verified(text: str, sought: Sought, lines: tuple[int, ...], seconds: float) -> Ran:
    """Run a program as `python repro.py`, in an empty folder."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("TORCH_", "TORCHDYNAMO", "CTRACE"))
    }
    with scratch("repro") as folder:
        write_text(folder / NAME, text)
        try:
            done = subprocess.run(
                [sys.executable, NAME],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Ran(-1, "", shows=False)
        output = done.stdout.decode("utf-8", "replace")[-_LONGEST:].replace(f"{os.path.realpath(folder)}/", "")
        output = output.replace(f"{folder}/", "")
    return Ran(done.returncode, output, is_in(output, done.returncode, sought, lines))


def is_in(output: str, status: int, sought: Sought, lines: tuple[int, ...]) -> bool:
    """Whether the output of a program shows a finding: the same id at its line, a recompilation, or the exception."""
    match sought.what:
        case Finding.BREAK:
            return set(sought.ids[:1]) <= gbs_of(output) and is_called(sought, output) and _names(output, sought, lines)
        case Finding.RECOMPILE:
            return is_reason(sought, output) and _names(output, sought, lines)
        case Finding.SKIP:
            counts = dict(re.findall(r"'(total|ok)': (\d+)", output))
            return status == 0 and int(counts.get("ok", 0)) < int(counts.get("total", 0))
        case _:
            raised = [match for each in output.splitlines() if (match := _RAISED.match(each)) is not None]
            return status != 0 and any(each[1] in sought.ids and shape_of(each[2]) == sought.shape for each in raised)


def _names(output: str, sought: Sought, lines: tuple[int, ...]) -> bool:
    """Whether an output names the line of the finding."""
    file, numbers = (Path(sought.library).name, (sought.line,)) if sought.library else (NAME, lines)
    if not numbers:
        return True
    either = "|".join(map(str, numbers))
    return bool(re.search(rf"{re.escape(file)}\"?(?:, line |:)(?:{either})\b", output))
