"""Compare the sources of a run with each other, and report where two disagree: no single source is always right.

Reports show the entries of torch's structured trace. This module compares them with Dynamo's counters
(`torch._dynamo.utils.counters`, 2.11 and 2.13), with the metrics of each compilation, and with Dynamo's resume
functions, each of which resumes from a break.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from ctrace.inspector.facts.events.tracing import GraphMade
from ctrace.inspector.findings.breaks.break_fold import Report
from ctrace.inspector.findings.breaks.torch_report import CONSEQUENCE
from ctrace.inspector.findings.functions import place_of
from ctrace.inspector.findings.graphs.checked_passes import miscounted
from ctrace.inspector.findings.kernels.kernel_crosscheck import miscounted_kernels
from ctrace.inspector.knowledge.words.counting import count
from ctrace.inspector.log.raw import Raw

_GB = re.compile(r"/gb/gb(\d+)\.html", re.IGNORECASE)


def missing(raw: Raw, reports: tuple[Report, ...]) -> Iterator[str]:
    """Yield a sentence for each source that counts breaks, graphs or functions that the entries do not show."""
    yield from _breaks_and_counters(raw, reports)
    yield from _breaks_and_resume_functions(raw, reports)
    yield from _graphs_and_counters(raw)
    yield from _graphs_and_metrics(raw)
    yield from _failures_and_frames(raw)


def disagreements(raw: Raw, reports: tuple[Report, ...]) -> Iterator[str]:
    """Yield a sentence for each disagreement of two sources, with both numbers; missing entries come first."""
    yield from missing(raw, reports)
    if raw.unmet:
        from ctrace.inspector.findings.recompiles.recompile_crosscheck import (
            unexplained,  # slow to import, and few runs recompile
        )

        yield from unexplained(raw)
    yield from miscounted(raw)
    yield from miscounted_kernels(raw)


def _breaks_and_counters(raw: Raw, reports: tuple[Report, ...]) -> Iterator[str]:
    """Compare break entries with the counter: torch logs every break that it counts, but does not count all breaks."""
    if raw.counted is None:
        return
    counted = _by_gb(raw.counted.graph_break)
    reported = Counter(id_ for report in reports for id_ in report.parsed.gb)
    for id_, number in counted.items():
        if number > reported[id_]:
            yield (
                f"graph breaks {id_}: torch's counter graph_break says {number}, the break entries of the trace "
                f"{reported[id_]}; some breaks may be missing here"
            )


def _by_gb(counts: Mapping[str, int]) -> Counter[str]:
    """Sum up a counter for each group of gb ids; the counter's keys are torch's messages, which contain the ids."""
    by_gb: Counter[str] = Counter()
    for message, number in counts.items():
        # Torch appends a second break that it met while it handled the first, which the break entries do not count.
        for digits in dict.fromkeys(_GB.findall(message.partition(CONSEQUENCE)[0])):
            by_gb[f"GB{digits}"] += number
    return by_gb


def _breaks_and_resume_functions(raw: Raw, reports: tuple[Report, ...]) -> Iterator[str]:
    """Compare break entries with resume functions: each one exists because of a break in the function it resumes."""
    broken = {(frame.file, frame.function) for report in reports for frame in report.parsed.frames}
    # Torch leaves out a caller with the name of what it calls (exc.py:collapse_resume_frames, 2.13), such as an
    # __init__ that calls that of its base class; the entry is then one of the caller's compilation.
    compiled = [place_of(raw, report.compilation) for report in reports]
    broken |= {(place.file, place.function) for place in compiled}
    orphans, resumed = set(), set()
    for compile_id in raw.seen:
        place = place_of(raw, compile_id)
        if place.resumes_at is None:
            continue
        resumed.add((place.file, place.function))
        if (place.file, place.function) not in broken:
            orphans.add(f"{place.function} resumes at {place.file}:{place.resumes_at}")
    if raw.changed_count:  # a redaction of payloads alone leaves other names in break entries than in headers
        loose = sum(all((each.file, each.function) not in resumed for each in one.parsed.frames) for one in reports)
        if len(orphans) <= loose:
            return
    for orphan in sorted(orphans):
        yield f"{orphan}, but the trace has no break entry for that function; a break is missing here"


def _graphs_and_counters(raw: Raw) -> Iterator[str]:
    """Compare graph entries with the counter `unique_graphs` (_dynamo/output_graph.py, 2.11 and 2.13).

    A graph has an entry but no count if its attempt restarted after the backend got the graph, or if the program
    cleared the counters later.
    """
    counted = raw.counted.stats.get("unique_graphs") if raw.counted else None
    if counted is None:
        return
    made = [graph for each in raw.graphs.values() for graph in each]
    handed = sum(isinstance(graph, GraphMade) for graph in made)
    entries = len(made) - handed
    if entries != handed or counted > entries:
        yield (
            f"graphs: torch's counter unique_graphs says {counted}, the trace has {entries} graph entries, "
            f"and {handed} were handed to a backend"
        )


def _graphs_and_metrics(raw: Raw) -> Iterator[str]:
    """Compare graph entries with metrics: a compilation whose metrics count ops has a graph, unless it failed."""
    for compile_id, measured in raw.metrics.items():
        if measured.ops and not measured.fail_type and compile_id not in raw.graphs:
            ops = count(measured.ops, "op")
            yield f"compilation {compile_id}: its metrics count {ops} in its graph, the trace has no graph"


def _failures_and_frames(raw: Raw) -> Iterator[str]:
    """Compare failures with the counter `frames`: a failed frame has metrics, unless Dynamo did not start on it."""
    if raw.counted is None or "total" not in raw.counted.frames:
        return
    failed = raw.counted.frames["total"] - raw.counted.frames.get("ok", 0)
    in_metrics = sum(bool(measured.fail_type) for measured in raw.metrics.values())
    not_started = sum(left.rule == "generator" for left in raw.left)
    if failed > in_metrics + not_started:
        yield (
            f"functions that run eagerly: torch's counter frames says that {failed} failed, "
            f"the metrics of compilations show {in_metrics}, and {not_started} were generators"
        )
