"""What equal calls leave behind, call after call."""

import os
import sys
from bisect import bisect_right
from pathlib import Path
from typing import Any

from ctrace.inspector.facts.memory_facts import CallGrowth, HeldMemory
from ctrace.inspector.features.memory.child.holders import TensorHolder, holders_of, line_that_adds, namespaces_of
from ctrace.inspector.features.memory.child.peak_report import source_line
from ctrace.inspector.features.memory.child.storage_ledger import Ledger, TrackedStorage
from ctrace.inspector.features.memory.child.tracked_calls import OperatorLines

_STATM = Path("/proc/self/statm")
_MOST_HELD = 50
_MOST_CALLS = 200


class GrowingCalls:
    """Compares what is alive after each call with what was alive before the first one."""

    def __init__(self, ledger: Ledger, lines: OperatorLines) -> None:
        self._ledger = ledger
        self._lines = lines
        self._alive = ledger.total()
        self._host = host_bytes()
        self._begins = [ledger.count]
        """How many storages there were when each call began."""
        self.calls: list[CallGrowth] = []

    def after_call(self) -> None:
        """Note what is alive after a call."""
        host = host_bytes()
        change = None if host is None or self._host is None else host - self._host
        self.calls.append(CallGrowth(len(self.calls) + 1, self._ledger.total() - self._alive, change))
        self._begins.append(self._ledger.count)

    def sampled(self) -> tuple[CallGrowth, ...]:
        """Return some calls of a long program, the last one included."""
        step = -(-len(self.calls) // _MOST_CALLS) or 1
        return tuple(self.calls[(len(self.calls) - 1) % step :: step])

    def held(self) -> tuple[HeldMemory, ...]:
        """Say what several calls after the first one have left, the largest first, and what holds it."""
        addresses = self._ledger.addresses()
        left = {each: address for each, address in addresses.items() if self._call_of(each) > 1}
        if not left:
            return ()
        namespaces = namespaces_of(self._lines.is_users)
        holders = holders_of(set(left.values()), namespaces)
        files = {os.path.realpath(names.get("__file__") or sys.argv[0]) for names in namespaces.values()}
        grouped: dict[tuple[Any, ...], list[TrackedStorage]] = {}
        for each, address in left.items():
            grouped.setdefault((each.origin[:2], holders.get(address)), []).append(each)
        several = {key: some for key, some in grouped.items() if len(set(map(self._call_of, some))) > 1}
        found = [_held(some, holder, files) for (_, holder), some in several.items()]
        return tuple(sorted(found, key=lambda each: -each.bytes)[:_MOST_HELD])

    def _call_of(self, stored: TrackedStorage) -> int:
        """Return the number of the call that made a storage; 0: it is older than the first one."""
        return bisect_right(self._begins, stored.born)


def _held(some: list[TrackedStorage], holder: TensorHolder | None, files: set[str]) -> HeldMemory:
    origin = some[0].origin
    at, text = None, ""
    if holder is not None:
        at = line_that_adds(holder.name, files)
        text = f"the graph of autograd of {holder.text}" if holder.by_graph else holder.text
    holder_file, holder_line = (None, None) if at is None else at
    return HeldMemory(
        bytes=sum(each.bytes for each in some),
        count=len(some),
        file=origin.file,
        line=origin.line,
        holder=text,
        source=source_line(origin.file, origin.line),
        holder_file=holder_file,
        holder_line=holder_line,
    )


def host_bytes() -> int | None:
    """Return the memory that this process has; None: the system does not say."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
