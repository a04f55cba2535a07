"""Texts that stand in for source files in this process: code, tracebacks and `inspect` see them as the files."""

import linecache
import os
from collections.abc import Iterator
from contextlib import contextmanager

from ctrace.inspector.facts.trial import NewText

_texts: dict[str, str] = {}


@contextmanager
def replaced_texts(sources: tuple[NewText, ...]) -> Iterator[None]:
    """Let texts stand in for files while the block runs; their lines stay readable afterwards."""
    added = {os.path.realpath(each.file): each.text for each in sources}
    _texts.update(added)
    for each in sources:
        for path in dict.fromkeys((each.file, os.path.realpath(each.file))):
            # An entry without a time of change is never compared with the disk (Lib/linecache.py, 3.11).
            linecache.cache[path] = (len(each.text), None, each.text.splitlines(keepends=True), path)
    try:
        yield
    finally:
        for path in added:
            _texts.pop(path, None)


def replaced_text(path: str) -> str | None:
    """Return the text that stands in for a file; None: the file on disk holds."""
    if _texts:
        return _texts.get(os.path.realpath(path))
    return None
