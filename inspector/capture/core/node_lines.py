"""The user's line of a graph's node."""

import linecache
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.source.stacks import frames_in, user_lines

REPLACED = "ctrace_replaced"
"""The key of a node's meta that has the stack trace of what a pattern of Inductor replaced by the node."""


def stack_of(node: Any) -> str:
    """Return a node's stack trace, else that of what it replaces; empty if there is none."""
    return str(node.meta.get("stack_trace") or node.meta.get(REPLACED) or "")


def stacks_of(operation: Any) -> Iterator[str]:
    """Yield the stack traces behind an operation of Inductor, which an `ir.Operation` keeps as its origins."""
    yield from operation.get_stack_traces()
    yield from (stack for origin in operation.origins if (stack := origin.meta.get(REPLACED)))


def line_of(node: Any) -> str | None:
    """Return the innermost line of the user that a node comes from, as `file:line`; None: not known."""
    stack = stack_of(node)
    found = user_lines([stack], _prefixes()) if stack else ()
    return str(found[-1]) if found else None


def place_of(node: Any) -> tuple[str | None, int | None, str | None]:
    """Return file, line and function of the innermost line of the user that a node comes from; None: not known."""
    where = line_of(node) if node is not None else None
    if where is None:
        return None, None, None
    file, _, line = where.rpartition(":")
    frames = [each for each in frames_in(stack_of(node)) if each.file == file and each.line == int(line)]
    return file, int(line), frames[-1].function if frames else None


def source_of(file: str | None, line: int | None) -> str:
    """Return a line of code; empty if it is not known."""
    return linecache.getline(file, line).strip() if file is not None and line is not None else ""


@cache
def _prefixes() -> dict[str, str]:
    """Return the folders of libraries and of torch, whose frames are not the user's."""
    import torch

    return {**library_prefixes(), str(Path(torch.__file__).parent): "torch"}
