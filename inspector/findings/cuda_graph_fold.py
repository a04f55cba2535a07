"""Combine the log's CUDA graph events into one finding for each graph part."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.cuda_graphs import (
    CudaGraph,
    CudaGraphCalled,
    CudaGraphChecked,
    CudaGraphPartitioned,
    CudaGraphReason,
    CudaGraphRecorded,
    CudaGraphSkipped,
    CudaGraphStatus,
    CudaGraphTimed,
    CudaGraphWarmedUp,
    Offender,
)
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.grouping import grouped
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.stacks import user_lines

_STACK = re.compile(r"[.:]?\s*Found from\s*:?.*", re.DOTALL)
"""Torch's text between a reason and its stack (2.11 to 2.15, _inductor/cudagraph_utils.py)."""
_POINTER = re.compile(r"(?m)^input name: (\S+)\. data pointer changed from (?:\d+|None) to \d+")
"""What torch says of an input that moved (2.11 to 2.15, _inductor/cudagraph_utils.py, log_data_ptr_mismatch)."""
_PREFIX = re.compile(r"^(?:(?:skipping|disabling) cudagraphs? due to )+")


_FORWARD = "torch skipped the CUDA graph of the forward, and then skips that of the backward"
_NONE_LEFT = "nothing of it is left for a CUDA graph: "
_NEVER_TIMED = "the program ended before it could be timed"


class _Seen(Struct):
    checked: CudaGraphChecked | None = None
    partitioned: CudaGraphPartitioned | None = None
    skipped: list[str] = field(default_factory=list)
    warm_ups: list[str] = field(default_factory=list)
    recorded: list[CudaGraphRecorded] = field(default_factory=list)
    timed: list[CudaGraphTimed | CudaGraphRecorded] = field(default_factory=list)
    was_called: bool = False

    def while_compiling(self) -> tuple[str, ...]:
        """Return torch's reasons to skip the part before it runs."""
        if self.checked is not None:
            reasons = self.checked.reasons
        else:
            reasons = ()
        # Torch's check may find nothing, and its partition still cut out every op.
        if not reasons and self.partitioned is not None and not self.partitioned.graphs:
            reasons = (f"{_NONE_LEFT}{', '.join(self.partitioned.reasons)}",)
        return reasons

    def offenders(self) -> tuple[Offender, ...]:
        """Return what torch's check and its partition name as reasons."""
        if self.checked is not None:
            checked = self.checked.offenders
        else:
            checked = ()
        if self.partitioned is None:
            return checked
        return (*checked, *self.partitioned.offenders)


def cuda_graphs_of(raw: CollectedLog) -> tuple[CudaGraph, ...]:
    """Return the CUDA graph of each graph part that was compiled with CUDA graphs enabled, in compilation order."""
    parts: dict[tuple[str, Stage], _Seen] = {}
    for event in raw.cuda_graphs:
        seen = parts.setdefault((event.id, event.stage), _Seen())
        match event:
            case CudaGraphChecked():
                seen.checked = event
            case CudaGraphPartitioned():
                seen.partitioned = event
            case CudaGraphSkipped(reason=reason):
                seen.skipped.append(reason)
            case CudaGraphCalled():
                seen.was_called = True
            case CudaGraphWarmedUp(why=why):
                seen.warm_ups.append(why)
            case CudaGraphRecorded():
                seen.recorded.append(event)
                # Captures of an older ctrace timed a graph at its recording; later ones add a record after the program.
                if event.replay is not None or event.untimed:
                    seen.timed.append(event)
            case CudaGraphTimed():
                seen.timed.append(event)
    # A partition says nothing of a part whose code was generated without CUDA graphs.
    of_cuda_graphs = {key: seen for key, seen in parts.items() if seen.checked or seen.was_called or seen.recorded}
    return tuple(
        _folded(graph, stage, seen, of_cuda_graphs.get((graph, Stage.FORWARD)), raw.prefixes)
        for (graph, stage), seen in of_cuda_graphs.items()
    )


def _folded(graph: str, stage: Stage, seen: _Seen, forward: _Seen | None, prefixes: Mapping[str, str]) -> CudaGraph:
    while_compiling = seen.while_compiling()
    # A skip of the forward disables CUDA graphs for the backward (`BoxedBool.disable`, _inductor/output_code.py, 2.13),
    # of which torch then says nothing.
    if stage is Stage.BACKWARD and not while_compiling and forward is not None and forward.while_compiling():
        while_compiling = (_FORWARD,)
    texts = dict.fromkeys((*while_compiling, *seen.skipped))
    offenders = seen.offenders()
    timed = next((each for each in seen.timed if each.replay is not None), None)
    pools = [each.pool_bytes for each in seen.recorded if each.pool_bytes is not None]
    most = _most_recorded(seen.recorded)
    folded = CudaGraph(
        graph=graph,
        stage=stage,
        status=_status(seen, is_skipped=bool(texts)),
        reasons=tuple(_reason(text, prefixes) for text in texts),
        found=tuple(_found(offenders, prefixes)),
        held_back=tuple(dict.fromkeys(filter(None, seen.warm_ups))),
        was_warmed_up=bool(seen.warm_ups),
        inputs=tuple(dict.fromkeys(each.sizes for each in most)),
        repeats=len(most),
        again=tuple(dict.fromkeys(_moved(each.why, prefixes) for each in seen.recorded if each.why)),
        pool_bytes=pools[-1] if pools else None,
    )
    if seen.was_called or seen.recorded:
        folded = replace(folded, recordings=len(seen.recorded))
    if seen.checked is not None:
        folded = replace(folded, limits=seen.checked.limits)
    if seen.partitioned is not None:
        folded = replace(folded, pieces=seen.partitioned.graphs)
    if timed is None:
        return replace(folded, untimed=_why_untimed(seen))
    return replace(folded, replay=timed.replay, launched=timed.launched)


def _most_recorded(recorded: list[CudaGraphRecorded]) -> list[CudaGraphRecorded]:
    """Return the recordings of the piece that torch recorded most often."""
    # A partitioned part records each of its pieces once, which is no repeated recording of the part.
    pieces = grouped(recorded, lambda each: each.piece)
    return max(pieces.values(), key=len, default=[])


def _why_untimed(seen: _Seen) -> str:
    if not seen.recorded:
        return ""
    return next((each.untimed for each in seen.timed if each.untimed), _NEVER_TIMED)


def _status(seen: _Seen, *, is_skipped: bool) -> CudaGraphStatus:
    """Return the status; a part that torch recorded and later gave up on counts as skipped."""
    if is_skipped:
        return CudaGraphStatus.SKIPPED
    if seen.recorded:
        return CudaGraphStatus.RECORDED
    return CudaGraphStatus.UNKNOWN


def _reason(text: str, prefixes: Mapping[str, str]) -> CudaGraphReason:
    """Split torch's wording into the reason and the user's line."""
    # A reason that consists of the prefix alone is still all that torch says.
    return CudaGraphReason(_PREFIX.sub("", _STACK.sub("", text)).strip() or text, *_place(text, prefixes))


def _moved(text: str, prefixes: Mapping[str, str]) -> CudaGraphReason:
    """Split torch's reason to record again: what changed, and where the first input that moved is used."""
    if text.strip():
        what = text.splitlines()[0].rstrip(".")
    else:
        what = text
    names = list(_POINTER.finditer(text))
    if not names:
        return CudaGraphReason(what)
    first = text[names[0].end() :]
    if len(names) > 1:
        first = text[names[0].end() : names[1].start()]
    return CudaGraphReason(f"{what}: {', '.join(each[1] for each in names)}", *_place(first, prefixes))


def _found(offenders: tuple[Offender, ...], prefixes: Mapping[str, str]) -> Iterator[CudaGraphReason]:
    yield from dict.fromkeys(CudaGraphReason(each.text, *_place(each.stack, prefixes)) for each in offenders)


def _place(stack: str, prefixes: Mapping[str, str]) -> tuple[str | None, int | None]:
    lines = user_lines((stack,), prefixes)
    if not lines:
        return None, None
    file, _, line = lines[0].rpartition(":")
    return file, int(line)
