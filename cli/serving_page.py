"""Write one page of `ctrace serve` in a process of its own: a large run takes seconds, memory and the interpreter."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.processes.boot import python
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store

# Not 1, with which Python ends after an exception.
REFUSED = 2


def command_of(root: Path, names: Sequence[str]) -> list[str]:
    """Return the command that writes the page of one run, or that of the differences between two."""
    return python(__name__, str(root), *names)


def main(_loaded: Any) -> None:
    """Write the page to standard output, or two lines of JSON on what is wrong."""
    root, *names = sys.argv[1:]
    try:
        text = page(Store(Path(root)), names)
    except CtraceError as error:
        text = json.dumps([error.what, error.todo])
        sys.stdout.buffer.write(text.encode())
        sys.exit(REFUSED)
    # A log may have half of a surrogate pair, which UTF-8 cannot write.
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def page(store: Store, names: Sequence[str]) -> str:
    """Return the page of one run, or that of the differences between two.

    Raises:
        RunError: a run cannot be read.
    """
    from ctrace.inspector.features.compare.compare_runs import compare
    from ctrace.reports.html.comparison_page import render_diff_html
    from ctrace.reports.html.html_page import render_html

    sessions = [load(store.load(name)) for name in names]
    if len(sessions) == 1:
        return render_html(sessions[0], names[0])
    one, other = sessions
    return render_diff_html((names[0], names[1]), (one, other), compare(one, other))
