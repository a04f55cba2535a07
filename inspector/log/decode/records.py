"""Decode ctrace's own records: each is one Struct, declared as `facts/wire.py` says."""

import re
from collections.abc import Callable
from functools import cache, reduce
from operator import or_
from typing import Any, cast

from msgspec import MsgspecError, Struct, ValidationError, convert
from msgspec.json import Decoder
from msgspec.structs import force_setattr

from ctrace.inspector.facts.autotuning import AutotuningRecord
from ctrace.inspector.facts.built import Built, Gpu, KernelChosen, KernelCode, KernelRefusal, LaunchTiming
from ctrace.inspector.facts.compile_time import CacheUse, EarlierKey, Speed
from ctrace.inspector.facts.cuda_graphs import CudaGraphEvent
from ctrace.inspector.facts.events import run, tracing
from ctrace.inspector.facts.events.compile_time import CacheKeyed, CacheStored, OwnCacheAsked
from ctrace.inspector.facts.events.fusion import FusionRecord
from ctrace.inspector.facts.events.guards import GuardsFailed, GuardsPlaced
from ctrace.inspector.facts.events.kernels import KernelMade, PartGenerated
from ctrace.inspector.facts.events.scenarios import DangerFound, ScenarioDone
from ctrace.inspector.facts.events.shapes import ShapesSeen
from ctrace.inspector.facts.guards import GuardCost
from ctrace.inspector.facts.kernels import KernelCall
from ctrace.inspector.facts.outcome import Failure
from ctrace.inspector.facts.passes import AttentionFound, Pass
from ctrace.inspector.facts.target import DeviceQuestion, Undecided
from ctrace.inspector.facts.trial import Tried
from ctrace.inspector.facts.user_kernels import UserKernel, UserKernelWritten
from ctrace.inspector.facts.wire import Record, header_field
from ctrace.inspector.log.fields import loaded
from ctrace.inspector.log.limits import refuse_many_values
from ctrace.inspector.log.reader import Entry

OUR_RECORDS: tuple[type[Record], ...] = (
    run.Started, run.TorchFound, run.ModeChosen, run.DeviceUsed, run.Planned, run.CallBegan, run.EagerCall,
    run.DangersWithdrawn, run.OpsCounted, run.FrameLeft, run.PartsSeen, run.Listing,
    run.FilesFound, run.InductorGuardsSeen,
    run.CodegenStarted, run.CodegenEnded, run.CodegenFailed, run.Counted, run.ProgramExited, run.ProblemMet, run.Ended,
    Failure, tracing.GraphMade, tracing.ModulesSeen, tracing.LoopsUnrolled, tracing.BytecodeSeen, GuardsFailed,
    GuardsPlaced, GuardCost, ShapesSeen, ScenarioDone, DangerFound, Tried, OwnCacheAsked, CacheStored, CacheKeyed,
    CacheUse, EarlierKey, Speed, Undecided, DeviceQuestion,
    Pass, AttentionFound, FusionRecord, AutotuningRecord, CudaGraphEvent, KernelMade, PartGenerated, KernelCall,
    UserKernel, UserKernelWritten,
    Built, KernelChosen, KernelCode, KernelRefusal, LaunchTiming, Gpu,
)  # fmt: skip
"""Every record that the hooks of ctrace write."""


def compile_id(entry: Entry) -> str:
    """Return the compilation that an entry belongs to.

    Raises:
        ValueError: it belongs to none.
    """
    if entry.compile_id is None:
        msg = f"{entry.kind} without a compile id"
        raise ValueError(msg)
    return entry.compile_id


def read_record(kind: type[Record], entry: Entry) -> Record:
    """Decode the payload of an entry, and add the compilation that its first line names.

    Raises:
        ValueError, RecursionError: it does not have the form of its kind.
    """
    if not kind.__struct_fields__:
        return kind()
    form = _form(kind)
    refuse_many_values(entry.payload)
    try:
        record: Record = form.decode(entry.payload)
    except (MsgspecError, UnicodeError):
        # Takes more: NaN where no field is, and lone surrogates.
        record = _converted(loaded(entry.payload), kind, form.type)
    if form.header:
        force_setattr(record, form.header, compile_id(entry) if form.needs_compilation else entry.compile_id)
    return record


# msgspec has no other way to say which field is null than the text of its error (0.22).
_EMPTY = re.compile(
    r"(?:Expected `(?:str|int)`, got `null`|Invalid enum value '(?P<text>)') - at `\$(?P<path>[^`]*)\.(?P<name>\w+)`"
)


def _converted(data: Any, kind: type[Record], type_: Any) -> Record:
    """Convert the JSON of a record; null for a text or a count means that it is missing, as in logs of any version.

    So does an empty text where only some words are possible. A kind that refuses unknown fields refuses these, too.
    """
    if kind.__struct_config__.forbid_unknown_fields:
        return cast("Record", convert(data, type_))
    while True:
        try:
            return cast("Record", convert(data, type_))
        except ValidationError as error:
            found = _EMPTY.search(str(error))
            if found is None:
                raise
            path = re.findall(r"[a-z_]\w*|\[", found["path"])
            if not _drop(data, path, found["name"], found["text"]):
                raise


def _drop(data: Any, path: list[str], name: str, value: str | None) -> int:
    """Remove fields of a name and value at a path, in which `[` stands for each item; return how many there were."""
    if path and path[0] == "[" and isinstance(data, list):
        return sum(_drop(item, path[1:], name, value) for item in data)
    if not isinstance(data, dict):
        return 0
    if path:
        return _drop(data.get(path[0]), path[1:], name, value)
    if name not in data or data[name] != value:
        return 0
    del data[name]
    return 1


class _Form(Struct, frozen=True):
    """How records of a kind are read."""

    type: Any
    """The kind; if its records have several forms, each a subclass with its tag, the union of these."""
    decode: Callable[[str], Any]
    header: str
    """The field that the first line fills; empty: there is none."""
    needs_compilation: bool


@cache
def _form(kind: type[Record]) -> _Form:
    """Return how records of a kind are read; made on first use, since a run has few kinds."""
    header, needs_compilation = header_field(kind)
    type_: Any = reduce(or_, kind.__subclasses__() if kind.__struct_config__.tag_field else [kind])
    return _Form(type_, Decoder(type_).decode, header, needs_compilation)
