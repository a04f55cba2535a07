"""The two consoles, and writing a report."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ctrace.inspector.errors import RunError, TargetError

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
"""Width of a screen that goes to a pipe or a file."""


def console(*, stderr: bool = False) -> "Console":
    """Make a console on stdout or stderr; colours only on a terminal, and not with NO_COLOR."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    return Console(file=stream, width=width, soft_wrap=False)


def say(text: str) -> None:
    """Talk to the user, on stderr."""
    print(text, file=sys.stderr, flush=True)


def check_output(output: Path | None) -> None:
    """Refuse a file that cannot be written before a long capture is made for it.

    Raises:
        TargetError: its folder is not there, or it is a folder.
    """
    if output is None or str(output) == "-":
        return
    if output.is_dir() or not output.absolute().parent.is_dir():
        what = f"{output} is a folder" if output.is_dir() else f"{output}: there is no folder {output.parent}"
        raise TargetError(what, "name another file with -o")


def write_report(text: str, output: Path | None) -> None:
    """Write a report to a file, or to stdout when there is none or it is `-`.

    Raises:
        RunError: the file cannot be written.
    """
    if output is None or str(output) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    from ctrace.inspector.files import write_output

    try:
        write_output(output, text)
    except OSError as error:
        raise RunError(f"{output} cannot be written: {error.strerror}", "name another file with -o") from None
    say(f"Wrote {output}")
