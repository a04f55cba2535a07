"""Write the report of `explain --json`; other reports in this folder use its helpers.

The helpers are `SCHEMA`, the version of these reports, and functions that turn shared records, such as causes and
advice, into plain data. Names are fixed: new ones may come, old ones never change.

What `ctrace accuracy` found is written here, too; an error of null is NaN or infinities in other places.
"""

from typing import Any

from msgspec.structs import asdict

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.facts.accuracy_facts import Accuracy, Culprit
from ctrace.inspector.facts.compile_time import Speed
from ctrace.inspector.facts.scenario_facts import Comparison
from ctrace.inspector.facts.session import Failure, Scenario, Session, TorchRecord
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.facts.trial import later_calls_of
from ctrace.inspector.findings.compile_time_fold import all_metrics
from ctrace.inspector.findings.graphs.attention_view import answers
from ctrace.inspector.findings.graphs.cuts import Cut, cuts
from ctrace.inspector.findings.kernels.kernel_view import KernelOfPart, rows
from ctrace.inspector.findings.scenario_view import recompiles_in
from ctrace.inspector.findings.shape_view import violations
from ctrace.inspector.session.summary import LEFT_OUT
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.fusion_json import fusion_data
from ctrace.reports.json.printer import SCHEMA, plain
from ctrace.reports.json.target_json import WORK, emitted, target_data, unknown_data


def render_json(session: Session) -> Document:
    """Write the report, indented, with a final newline."""
    return json_document(as_data(session))


def as_data(session: Session) -> dict[str, Any]:
    """Return the report as plain data."""
    environment = session.environment
    cwd = environment.cwd
    found, diagnosis = cuts(session), diagnose(session)
    dangers = None if session.compared is None or is_fake(session) else plain(session.dangers, cwd)
    wrong = session.accuracy
    culprits = None if wrong is None else [culprit_data(each, cwd) for each in wrong.culprits]
    accuracy = None if wrong is None else accuracy_data(wrong)
    speed = None if session.speed is None else speed_data(session.speed)
    seconds_of_trials = sum(each.seconds for each in session.trials) if session.trials else None
    left_out = list(LEFT_OUT if environment.fast else ())
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
            "not_looked_at": left_out,
            "target_gpu": target_data(session),
        },
        "target": plain(session.target, cwd),
        "error": _failure(session.failure, cwd, violations(session)),
        "incomplete": plain(session.cut_off, cwd),
        "exited": session.exited or None,
        **_fake(session),
        **_place_in_job(session),
        "scenarios": [_scenario(each, session) for each in session.scenarios],
        "graphs": [
            {**plain(graph, cwd), "cut_by": [_cut(each) for each in found if each.before == graph.id]}
            for graph in session.graphs
        ],
        "unrolled": plain(session.unrolled, cwd),
        "attention": plain(answers(session), cwd),
        "compilations": plain(session.compilations, cwd),
        "coverage": plain(session.coverage, cwd),
        "functions": plain(session.functions, cwd),
        "breaks": plain(session.breaks, cwd),
        "skipped": plain(session.skips, cwd),
        "recompiles": plain(session.recompiles, cwd),
        "dangers": dangers,
        "limit": plain(session.limit, cwd),
        "outlook": plain(later_calls_of(session.trials), cwd),
        "fusion": fusion_data(session),
        "kernels": [kernel_data(row, cwd) for row in rows(session)],
        **unknown_data(session),
        "time": {
            "basis": str(Basis.MEASURED),
            "total": session.time.total,
            "phases": dict(session.time.phases),
            "advice": seconds_of_trials,
        },
        "speed": speed,
        "culprits": culprits,
        "accuracy": accuracy,
        "causes": plain(diagnosis.causes, cwd),
        "advice": plain(diagnosis.advice, cwd),
        "problems": plain(session.problems, cwd),
        "unknown": dict(session.unknown),
        "not_shown": dict(session.not_shown),
        "records": [_record(each) for each in session.records],
        "metrics": _metrics(session),
    }


def is_fake(session: Session) -> bool:
    """Whether the model had no weights."""
    return session.model is not None and session.model.fake


def _place_in_job(session: Session) -> dict[str, Any]:
    """Return which rank of which job a run with `--world` was."""
    cluster = session.cluster
    return {"rank": cluster and cluster.rank, "world": cluster and cluster.world}


def _fake(session: Session) -> dict[str, Any]:
    """Return the size of the model, and what a run without weights assumed and where it stopped."""
    model, cwd = session.model, session.environment.cwd
    return {
        "fake": is_fake(session),
        "parameters": model and model.parameters,
        "parameter_bytes": model and model.parameter_bytes,
        "layers": None if model is None or model.layers is None else {"left": model.layers, "cut": model.layers_cut},
        "assumed": plain(session.assumed, cwd),
        "stopped": plain(session.stopped, cwd),
    }


# Chosen: records that no view knows are there to be searched, and one of them may be a whole graph.
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


def culprit_data(culprit: Culprit, cwd: str) -> dict[str, Any]:
    """Return a culprit as `accuracy --json` has it, with the path of its file below the working directory."""
    return {**asdict(culprit), "file": culprit.file and fmt.relative(culprit.file, cwd)}


def accuracy_data(found: Accuracy) -> dict[str, Any]:
    """Return what `accuracy --json` says besides the culprits."""
    first_nonfinite = None if found.first_nonfinite is None else asdict(found.first_nonfinite)
    training = None if found.training is None else asdict(found.training)
    return {
        "equal": found.equal,
        "result": found.result,
        "first_nonfinite": first_nonfinite,
        "path": [asdict(each) for each in found.path],
        "promises": asdict(found.promises),
        "not_compared": [asdict(each) for each in found.not_compared],
        "steps": [asdict(each) for each in found.steps],
        "training": training,
        "program": found.program,
        "scenarios": list(found.scenarios),
        "compared": found.compared,
        "kernels": found.kernels,
        "graphs": found.graphs,
        "device": found.device,
        "compiled_runs": found.compiled_runs,
        "pieces": found.pieces,
    }


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
        **plain(each.coverage, ""),
        "kind": str(each.kind),
        "outcome": str(each.outcome),
        "message": each.message or None,
        "recompiles": len(recompiles_in(session, each)),
        "compared": each.compared,
        "not_compared": each.not_compared or None,
        **_comparison(each.comparison),
    }


def _comparison(each: Comparison | None) -> dict[str, Any]:
    return {
        "rule": each and str(each.rule),
        "eager_error": each and each.eager_error,
        "compiled_error": each and each.compiled_error,
        "no_reference": (each.no_reference or None) if each else None,
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


def render_accuracy_json(found: Accuracy, target: str) -> Document:
    """Return the culprits, the worst first, and what was not compared."""
    culprits = [asdict(each) for each in found.culprits]
    return json_document({"schema": SCHEMA, "target": target, "culprits": culprits, **accuracy_data(found)})
