"""Write times as JSON, in seconds, and memory in bytes; null means not measured."""

from typing import Any

from ctrace.inspector.features.time.events import Compiled, Setup, SharesMeasured
from ctrace.inspector.features.time.timing_differences import SpeedDifference, differences
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, TimedPart, Timings
from ctrace.inspector.features.time.timing_view import break_even, kernels_a_call, ranking
from ctrace.inspector.findings.ratios import Interval, RatioVerdict, SpeedComparison
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_timing_json(timings: Timings) -> Document:
    """Return the times of one configuration; the properties before `scenarios` are about its first part."""
    measured = timings.configurations[0]
    return json_document({"schema": SCHEMA, "target": timings.target, **configuration_data(measured)})


def render_table_json(timings: Timings) -> Document:
    """Return the times of several configurations, the best configuration, and why the others are slower."""
    found = ranking(timings)
    return json_document(
        {
            "schema": SCHEMA,
            "target": timings.target,
            "best": found.best,
            "tied": list(found.tied),
            "eager_noise": found.noise,
            "configurations": [configuration_data(each) for each in timings.configurations],
            "differences": [_difference(each) for each in differences(timings)],
        }
    )


def configuration_data(measured: MeasuredConfiguration) -> dict[str, Any]:
    """Return one configuration."""
    return {
        "name": measured.configuration.name,
        "mode": measured.configuration.mode,
        "backend": measured.configuration.backend,
        "options": dict(measured.configuration.options),
        **_first_part(measured.first),
        "compile_seconds": measured.compile_seconds,
        "warm_compile_seconds": measured.warm_seconds,
        "break_even_calls": break_even(measured),
        "peak_memory": None if measured.first is None else _peaks(measured.first),
        "scenarios": [_part(each) for each in measured.parts],
        "shares": [_shares(each) for each in measured.shares],
        **_counts(measured.compiled),
        "kernels": kernels_a_call(measured),
        "cuda_graphs": None if measured.compiled is None else _cuda_graphs(measured),
        "difference_from_eager": [
            {"scenario": each.scenario, "relative": each.difference, "why": each.why or None}
            for each in measured.differences
        ],
        **_machine(measured.setup),
        "load": measured.load,
        "stopped": measured.stopped or None,
        "autotuning_log": list(measured.printed),
        "failures": [
            {
                "phase": each.phase,
                "type": each.type,
                "message": each.message,
                "scenario": each.scenario,
                "file": each.file,
                "line": each.line,
                "fix": each.todo or None,
            }
            for each in measured.failures
        ],
        "notes": [{"scenario": each.scenario or None, "kind": each.kind} for each in measured.notes],
    }


def _first_part(part: TimedPart | None) -> dict[str, Any]:
    if part is None:
        return {"scenario": None, "eager": None, "compiled": None, "speedup": None}
    return {
        "scenario": part.scenario,
        "eager": _interval(part.eager),
        "compiled": _interval(part.compiled),
        "speedup": _speedup(part.speedup),
    }


def _counts(compiled: Compiled | None) -> dict[str, Any]:
    if compiled is None:
        return {"graphs": None, "breaks": None}
    return {"graphs": compiled.graphs, "breaks": compiled.breaks}


def _machine(setup: Setup | None) -> dict[str, Any]:
    if setup is None:
        return {"device": None, "threads": None, "cores": None, "torch": None, "python": None}
    return {
        "device": setup.device,
        "threads": setup.threads,
        "cores": setup.cores,
        "torch": setup.torch,
        "python": setup.python,
    }


def _interval(found: Interval | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"median": found.median, "low": found.low, "high": found.high, "rounds": found.rounds}


def _speedup(found: SpeedComparison | None) -> dict[str, Any] | None:
    if found is None:
        return None
    ratio, verdict = found.ratio, RatioVerdict(found.verdict)
    return {
        "median": ratio.median,
        "low": ratio.low,
        "high": ratio.high,
        "rounds": ratio.rounds,
        "confidence": ratio.confidence,
        "verdict": str(verdict),
    }


def _peaks(part: TimedPart) -> dict[str, Any]:
    return {"eager": part.eager_peak, "compiled": part.compiled_peak}


def _part(part: TimedPart) -> dict[str, Any]:
    return {
        "name": part.scenario,
        "part": part.part,
        "eager": _interval(part.eager),
        "compiled": _interval(part.compiled),
        "speedup": _speedup(part.speedup),
        "peak_memory": _peaks(part),
        "warm_up": [
            {
                "side": each.side,
                "calls": len(each.seconds),
                "compiling": len(each.compiled),
                "recordings": each.recorded,
                "settled": each.settled,
            }
            for each in part.warm_ups
        ],
        "rounds_that_compiled": part.unclean,
    }


def _shares(each: SharesMeasured) -> dict[str, Any]:
    return {
        "scenario": each.scenario,
        "part": each.part,
        "side": each.side,
        "profiled_call": each.call,
        "guards": each.guards,
        "runtime": each.runtime,
        "wrapper": each.wrapper,
        "launches": each.launches,
        "ops": each.ops,
        "kernels": each.kernels,
        "gaps": each.gaps,
        "launched": each.launched,
        "kernel_list": [
            {"name": kernel.name, "times": kernel.times, "seconds": kernel.seconds} for kernel in each.kernel_list
        ],
    }


def _cuda_graphs(measured: MeasuredConfiguration) -> dict[str, Any] | None:
    made = measured.compiled
    if made is None:
        return None
    return {
        "status": made.cuda_graphs,
        "recordings": made.recordings,
        "pool_bytes": made.pool,
        "reasons": [{"text": each.reason, "times": each.times} for each in made.skips],
    }


def _difference(each: SpeedDifference) -> dict[str, Any]:
    return {
        "best": each.best,
        "other": each.other,
        "seconds": each.gap,
        "reasons": [{"kind": one.kind, "text": one.text, "seconds": one.seconds} for one in each.reasons],
    }
