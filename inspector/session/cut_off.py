"""Where a log or a run stops before its end: the evidence of it, piece by piece. Pure, and without torch.

A log that TORCH_TRACE wrote has no end mark, so that only what it leaves open shows a cut. Torch opens and closes a
span around each phase of compiling (`dynamo_timed`, _dynamo/utils.py, 2.11 to 2.13; closed in a `finally`, so also
where compiling raises), and writes metrics when a compilation is over, failed ones too. What was open in the thread
that wrote the last record was cut off. Between two compilations nothing is open, and a cut there shows nothing.
"""

from collections.abc import Iterator
from pathlib import PurePath

from ctrace.inspector.log.raw import Raw
from ctrace.inspector.model.cut_kinds import CutKind, CutOff
from ctrace.inspector.model.outcome import Failure
from ctrace.inspector.source.functions import place_of

_AFTER = "whatever happened after that"


def cut_off(raw: Raw, failure: Failure | None, unfinished: str | None, missing: tuple[str, ...]) -> Iterator[CutOff]:
    """List the evidence, what was being compiled first.

    Args:
        raw: The log.
        failure: How the program failed, which explains that the log has no end.
        unfinished: How it is known from elsewhere that the run did not finish; empty if it did, None if not known.
        missing: What other sources say the log should hold.
    """
    yield from _compilations(raw)
    if not raw.ended:  # forks of a capture, which generate code beside it, end within a span
        yield from _spans(raw)
    if not raw.records and failure is None:
        yield CutOff(CutKind.EMPTY, "the log is empty", "everything: whether anything was compiled at all")
    yield from _run(raw, failure, unfinished)
    for broken in raw.broken:
        what = f"the trace log cannot be read there: {broken.why}"
        yield CutOff(CutKind.RECORD, what, "what that record says", line=broken.number)
    if raw.stops_at is not None:
        yield CutOff(CutKind.LINE, "the log stops in the middle of a line", _AFTER, line=raw.stops_at)
    for what in missing:
        yield CutOff(CutKind.MISSING, what, "what those records said")


def exited(raw: Raw, failure: Failure | None, unfinished: str | None) -> str:
    """Say how a program ended its own process without a failure; empty: it did not."""
    if raw.ended or failure is not None:
        return ""
    if raw.exited is not None:
        return raw.exited.how
    return "exit code 0, without Python's own cleanup" if unfinished == "" else ""


def _run(raw: Raw, failure: Failure | None, unfinished: str | None) -> Iterator[CutOff]:
    """Look for the end of a log of ours; a program that ended itself, or crashed, left none and is known to."""
    if raw.ended or raw.exited is not None or failure is not None:
        return
    if unfinished:
        yield CutOff(CutKind.RUN, unfinished, _AFTER)
    elif unfinished is None and raw.environment.get("ctrace"):
        yield CutOff(CutKind.RUN, "the log ends before the run did; what came after is not shown", _AFTER)


def _compilations(raw: Raw) -> Iterator[CutOff]:
    """Find compilations without metrics."""
    for compile_id in raw.seen:
        if compile_id not in raw.metrics:
            place = place_of(raw, compile_id)
            where = f" of {place.function} ({PurePath(place.file).name}:{place.begins})" if place.function else ""
            what = f"compilation {compile_id}{where} began, and the log does not say its end"
            yield CutOff(CutKind.COMPILATION, what, "its graph breaks, graphs, guards and kernels", compile_id)


def _spans(raw: Raw) -> Iterator[CutOff]:
    """Find phases that are open at the end, such as a backward; those of a compilation that is open say no more."""
    for spans in raw.spans.values():
        for span in spans[:1]:
            if span.compilation not in raw.seen or span.compilation in raw.metrics:
                of = f" of {span.compilation}" if span.compilation else ""
                what = f"{span.name.replace('_', ' ')}{of} began, and the log does not say its end"
                yield CutOff(CutKind.COMPILATION, what, "its graphs and kernels", span.compilation)
