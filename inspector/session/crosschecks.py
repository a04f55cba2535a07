"""Compare the sources of a run with each other, and report where two disagree: no single source is always right.

Reports show the entries of torch's structured trace. This module compares them with Dynamo's counters
(`torch._dynamo.utils.counters`, 2.11 and 2.13), with the metrics of each compilation, and with Dynamo's resume
functions, each of which resumes from a break.

The failed guards that ctrace found are to include the guard that torch names first (`unexplained`). Torch's reasons
come from `get_guard_fail_reason_helper` (_dynamo/guards.py, 2.11 to 2.13), which stops at the first failed guard of an
entry and writes `L['x']` as `x`.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from ctrace.inspector.facts.bytecode_facts import GraphMade
from ctrace.inspector.facts.guard_facts import EntryHeld
from ctrace.inspector.findings.breaks.break_fold import CONSEQUENCE, Report
from ctrace.inspector.findings.functions import place_of
from ctrace.inspector.findings.graphs.checked_passes import miscounted
from ctrace.inspector.findings.guard_tree import EXPECTED_TENSOR, PARAMETER_HINT, TENSOR
from ctrace.inspector.findings.kernels.kernel_fold import miscounted_kernels
from ctrace.inspector.knowledge.counting import count
from ctrace.inspector.log.collected_log import CollectedLog

_REASON = re.compile(r"\S+/(?P<entry>\d+): (?P<guard>.*)")
_LOCAL = re.compile(r"L\[\s*['\"](.*?)['\"]\s*\]")
_ONE_CHECK = {"dispatch key set": "device", "layout": "device"}
"""Torch compares dispatch keys, which include device and layout."""
_MARK = re.compile(r"_dynamo_\w+_indices|_dynamo_shape_ids|_dynamo_unbacked_bounds")
_SENTENCES = (
    ("GLOBAL_STATE changed: ", "state"),
    ("BACKEND_MATCH failure", "backend"),
    ("Duplicate tensor", "duplicate"),
)
_NO_VALUE = ("getattr failed on source ", "KeyError on ")


def unexplained(raw: CollectedLog) -> Iterator[str]:
    """Yield a sentence for each recompilation for which ctrace did not find the failed guard that torch names."""
    for compile_id, failed in raw.unmet.items():
        reason = _REASON.match(next(iter(raw.reasons.get(compile_id, ())), ""))
        if reason is None:
            continue
        entry = next((each for each in failed.entries if each.id.rpartition("/")[2] == reason["entry"]), None)
        if entry is not None and not entry.invalid and not _is_found(reason["guard"], entry):
            yield (
                f"recompile {compile_id}: torch names `{_code(reason['guard'])}` of entry {entry.id} first, but the "
                f"guards that ctrace checked do not include it; its causes may be incomplete"
            )


def _is_found(guard: str, entry: EntryHeld) -> bool:
    about = _about(guard)
    found = {_about(each) for each in (*(unmet.text for unmet in entry.unmet), *entry.following)}
    # With guards that the record only counts, torch's may be among these.
    return about is None or about in found or len(entry.unmet) < entry.number


def _about(guard: str) -> tuple[str, ...] | None:
    """Return one form of a guard for torch's text and ctrace's; None if the text is an error and not a guard."""
    text = _LOCAL.sub(r"\1", _code(guard))
    if match := TENSOR.match(text):
        return match["name"], _ONE_CHECK.get(match["what"], match["what"]), match["index"] or ""
    if match := EXPECTED_TENSOR.match(text):
        return match["name"], "type"
    if match := _MARK.search(text):
        return ("mark", match[0])
    for begin, kind in _SENTENCES:
        if text.startswith(begin):
            return (kind,)
    if text.startswith(_NO_VALUE):
        return ("missing",)
    if _TWO.fullmatch(text):
        return ("duplicate",)
    return _expression(text)


_TWO = re.compile(r"\S+ is not \S+(?<! None)")


def _expression(text: str) -> tuple[str, ...] | None:
    try:
        # After `, type=` torch writes a class or an object, which is no Python.
        ast.parse(text.partition(", type=")[0], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the text comes from an untrusted log
        return None
    return ("code", re.sub(r"\s", "", text))


def _code(guard: str) -> str:
    return guard.partition("  # ")[0].partition(PARAMETER_HINT)[0].strip()


_GB = re.compile(r"/gb/gb(\d+)\.html", re.IGNORECASE)


def missing(raw: CollectedLog, reports: tuple[Report, ...]) -> Iterator[str]:
    """Yield a sentence for each source that counts breaks, graphs or functions that the entries do not show."""
    yield from _breaks_and_counters(raw, reports)
    yield from _breaks_and_resume_functions(raw, reports)
    yield from _graphs_and_counters(raw)
    yield from _graphs_and_metrics(raw)
    yield from _failures_and_frames(raw)


def disagreements(raw: CollectedLog, reports: tuple[Report, ...]) -> Iterator[str]:
    """Yield a sentence for each disagreement of two sources, with both numbers; missing entries come first."""
    yield from missing(raw, reports)
    if raw.unmet:
        yield from unexplained(raw)
    yield from miscounted(raw)
    yield from miscounted_kernels(raw)


def _breaks_and_counters(raw: CollectedLog, reports: tuple[Report, ...]) -> Iterator[str]:
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


def _breaks_and_resume_functions(raw: CollectedLog, reports: tuple[Report, ...]) -> Iterator[str]:
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


def _graphs_and_counters(raw: CollectedLog) -> Iterator[str]:
    """Compare graph entries with the counter `unique_graphs` (_dynamo/output_graph.py, 2.11 and 2.13).

    A graph has an entry but no count if its attempt restarted after the backend got the graph, or if the program
    cleared the counters later.
    """
    counted = None
    if raw.counted:
        counted = raw.counted.stats.get("unique_graphs")
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


def _graphs_and_metrics(raw: CollectedLog) -> Iterator[str]:
    """Compare graph entries with metrics: a compilation whose metrics count ops has a graph, unless it failed."""
    for compile_id, measured in raw.metrics.items():
        if measured.ops and not measured.fail_type and compile_id not in raw.graphs:
            ops = count(measured.ops, "op")
            yield f"compilation {compile_id}: its metrics count {ops} in its graph, the trace has no graph"


def _failures_and_frames(raw: CollectedLog) -> Iterator[str]:
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
