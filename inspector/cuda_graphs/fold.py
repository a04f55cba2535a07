"""Combine the log's CUDA graph events into one finding for each graph part."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from ctrace.inspector.log.raw import Raw
from ctrace.inspector.model.cuda_graphs import (
    CudaGraph,
    CudaGraphCalled,
    CudaGraphChecked,
    CudaGraphReason,
    CudaGraphRecorded,
    CudaGraphSkipped,
    CudaGraphStatus,
    Offender,
)
from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.source.stacks import user_lines

_STACK = re.compile(r"[.:]?\s*Found from\s*:.*", re.DOTALL)
"""Torch's text between a reason and its stack (2.11 to 2.15, _inductor/cudagraph_utils.py)."""
_PREFIX = re.compile(r"^(?:skipping|disabling) cudagraphs? due to ")


class _Seen(Struct):
    checked: CudaGraphChecked | None = None
    skipped: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    was_called: bool = False


def cuda_graphs_of(raw: Raw) -> tuple[CudaGraph, ...]:
    """Return the CUDA graph of each graph part that was compiled with CUDA graphs enabled, in compilation order."""
    parts: dict[tuple[str, Stage], _Seen] = {}
    for event in raw.cuda_graphs:
        seen = parts.setdefault((event.id, event.stage), _Seen())
        match event:
            case CudaGraphChecked():
                seen.checked = event
            case CudaGraphSkipped(reason=reason):
                seen.skipped.append(reason)
            case CudaGraphRecorded(sizes=sizes):
                seen.recorded.append(sizes)
            case CudaGraphCalled():
                seen.was_called = True
    return tuple(_folded(graph, stage, seen, raw.prefixes) for (graph, stage), seen in parts.items())


def _folded(graph: str, stage: Stage, seen: _Seen, prefixes: Mapping[str, str]) -> CudaGraph:
    while_compiling = () if seen.checked is None else seen.checked.reasons
    texts = dict.fromkeys((*while_compiling, *seen.skipped))
    offenders = () if seen.checked is None else seen.checked.offenders
    is_run = seen.was_called or bool(seen.recorded)
    return CudaGraph(
        graph=graph,
        stage=stage,
        status=_status(seen, is_skipped=bool(texts)),
        reasons=tuple(_reason(text, prefixes) for text in texts),
        found=tuple(_found(offenders, prefixes)),
        recordings=len(seen.recorded) if is_run else None,
        inputs=tuple(dict.fromkeys(seen.recorded)),
    )


def _status(seen: _Seen, *, is_skipped: bool) -> CudaGraphStatus:
    """Return the status; a part that torch recorded and later gave up on counts as skipped."""
    if is_skipped:
        return CudaGraphStatus.SKIPPED
    return CudaGraphStatus.RECORDED if seen.recorded else CudaGraphStatus.UNKNOWN


def _reason(text: str, prefixes: Mapping[str, str]) -> CudaGraphReason:
    """Split torch's wording into the reason and the user's line."""
    return CudaGraphReason(_PREFIX.sub("", _STACK.sub("", text)).strip() or text, *_place(text, prefixes))


def _found(offenders: tuple[Offender, ...], prefixes: Mapping[str, str]) -> Iterator[CudaGraphReason]:
    yield from dict.fromkeys(CudaGraphReason(each.text, *_place(each.stack, prefixes)) for each in offenders)


def _place(stack: str, prefixes: Mapping[str, str]) -> tuple[str | None, int | None]:
    lines = user_lines((stack,), prefixes)
    if not lines:
        return None, None
    file, _, line = lines[0].rpartition(":")
    return file, int(line)
