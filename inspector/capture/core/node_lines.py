"""The user's line of a graph's node."""

import linecache
from functools import cache
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.source.stacks import frames_in, user_lines


def line_of(node: Any) -> str | None:
    """Return the innermost line of the user that a node comes from, as `file:line`; None: not known."""
    stack = node.meta.get("stack_trace") or ""
    found = user_lines([stack], _prefixes()) if stack else ()
    return str(found[-1]) if found else None


def place_of(node: Any) -> tuple[str | None, int | None, str | None]:
    """Return file, line and function of the innermost line of the user that a node comes from; None: not known."""
    where = line_of(node) if node is not None else None
    if where is None:
        return None, None, None
    file, _, line = where.rpartition(":")
    frames = [each for each in frames_in(node.meta["stack_trace"]) if each.file == file and each.line == int(line)]
    return file, int(line), frames[-1].function if frames else None


def source_of(file: str | None, line: int | None) -> str:
    """Return a line of code; empty if it is not known."""
    return linecache.getline(file, line).strip() if file is not None and line is not None else ""


@cache
def _prefixes() -> dict[str, str]:
    """Return the folders of libraries and of torch, whose frames are not the user's."""
    import torch

    return {**library_prefixes(), str(Path(torch.__file__).parent): "torch"}
