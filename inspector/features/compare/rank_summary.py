"""Fold the log of one rank to a summary: what it compiled, as digests.

A job may have thousands of ranks, so each log is read once, and only the records that a comparison needs are parsed
(`SummaryRecords`). Of each compilation, one digest for each kind of `Apart` is kept (`_Fold`): equal digests mean equal
content. To show how two ranks differ, their logs are read again (`ranks_of_job.py`). A log that ends too early says so
(`Summary.cut`), since what a rank did not record is no difference.
"""

import hashlib
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct, field

from ctrace.inspector.errors import RunError
from ctrace.inspector.features.compare.record_content import SOURCES, RankItem, communicated, items_of
from ctrace.inspector.log.fields import loaded
from ctrace.inspector.log.files import DAMAGED, STOPPED
from ctrace.inspector.log.folders import LogFile, opened_log
from ctrace.inspector.log.framing import TooLong, pieces, records
from ctrace.inspector.log.reader import Broken, Generations, LogEntry, Reader, settled, whole
from ctrace.inspector.log.reading_limits import longest_record


class Apart(StrEnum):
    """What two ranks may differ in, in the order in which a comparison looks."""

    INPUT = "input"
    COLLECTIVE = "collective"
    GRAPH = "graph"
    GUARD = "guard"
    CACHE_KEY = "cache_key"
    RECOMPILE = "recompile"
    MISSING = "missing"
    """A compilation that a rank lacks because its log ends too early."""


class Digest(Struct, frozen=True):
    """One compilation of one rank."""

    id: str
    """Such as `0/1`; after a reset of Dynamo, `2.0/1`."""
    function: str
    file: str
    line: int
    digests: dict[str, str] = field(default_factory=dict)
    """By kind; only kinds with an entry in the log."""
    communicated: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Collectives below Dynamo's graph, by kind of the record: a digest for each record, empty for no collective."""

    @property
    def is_recompile(self) -> bool:
        """Whether its function was compiled before."""
        return not self.id.endswith("/0")


class Summary(Struct, frozen=True):
    """What one rank compiled."""

    rank: int
    log: LogFile
    compilations: tuple[Digest, ...] = ()
    seconds: float = 0.0
    """Time in compilations, as torch measured it."""
    cut: str = ""
    """Evidence that the log is incomplete."""
    torch: str = ""
    began: str = ""
    """Time of the first record, as in the log."""
    reports: tuple[str, ...] = ()
    """Torch's own reports of a mismatch between ranks."""
    changed: int = 0
    """How many records were changed after torch wrote them, as by a redaction."""
    unrecorded: frozenset[tuple[str, str]] = frozenset()
    """Compilations with a kind of record of collectives that this log lacks, and that of another rank has."""


_WANTED = re.compile(
    b'"(?:str|dynamo_start|dynamo_output_graph|dynamo_cpp_guards_str|recompile_reasons|inductor_collective_schedule'
    b'|aot_(?:inference|forward|backward)_graph|inductor_post_grad_graph|aot_joint_graph_sync_decision_cross_ranks|inductor_spmd_graph_mismatch|torch_version)"'
    b"|compilation_metrics|_cache_(?:miss|hit|bypass)"
)
"""Parts of the headers of records that a summary needs; all others are skipped without parsing."""
_STEP = b'] {"chromium_event"'
_BACKWARD = b'"entire_backward_compile"'
"""The step around the compilation of a backward (_functorch/_aot_autograd/runtime_wrappers.py, 2.11 to 2.15)."""
_NAME = 80
"""A step's name is in the first bytes of its payload."""
_TIME = re.compile(rb"[A-Z](\d{4} \d\d:\d\d:\d\d)")
_MISMATCH = "artifact:inductor_spmd_graph_mismatch"
# Chosen: the report is shown as it is, on a screen or a page; its first lines name what differs.
_LONGEST = 4_000
_WRAPPER = ("inner", "_dynamo/external_utils.py")
"""The wrapper that Dynamo puts around one of torch's own modules, such as DDP (2.13, _dynamo/external_utils.py:67)."""
_INSTALLED = "-packages/"


def summary_of(log: LogFile) -> Summary:
    """Read a log once, and keep only digests.

    Raises:
        SetupError: it is compressed in a way that this Python cannot read.
    """
    lines, fold, unread = SummaryRecords(), _Fold(), ""
    try:
        with opened_log(log) as file:
            for entry in lines.wanted(file):
                fold.add(entry)
    except RunError as error:  # it was there when the folder was listed
        unread = error.what
    return Summary(
        rank=log.rank or 0,
        log=log,
        compilations=tuple(fold.compilations()),
        seconds=fold.seconds,
        cut=unread or fold.cut(lines),
        torch=fold.torch,
        began=lines.began,
        reports=tuple(fold.reports),
        changed=lines.changed,
    )


class SummaryRecords:
    """Yields the records that a summary needs, and keeps how the log begins and ends."""

    def __init__(self) -> None:
        self.began = ""
        self.record = b""
        """The first line of the last record."""
        self.payload = b""
        self.changed = 0
        """How many of the wanted records were changed after torch wrote them."""

    def wanted(self, file: BinaryIO) -> Iterator[LogEntry | Broken]:
        """Yield the records that a summary needs."""
        reader, is_wanted = Reader(), _WANTED.search
        held: LogEntry | None = None
        for piece in pieces(whole(file), longest_record()):
            if isinstance(piece, TooLong):
                yield Broken(0, piece.why)
                continue
            start = line = end = 0
            for start, line, end in records(piece):
                header = piece[start:line]
                # Steps are most of a log, and of these only the compilations of backwards are needed.
                is_step = _STEP in header and piece.find(_BACKWARD, line, line + _NAME) >= 0
                is_needed = is_step or is_wanted(header)
                if not is_needed and held is None:
                    continue
                # A record that was changed is settled by the one behind it, so that one is parsed even if
                # nobody needs it.
                item = reader.entry(0, header, piece[line:end], 0, is_last=False)
                if held is not None:
                    yield settled(held, item)
                    held = None
                if not is_needed:
                    continue
                if isinstance(item, LogEntry) and item.changed is not None:
                    held = item
                    self.changed += 1
                else:
                    yield item
            self.record, self.payload = piece[start:line], piece[line:end]
            if not self.began and (match := _TIME.match(piece)):
                self.began = match[1].decode()
        if held is not None:
            yield reader.last(held)

    @property
    def end(self) -> str:
        """Return the evidence that the end of the log is missing; empty if there is none."""
        if self.record.startswith((DAMAGED.encode(), STOPPED.encode())):
            return self.record.decode("utf-8", "replace").strip()
        if not (self.payload or self.record).endswith(b"\n"):
            return "the log stops in the middle of a line"
        reader = Reader()
        last = reader.entry(0, self.record, self.payload, 0, is_last=False)
        if self.changed <= 1:
            last = reader.last(last)
        if isinstance(last, Broken):
            return "the last record is cut short"
        return ""


class Places:
    """Names compilations as a session does: after a reset of Dynamo, `0/0` is `2.0/0`; knows files by number."""

    def __init__(self) -> None:
        self.files: dict[int, str] = {}
        self._generations = Generations()

    def id_of(self, entry: LogEntry) -> str | None:
        """Return the id of an entry's compilation; None outside of one."""
        if entry.compile_id is None:
            return None
        generation = self._generations.generation_of(entry)
        if generation == 1:
            return entry.compile_id
        return f"{generation}.{entry.compile_id}"

    def learn(self, entry: LogEntry) -> None:
        """Keep the name of a file."""
        if entry.kind == "str" and isinstance(entry.data, list) and len(entry.data) == 2:
            self.files[entry.data[1]] = str(entry.data[0])

    def function_of(self, entry: LogEntry) -> tuple[str, str, int]:
        """Return function, file and line of a `dynamo_start`; for torch's wrapper, the user's line that calls it."""
        stack = None
        if isinstance(entry.data, dict):
            stack = entry.data.get("stack")
        frames = []
        if isinstance(stack, list):
            frames = [each for each in stack if isinstance(each, dict)]
        found = [(str(each.get("name", "?")), *self._place(each)) for each in frames] or [("?", "?", 0)]
        function, file, line = found[-1]
        if function == _WRAPPER[0] and file.endswith(_WRAPPER[1]):
            users = (each for each in reversed(found) if _INSTALLED not in each[1])
            _, file, line = next(users, found[-1])
        return function, file, line

    def _place(self, frame: dict[str, Any]) -> tuple[str, int]:
        line, file = frame.get("line"), frame.get("filename")
        name = "?"
        if isinstance(file, int):
            name = self.files.get(file, "?")
        return name, line if type(line) is int else 0


class _Fold:
    """Collects the compilations of a log."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.torch = ""
        self.reports: list[str] = []
        self._places = Places()
        self._starts: dict[str, tuple[str, str, int]] = {}
        self._parts: dict[str, dict[str, Any]] = {}
        self._communicated: dict[str, dict[str, list[str]]] = {}
        self._finished: set[str] = set()
        self._backwards: list[str] = []
        """Compilations whose backward compiles."""
        self._broken = 0

    def add(self, entry: LogEntry | Broken) -> None:
        if isinstance(entry, Broken):
            self._broken += 1
            return
        self._places.learn(entry)
        if entry.kind == "artifact:torch_version":
            self.torch = _version(entry.payload)
        if entry.kind == _MISMATCH:
            self.reports.append(entry.payload[:_LONGEST])
        compile_id = self._places.id_of(entry)
        if compile_id is None:
            return
        if entry.kind == "chromium_event":
            self._step(compile_id, entry)
            return
        if entry.kind == "dynamo_start":
            self._start(compile_id, entry)
        if entry.kind.endswith("compilation_metrics"):
            self._measure(compile_id, entry)
        self._communicate(compile_id, entry)
        for kind, items in items_of(entry):
            # SHA-1 is fast, and nobody attacks it here; Python in FIPS mode refuses it without this word.
            digest = self._parts.setdefault(compile_id, {}).setdefault(kind, hashlib.sha1(usedforsecurity=False))
            for item in items:
                digest.update(f"{item.key}\0{item.same}\n".encode("utf-8", "replace"))

    def _communicate(self, compile_id: str, entry: LogEntry) -> None:
        """Keep the collectives of a graph below Dynamo's."""
        calls = communicated(entry)
        if calls is not None:
            self._communicated.setdefault(compile_id, {}).setdefault(entry.kind, []).append(_digest(calls))

    def _start(self, compile_id: str, entry: LogEntry) -> None:
        """Begin an attempt; records of an abandoned one do not count, but for the reason of a recompilation."""
        # Attempts after the first are of the same function.
        self._starts.setdefault(compile_id, self._places.function_of(entry))
        kept = self._parts.get(compile_id, {})  # the reason comes before the start
        self._parts[compile_id] = {kind: kept[kind] for kind in (Apart.RECOMPILE,) if kind in kept}
        self._communicated.pop(compile_id, None)

    def _step(self, compile_id: str, entry: LogEntry) -> None:
        """Keep which backwards compile."""
        if '"ph": "B"' in entry.payload:
            self._backwards.append(compile_id)
        elif compile_id in self._backwards:
            self._backwards.remove(compile_id)

    def _measure(self, compile_id: str, entry: LogEntry) -> None:
        # The metrics of a backward come much later, and say nothing of the frame.
        if entry.kind == "compilation_metrics":
            self._finished.add(compile_id)
        data = {}
        if isinstance(entry.data, dict):
            data = entry.data
        name, unit = "entire_frame_compile_time_s", 1.0
        if entry.kind.startswith("bwd"):  # torch reports a backward in microseconds
            name, unit = "backward_cumulative_compile_time_us", 1e6
        value = data.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.seconds += value / unit

    def compilations(self) -> Iterator[Digest]:
        """Yield the compilations in order of their start."""
        for compile_id, place in self._starts.items():
            digests = {kind: digest.hexdigest() for kind, digest in sorted(self._parts.get(compile_id, {}).items())}
            # Forward and backward may be scheduled side by side, so that the order of their records is chance.
            listed = self._communicated.get(compile_id, {})
            calls = {kind: tuple(sorted(listed[kind])) for kind in SOURCES if kind in listed}
            yield Digest(compile_id, *place, digests, calls)

    def cut(self, lines: SummaryRecords) -> str:
        """Return the evidence that the log is incomplete; empty if there is none."""
        open_ = [compile_id for compile_id in self._starts if compile_id not in self._finished]
        if not lines.record and not lines.payload:
            return "the log is empty"
        end = lines.end
        if end.startswith((DAMAGED, STOPPED)):
            return end
        # Before the cut line: what was compiling there says more.
        if open_ or self._backwards:
            compile_id = (open_ or self._backwards)[-1]
            if open_:
                what = compile_id
            else:
                what = f"the backward of {compile_id}"
            function, file, line = self._starts.get(compile_id, ("?", "?", 0))
            return f"the log ends while {what} of {function} ({Path(file).name}:{line}) compiles"
        if end:
            return end
        if self._broken:
            if self._broken > 1:
                return f"{self._broken} records cannot be read"
            return "a record cannot be read"
        return ""


def _digest(calls: list[RankItem]) -> str:
    """Return a digest of collectives in order; empty for none."""
    text = "\n".join(item.same for item in calls)
    if calls:
        return hashlib.sha1(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    return ""


def _version(payload: str) -> str:
    try:
        return str(loaded(payload).get("pytorch_version", ""))
    except (ValueError, AttributeError, RecursionError):
        return ""
