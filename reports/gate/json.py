"""The result of a check as JSON, for programs. Names are fixed: new ones may come, old ones never change.

    {"schema": 1, "verdict": "worse", "exit": 1, "inductor_guards": true, "torch": "2.13",
     "policy": "ctrace.yaml", "lock": "ctrace.lock",
     "jobs": [{"model": "models/mask.py", "scenario": "base", "target": "cpu", "verdict": "worse", "exit": 1,
               "new": false, "not_lowered": 0, "graphs_before": 2, "coverage": 71.4, "seconds": 1.2, "reused": false,
               "run": "20260101-120000-mask",
               "counts": {"breaks": 1, "graphs": 3, "kernels": null},
               "sites": [SITE],
               "findings": [FINDING],
               "allowed": [{"site": SITE, "reason": "...", "expires": "2030-01-31", "line": 12}],
               "better": ["-1 GB0059 models/mask.py::Mask.forward"]}],
     "findings": [FINDING], "notes": ["..."], "seconds": 4.1}

    SITE     {"kind": "break", "causes": ["GB0170"], "owner": "user", "place": "models/mask.py::Mask.forward",
              "text": "if is_pad.any():", "times": 1, "file": "models/mask.py", "line": 14, "columns": [12, 24],
              "source": "        if is_pad.any():", "reason": "...", "fix": "...", "cost": {"ops": 14, "graphs": 1}}
    FINDING  {"kind": "new-site", "exit": 1, "what": "...", "todo": "...", "count": null, "was": null, "now": null,
              "file": "models/mask.py", "line": 14, "site": SITE, "suggestion": SUGGESTION}
    SUGGESTION  {"repair": "tensor_branch", "kind": "source", "summary": "...", "proved": true, "why": null,
                 "note": "...", "question": null, "library": null, "how": null, "command": "ctrace fix ...",
                 "patch": "...",
                 "replacements": [{"file": "models/mask.py", "line": 14, "end_line": 16, "old": "...", "new": "..."}]}

`verdict` is holds, worse, untrusted, failed or wrong. `inductor_guards` is false if the check leaves out the guards
that Inductor adds to graphs with symbolic sizes; `not_lowered` counts such graphs of a job. `null` means not known or
not measured; `counts`, `coverage` and `sites` are null for a job without a result. `counts` has every name of
`gate.policy.Count`, `kind` those of `SiteKind` and `FindingKind`. `columns` start at 1; the second is one past the end.
`reused` is true for a job that was answered from the last check's result. Files below the working directory are
relative to it. `suggestion` is null without `--suggest`; its `repair` is null if no repair is known. A replacement puts
`new` in place of the lines from `line` to before `end_line`; the two are equal for an insertion. `policy` and `lock`
are null if there is no such file.
"""

from typing import Any

from ctrace.inspector.facts.diagnosis import Replacement, SuggestedRepair
from ctrace.inspector.facts.sites import Site
from ctrace.inspector.features.check.check_model import EXITS, CheckedJob, CheckOutcome, GateFinding
from ctrace.inspector.features.check.policy_model import Allow, Count
from ctrace.reports.escape import SafeText, json_text
from ctrace.reports.gate.gate_words import VERDICTS, near, own_spot, site_spot

SCHEMA = 1
"""Counts up when a name or its meaning changes. 1: first."""


def render_check_json(outcome: CheckOutcome) -> SafeText:
    """Write the result of a check, indented, with a final newline."""
    return json_text(_data(outcome))


def _data(outcome: CheckOutcome) -> dict[str, Any]:
    policy = near(outcome.policy.file, outcome) if outcome.policy.file else None
    lock = near(outcome.lock.file, outcome) if outcome.lock.file else None
    return {
        "schema": SCHEMA,
        "verdict": VERDICTS[outcome.exit],
        "exit": int(outcome.exit),
        "inductor_guards": outcome.inductor_guards,
        "torch": outcome.torch or None,
        "policy": policy,
        "lock": lock,
        "jobs": [_job(one, outcome) for one in outcome.checked],
        "findings": [_finding(each, outcome) for each in outcome.findings],
        "notes": list(outcome.notes),
        "seconds": outcome.seconds,
    }


def _job(one: CheckedJob, outcome: CheckOutcome) -> dict[str, Any]:
    state = one.state
    not_lowered = state.not_lowered if state else None
    counts = {str(count): state.counts.get(count) for count in Count} if state else None
    coverage = state.coverage if state else None
    sites = [_site(each, outcome) for each in state.sites] if state else None
    return {
        "model": one.job.model,
        "scenario": one.job.scenario,
        "target": one.job.target,
        "verdict": VERDICTS[one.exit],
        "exit": int(one.exit),
        "new": one.is_new,
        "not_lowered": not_lowered,
        "graphs_before": one.graphs_before,
        "counts": counts,
        "coverage": coverage,
        "sites": sites,
        "findings": [_finding(each, outcome) for each in one.findings],
        "allowed": [_allowed(site, allow, outcome) for site, allow in one.allowed],
        "better": list(one.better),
        "seconds": one.seconds,
        "reused": one.is_reused,
        "run": one.run,
    }


def _finding(finding: GateFinding, outcome: CheckOutcome) -> dict[str, Any]:
    at = own_spot(finding, outcome)
    file = at.file if at else None
    line = at.line if at else None
    count = str(finding.count) if finding.count else None
    site = _site(finding.site, outcome) if finding.site else None
    suggestion = _suggestion(finding.suggestion, outcome) if finding.suggestion else None
    return {
        "kind": str(finding.kind),
        "exit": int(EXITS[finding.kind]),
        "what": finding.what,
        "todo": finding.todo,
        "count": count,
        "was": finding.was,
        "now": finding.now,
        "file": file,
        "line": line,
        "site": site,
        "suggestion": suggestion,
    }


def _suggestion(found: SuggestedRepair, outcome: CheckOutcome) -> dict[str, Any]:
    return {
        "repair": found.repair or None,
        "kind": found.kind or None,
        "summary": found.summary,
        "proved": found.proved,
        "why": found.why or None,
        "note": found.note,
        "question": found.question or None,
        "library": found.library or None,
        "how": found.how or None,
        "command": found.command or None,
        "patch": found.patch,
        "replacements": [_replacement(each, outcome) for each in found.replacements],
    }


def _replacement(each: Replacement, outcome: CheckOutcome) -> dict[str, Any]:
    return {
        "file": near(each.file, outcome),
        "line": each.line,
        "end_line": each.end,
        "old": each.old,
        "new": each.new,
    }


def _site(site: Site, outcome: CheckOutcome) -> dict[str, Any]:
    at = site_spot(site, outcome)
    file = at.file if at else None
    line = at.line if at else None
    columns = list(at.columns) if at and at.columns else None
    return {
        "kind": str(site.key.kind),
        "causes": list(site.key.causes),
        "owner": str(site.key.owner),
        "place": site.key.place,
        "text": site.key.text,
        "times": site.times,
        "file": file,
        "line": line,
        "columns": columns,
        "source": site.source or None,
        "reason": site.reason,
        "fix": site.fix,
        "cost": {"ops": site.cost.ops, "graphs": site.cost.graphs},
    }


def _allowed(site: Site, allow: Allow, outcome: CheckOutcome) -> dict[str, Any]:
    expires = allow.expires.isoformat() if allow.expires else None
    return {"site": _site(site, outcome), "reason": allow.reason, "expires": expires, "line": allow.line or None}
