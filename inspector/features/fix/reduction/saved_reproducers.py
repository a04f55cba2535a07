"""Keep verified reproducers beside the saved runs, for issues that are written later."""

import re
from collections.abc import Iterable
from pathlib import Path

from ctrace.inspector.features.fix.reduction.reduction_result import Reproducer
from ctrace.inspector.files.writing import write_text

FOLDER = "repros"
_ID = re.compile(r"[\w-]{1,100}")
_LONGEST = 100_000


def save(root: Path, made: Reproducer) -> None:
    """Keep a verified reproducer in the folder of the saved runs.

    Raises:
        OSError: it cannot be written.
    """
    if made.verified and _ID.fullmatch(made.sought.id):
        folder = root / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / f"{made.sought.id}.py", made.text)


def saved(root: Path, ids: Iterable[str]) -> dict[str, str]:
    """Return the texts of the reproducers that are there, keyed by the finding's id; they are untrusted."""
    found = {}
    for each in ids:
        file = root / FOLDER / f"{each}.py"
        try:
            if _ID.fullmatch(each) and file.is_file() and file.stat().st_size <= _LONGEST:
                found[each] = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # the issue is written without it
    return found
