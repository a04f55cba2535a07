"""Write the reports of `explain --json` and `breaks --json`; other reports in this folder use its helpers.

The helpers are `SCHEMA`, the version of these reports, and functions that turn shared records, such as causes and
advice, into plain data. Names are fixed: new ones may come, old ones never change.
"""

from typing import Any

from ctrace.inspector.facts.compile_time import Speed
from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.facts.findings import Advice, Break, Cause, Cost, Danger, Frame, Owner, Recompile, Skip
from ctrace.inspector.facts.scenario_facts import Comparison
from ctrace.inspector.facts.session import Coverage, Failure, Function, Scenario, Session, TorchRecord
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.facts.trial import LaterCalls, later_calls_of
from ctrace.inspector.findings.breaks.break_view import RankedBreak, ranked
from ctrace.inspector.findings.compile_time.compile_metrics import all_metrics
from ctrace.inspector.findings.graphs.cuts import Cut, cuts
from ctrace.inspector.findings.kernels.kernel_view import KernelOfPart, rows
from ctrace.inspector.findings.scenarios.scenario_view import recompiles_in
from ctrace.inspector.findings.shapes.shape_view import violations
from ctrace.inspector.knowledge.advice import AdviceEntry
from ctrace.inspector.session.summary import LEFT_OUT
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.diagnosis_json import advice_on, diagnosis_data
from ctrace.reports.json.fusion_summary import fusion_data
from ctrace.reports.json.passes_json import attention_data
from ctrace.reports.json.printer import SCHEMA
from ctrace.reports.json.target_json import WORK, emitted, target_data, unknown_data


def render_json(session: Session) -> Document:
    """Write the report, indented, with a final newline."""
    return json_document(as_data(session))


def as_data(session: Session) -> dict[str, Any]:
    """Return the report as plain data."""
    environment = session.environment
    cwd = environment.cwd
    found = cuts(session)
    return {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "environment": {
            "ctrace": environment.ctrace,
            "torch": environment.torch,
            "triton": environment.triton,
            "python": environment.python,
            "device": environment.device,
            "backend": environment.backend,
            "built": environment.built,
            "fast": environment.fast,
            "not_looked_at": list(LEFT_OUT if environment.fast else ()),
            "target_gpu": target_data(session),
        },
        "target": {"path": session.target.path, "name": session.target.name, "args": list(session.target.args)},
        "error": _failure(session.failure, cwd, violations(session)),
        "incomplete": incomplete_data(session),
        "exited": session.exited or None,
        "scenarios": [_scenario(each, session) for each in session.scenarios],
        "graphs": [
            {
                "id": graph.id,
                "function": graph.function,
                "file": fmt.relative(graph.file, cwd),
                "line": graph.line,
                "ops": graph.ops,
                "cut_by": [_cut(each) for each in found if each.before == graph.id],
            }
            for graph in session.graphs
        ],
        "unrolled": [
            {
                "file": fmt.relative(each.file, cwd),
                "line": each.line,
                "function": each.function,
                "times": each.times,
                "ops": each.ops,
                "graph": each.graph,
            }
            for each in session.unrolled
        ],
        "attention": attention_data(session),
        "compilations": [
            {
                "id": each.id,
                "function": each.function,
                "file": fmt.relative(each.file, cwd),
                "line": each.line,
                "guards": each.guards,
                "bytecode": each.bytecode and {"before": each.bytecode.before, "after": each.bytecode.after},
                "attempts": each.attempts,
                "seconds": each.seconds,
            }
            for each in session.compilations
        ],
        "coverage": _coverage(session.coverage),
        "functions": [_function(each, cwd) for each in session.functions],
        "breaks": [_break(each, cwd) for each in session.breaks],
        "skipped": [_skip(each, cwd) for each in session.skips],
        "recompiles": [recompile_data(each, cwd) for each in session.recompiles],
        "dangers": None if session.compared is None else [_danger(each, cwd) for each in session.dangers],
        "limit": {
            "hit": session.limit.hit,
            "functions": [
                {"function": use.function, "used": use.used, "of": use.of} for use in session.limit.functions
            ],
        },
        "outlook": _outlook(later_calls_of(session.trials)),
        "fusion": fusion_data(session),
        "kernels": [kernel_data(row, cwd) for row in rows(session)],
        **unknown_data(session),
        "time": {
            "basis": str(Basis.MEASURED),
            "total": session.time.total,
            "phases": dict(session.time.phases),
            "advice": sum(each.seconds for each in session.trials) if session.trials else None,
        },
        "speed": None if session.speed is None else speed_data(session.speed),
        **diagnosis_data(session),
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
        "unknown": dict(session.unknown),
        "not_shown": dict(session.not_shown),
        "records": [_record(each) for each in session.records],
        "metrics": _metrics(session),
    }


_LONGEST_RECORD = 20_000


def _beginning(text: str) -> str:
    return text[:_LONGEST_RECORD]


def _record(each: TorchRecord) -> dict[str, Any]:
    """Return a record of torch; `length` is that of the whole text."""
    text = each.text
    return {
        "name": each.name,
        "compilation": each.compilation,
        "line": each.line,
        "text": _beginning(text),
        "length": len(text),
    }


def _metrics(session: Session) -> dict[str, Any]:
    """Return all of torch's metrics; a text that many compilations share is in `texts`, and they have its number."""
    found = all_metrics(session)
    return {
        "compilations": [
            {
                "compilation": each.graph,
                "part": "backward" if each.is_backward else "forward",
                "values": dict(each.values),
                "texts": dict(each.texts),
                "unknown": list(each.unknown),
            }
            for each in found.compilations
        ],
        "texts": list(found.texts),
    }


def speed_data(found: Speed) -> dict[str, Any]:
    """Return compiled against eager; `speedup` is null if it was not measured, and `why` says why."""
    return {
        "verdict": found.verdict,
        "scenario": found.scenario or None,
        "part": found.part or None,
        "eager": found.eager,
        "compiled": found.compiled,
        "speedup": None
        if found.ratio is None
        else {"median": found.ratio, "low": found.low, "high": found.high, "rounds": found.rounds},
        "why": found.why or None,
        "measuring_seconds": found.cost,
    }


def incomplete_data(session: Session) -> list[dict[str, Any]]:
    """Return the evidence that the log is incomplete as plain data."""
    return [
        {"kind": str(each.kind), "what": each.what, "unknown": each.unknown, "compilation": each.compilation}
        for each in session.cut_off
    ]


def render_breaks_json(session: Session, owner: Owner | None) -> Document:
    """Write the breaks, the costliest first, and the functions that run eagerly, indented, with a final newline."""
    cwd = session.environment.cwd
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "coverage": _coverage(session.coverage),
        "breaks": [_ranked(each, session) for each in ranked(session, owner)],
        "advice": advice_on(session, Finding.BREAK, Finding.SKIP),
        "skipped": [_skip(each, cwd) for each in session.skips],
        "functions": [_function(each, cwd) for each in session.functions],
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def _ranked(each: RankedBreak, session: Session) -> dict[str, Any]:
    """Return a break with its index in `explain`, its call paths, and its cost with the skips that it causes."""
    cwd = session.environment.cwd
    paths = [[_at(frame, cwd) for frame in path] for path in each.at.paths]
    number = session.breaks.index(each.at)
    return {**_break(each.at, cwd), "break": number, "cost_with_skips": _cost(each.cost), "paths": paths}


def _failure(failure: Failure | None, cwd: str, because: tuple[str, ...]) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "phase": str(failure.phase),
        "type": failure.type,
        "message": failure.message,
        "file": failure.file and fmt.relative(failure.file, cwd),
        "line": failure.line,
        "because": list(because),
    }


def _scenario(each: Scenario, session: Session) -> dict[str, Any]:
    return {
        "name": each.name,
        "calls": each.calls,
        **_coverage(each.coverage),
        "kind": str(each.kind),
        "outcome": str(each.outcome),
        "message": each.message or None,
        "recompiles": len(recompiles_in(session, each)),
        "compared": each.compared,
        "not_compared": each.not_compared or None,
        **_comparison(each.comparison),
    }


def _outlook(each: LaterCalls | None) -> dict[str, Any] | None:
    """Return what more calls did than those of `scenarios`; null if they were not made."""
    if each is None:
        return None
    return {
        "calls": each.calls,
        "graphs": each.graphs,
        "recompiles": each.recompiles,
        "limit_hit": each.limit_hit,
    }


def _comparison(each: Comparison | None) -> dict[str, Any]:
    return {
        "rule": each and str(each.rule),
        "eager_error": each and each.eager_error,
        "compiled_error": each and each.compiled_error,
        "no_reference": (each.no_reference or None) if each else None,
    }


def _danger(each: Danger, cwd: str) -> dict[str, Any]:
    return {
        "scenario": each.scenario,
        "call": each.call,
        "calls": each.calls,
        "kind": each.kind,
        "subject": each.subject or None,
        "was": each.was,
        "now": each.now,
        "file": each.file and fmt.relative(each.file, cwd),
        "line": each.line,
        "difference": each.difference,
        "proven": each.proven,
        "why": each.why,
        "fix": each.fix,
        **_comparison(each.comparison),
    }


def _break(each: Break, cwd: str) -> dict[str, Any]:
    return {
        "gb": list(each.gb),
        "kind": str(each.kind),
        "owner": str(each.owner),
        "file": fmt.relative(each.file, cwd),
        "line": each.line,
        "function": each.function,
        "place": _at(each.place, cwd),
        "reached_from": [_at(line.at, cwd) for line in each.user_lines],
        "source": each.source,
        "reason": each.reason,
        "fix": each.fix,
        "times": each.times,
        "compilations": list(each.compilations),
        "expression": each.expression,
        "columns": each.span and list(each.span),
        "cost": _cost(each.cost),
        "advice": advice_data(each.advice),
    }


def _at(frame: Frame, cwd: str) -> dict[str, Any]:
    return {"file": fmt.relative(frame.file, cwd), "line": frame.line, "function": frame.function}


def _skip(skip: Skip, cwd: str) -> dict[str, Any]:
    return {
        "function": skip.function,
        "file": fmt.relative(skip.file, cwd),
        "line": skip.line,
        "reason": skip.reason,
        "break": skip.break_index,
        "rule": skip.rule,
        "fix": skip.fix,
        "cost": _cost(skip.cost),
    }


def _function(function: Function, cwd: str) -> dict[str, Any]:
    return {
        "function": function.name,
        "file": fmt.relative(function.file, cwd),
        "line": function.line,
        "graphs": function.graphs,
        "asked_for": function.compiled_for_itself,
        **_coverage(function.coverage),
    }


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {"ops": coverage.ops, "compiled": coverage.compiled}


def _cost(cost: Cost) -> dict[str, Any]:
    return {"ops": cost.ops, "graphs": cost.graphs}


def advice_data(advice: Advice | AdviceEntry) -> dict[str, Any]:
    """Return the code and the switch of a piece of advice as plain data."""
    return {"before": advice.before, "after": advice.after, "switch": advice.switch, "risk": advice.risk}


def recompile_data(each: Recompile, cwd: str) -> dict[str, Any]:
    """Return a recompilation as plain data."""
    return {
        "compilation": each.compilation,
        "function": each.function,
        "file": fmt.relative(each.file, cwd),
        "line": each.line,
        "expected": each.expected,
        "why_expected": each.why_expected,
        "scenario": each.scenario,
        "call": each.call,
        "nearest": each.nearest,
        "shared_by": each.shared_by or None,
        "causes": [cause_data(cause, cwd) for cause in each.causes],
    }


def cause_data(cause: Cause, cwd: str) -> dict[str, Any]:
    """Return a cause as plain data."""
    return {
        "kind": cause.kind,
        "subject": cause.subject,
        "was": cause.was,
        "now": cause.now,
        "file": cause.file and fmt.relative(cause.file, cwd),
        "line": cause.line,
        "others": cause.others,
        "open": cause.is_open,
        "fix": cause.fix,
        "reason": cause.reason,
        "expected": cause.expected,
        "advice": advice_data(cause.advice),
    }


def _cut(each: Cut) -> dict[str, Any]:
    """Return the graph that runs after another one, and the breaks between the two as indexes into `breaks`."""
    return {"next": each.after, "breaks": list(each.breaks)}


def kernel_data(row: KernelOfPart, cwd: str) -> dict[str, Any]:
    """Return the main facts of a kernel as plain data; unknown values are null."""
    kernel, work = row.kernel, row.work
    data = {
        "graph": kernel.graph,
        "stage": str(kernel.stage),
        "name": kernel.name,
        "language": kernel.language,
        "user": kernel.user,
        "ops": list(kernel.ops),
        "lines": [place_data(each, cwd) for each in kernel.lines],
        "calls": kernel.calls,
        "read": work.read,
        "written": work.written,
        "flops": work.flops,
        "nodes": len(row.nodes) or None,
    }
    return emitted(data, *WORK)


def place_data(place: str, cwd: str) -> str:
    """Shorten the path of a `file:line`."""
    file, _, line = place.rpartition(":")
    return f"{fmt.relative(file, cwd)}:{line}"
