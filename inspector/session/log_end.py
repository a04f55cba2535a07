"""Find evidence that a log or a run stops early (`cut_off`), without side effects and without torch.

A log that TORCH_TRACE wrote has no end mark, so only open spans show that it was cut off. Torch opens and closes a span
around each phase of compiling (`dynamo_timed`, _dynamo/utils.py, 2.11 to 2.13; closed in a `finally`, so also if
compiling raises), and writes metrics at the end of each compilation, also of failed ones. Spans that are open in the
thread that wrote the last record were cut off. Between two compilations no span is open, so a cut there leaves no
evidence.
"""

from collections.abc import Iterator
from pathlib import PurePath

from ctrace.inspector.facts.outcome import CutKind, CutOff
from ctrace.inspector.facts.session import (
    Failure,
)
from ctrace.inspector.findings.functions import place_of
from ctrace.inspector.log.collected_log import CollectedLog

_AFTER = "everything after that"


def cut_off(
    raw: CollectedLog, failure: Failure | None, unfinished: str | None, missing: tuple[str, ...]
) -> Iterator[CutOff]:
    """List the evidence, open compilations first.

    Args:
        raw: The log.
        failure: How the program failed, which explains why the log has no end.
        unfinished: What else shows that the run did not finish; empty if the run finished, None if not known.
        missing: Sentences that say what other sources count and the log lacks.
    """
    yield from _unfinished_compilations(raw)
    if not raw.ended:  # a fork that generates code beside the capture ends inside a span
        yield from _spans(raw)
    # With a failure, the process ended before torch could write anything.
    if not raw.records and failure is None:
        yield CutOff(CutKind.EMPTY, "the log is empty", "everything: whether anything was compiled at all")
    yield from _run(raw, failure, unfinished)
    for broken in raw.broken:
        what = f"the trace log cannot be read there: {broken.why}"
        yield CutOff(CutKind.RECORD, what, "the contents of that record", line=broken.number)
    if (left := raw.broken_count - len(raw.broken)) > 0:
        yield CutOff(CutKind.RECORD, f"{left:,} more records of the trace log cannot be read", "their contents")
    if raw.stops_at is not None:
        yield CutOff(CutKind.LINE, "the log stops in the middle of a line", _AFTER, line=raw.stops_at)
    for place, asked in dict.fromkeys((f"{PurePath(each.file).name}:{each.line}", each.asked) for each in raw.stopped):
        yield CutOff(CutKind.VALUE, f"the call stopped at {place}, which asks for {asked}", "the rest of that call")
    for what in missing:
        yield CutOff(CutKind.MISSING, what, "the contents of those records")


def exited(raw: CollectedLog, failure: Failure | None, unfinished: str | None) -> str:
    """Return how a program ended its own process without a failure; empty if it did not."""
    if raw.ended or failure is not None:
        return ""
    if raw.exited is not None:
        return raw.exited.how
    # `os._exit(0)` and the like leave no end mark, although nothing failed.
    if unfinished == "":
        return "exit code 0, without Python's own cleanup"
    return ""


def _run(raw: CollectedLog, failure: Failure | None, unfinished: str | None) -> Iterator[CutOff]:
    """Check that a log of ctrace has its end mark, unless the program ended its own process or crashed."""
    if raw.ended or raw.exited is not None or failure is not None:
        return
    if unfinished:
        yield CutOff(CutKind.RUN, unfinished, _AFTER)
    elif unfinished is None and raw.environment.get("ctrace"):
        yield CutOff(CutKind.RUN, "the log ends before the run did; the rest is not shown", _AFTER)


def _unfinished_compilations(raw: CollectedLog) -> Iterator[CutOff]:
    """Find compilations without metrics."""
    for compile_id in raw.seen:
        if compile_id not in raw.metrics:
            place = place_of(raw, compile_id)
            where = ""
            if place.function:
                where = f" of {place.function} ({PurePath(place.file).name}:{place.begins})"
            what = f"compilation {compile_id}{where} started, and the log ends before it finished"
            yield CutOff(CutKind.COMPILATION, what, "its graph breaks, graphs, guards and kernels", compile_id)


def _spans(raw: CollectedLog) -> Iterator[CutOff]:
    """Find phases that are open at the end of the log, such as a backward, in compilations that are not open."""
    for spans in raw.spans.values():
        for span in spans[:1]:
            # A phase in a compilation that is open is named with it.
            if span.compilation not in raw.seen or span.compilation in raw.metrics:
                of = ""
                if span.compilation:
                    of = f" of {span.compilation}"
                what = f"{span.name.replace('_', ' ')}{of} started, and the log ends before it finished"
                yield CutOff(CutKind.COMPILATION, what, "its graphs and kernels", span.compilation)
