"""The result of a check as SARIF 2.1.0, for code scanning: each finding at its line, with its reason and fix.

Names, units and levels: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0". There is a rule for
each kind of finding, and one for each gb id in the results.
"""

import hashlib
import json
import re
from typing import Any
from urllib.parse import quote

from ctrace.inspector.errors import Exit, TargetError
from ctrace.inspector.facts.sites import Site, SiteKey
from ctrace.inspector.features.check.check_model import CheckOutcome, FindingKind, JobKey
from ctrace.inspector.features.check.policy_model import Allow
from ctrace.inspector.findings.breaks.advice_lookup import Lesson, lesson
from ctrace.inspector.version import __version__
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, json_text
from ctrace.reports.gate.gate_findings import SharedFinding, lines, sarif_fixes, shared_findings
from ctrace.reports.gate.gate_words import KINDS, Spot, near, site_spot, verdict

_GB = re.compile(r"GB\d{4}")
_HELP = {
    FindingKind.NEW_SITE: "Change the code as the result says, allow the site in the policy with a reason, or record "
    "it in the lock with `ctrace check --update`.",
    FindingKind.MORE_TIMES: "Look at the callers of the site; if this is intended, run `ctrace check --update`.",
    FindingKind.MORE: "Run `ctrace explain` for details; if this is intended, run `ctrace check --update`.",
    FindingKind.LIMIT: "Change the model, or raise the limit in the policy.",
    FindingKind.NOTHING_COMPILED: "Run `ctrace explain` to see why Dynamo captured no graph.",
    FindingKind.DOUBT: "Run `ctrace explain` to see what could not be read, or what disagrees.",
    FindingKind.NOT_MEASURED: "Name a target that measures it, or remove the limit from the policy.",
    FindingKind.FAILED: "Run the model without torch.compile and fix the exception.",
    FindingKind.COMPILE_FAILED: "Run `ctrace explain` to see what torch.compile raised.",
    FindingKind.CRASHED: "Run the model alone with `ctrace explain`; its last lines show what happened.",
    FindingKind.TIMEOUT: "Raise `timeout` in the policy, or make the inputs smaller.",
    FindingKind.WRONG: "Fix the line of the policy or the lock that the result names.",
    FindingKind.VANISHED: "Add the model to the policy again, or drop it from the lock with `ctrace check --update`.",
    FindingKind.NO_SECTION: "Run `ctrace check --update` once with this torch version.",
}


def gb_of(site: SiteKey) -> str | None:
    """Return the gb id of a site; None if it has none."""
    return next((cause for cause in site.causes if _GB.fullmatch(cause)), None)


def kind_rule(kind: FindingKind) -> dict[str, Any]:
    """Describe a kind of finding."""
    title = f"{KINDS[kind][:1].upper()}{KINDS[kind][1:]}."
    return _rule(str(kind), title, title, _HELP[kind])


def gb_rule(gb: str) -> dict[str, Any]:
    """Describe a kind of graph break as `ctrace breaks --explain` does."""
    known = _lesson(gb)
    if known and known.entry:
        return _rule(gb, f"Graph break: {known.entry.title}", known.entry.why, known.entry.fix)
    if known and known.torch:
        torch = known.torch
        return _rule(gb, f"Graph break: {torch.title}", torch.explanation or torch.title, " ".join(torch.hints))
    return _rule(gb, f"Graph break {gb}", "A graph break that this version of ctrace does not know.", "")


def _lesson(gb: str) -> Lesson | None:
    try:
        return lesson(gb)
    except TargetError:  # an id from another torch version
        return None


def _rule(name: str, title: str, why: str, fix: str) -> dict[str, Any]:
    # GitHub shows `markdown`, other viewers `text`.
    help_text = fmt.plain(fix or why)
    return {
        "id": name,
        "shortDescription": {"text": fmt.one_line(title)},
        "fullDescription": {"text": fmt.plain(why)},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["torch.compile"]},
    }


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
"""GitHub's name for the root of the checkout."""
_Data = dict[str, Any]


def render_sarif(outcome: CheckOutcome) -> SafeText:
    """Write the report, indented, with a final newline."""
    results = [*(_finding(each, outcome) for each in shared_findings(outcome)), *_allowed(outcome)]
    rules = _rules(results)
    indices = {rule["id"]: number for number, rule in enumerate(rules)}
    driver = {"name": "ctrace", "version": __version__, "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        # GitHub's category is what is before the last `/`: an upload replaces results of its own category only.
        "automationDetails": {"id": "ctrace/check/"},
        # Columns are counted as Python does, in letters, not in UTF-16 units.
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The directory that ctrace check was run in."}}},
        "invocations": [_invocation(outcome)],
        "results": [{**each, "ruleIndex": indices[each["ruleId"]]} for each in results],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rules(results: list[_Data]) -> list[_Data]:
    met = sorted({each["ruleId"] for each in results} - set(FindingKind))
    return [*map(kind_rule, FindingKind), *map(gb_rule, met)]


def _invocation(outcome: CheckOutcome) -> _Data:
    notes = [{"level": "note", "message": {"text": fmt.one_line(note)}} for note in outcome.notes]
    return {
        # A model that got worse is a result; any other exit code means that something was not judged.
        "executionSuccessful": outcome.exit in (Exit.DONE, Exit.WORSE),
        "exitCode": int(outcome.exit),
        "exitCodeDescription": verdict(outcome),
        "toolConfigurationNotifications": notes,
    }


def _finding(shared: SharedFinding, outcome: CheckOutcome) -> _Data:
    finding = shared.finding
    fixes = sarif_fixes(finding.suggestion, lambda file: _artifact(near(file, outcome)))
    jobs = [one.job for one in shared.checked]
    if site := finding.site:
        rule, fingerprint = gb_of(site.key) or str(finding.kind), _site_print(site)
    else:
        rule, fingerprint = str(finding.kind), _print(str(finding.kind), finding.count, *jobs)
    return {
        "ruleId": rule,
        "level": "error",
        "message": {"text": "\n".join(lines(finding, shared.first, None))},
        "locations": _locations(shared.spot, site),
        "partialFingerprints": fingerprint,
        **({"fixes": fixes} if fixes else {}),
        "properties": {"kind": str(finding.kind), "jobs": _names(jobs)},
    }


def _allowed(outcome: CheckOutcome) -> list[_Data]:
    """Report sites that the policy allows, each once, as suppressed results."""
    jobs: dict[object, list[JobKey]] = {}
    sites: dict[object, tuple[Site, Allow]] = {}
    for one in outcome.checked:
        for site, allow in one.allowed:
            jobs.setdefault(site.key, []).append(one.job)
            sites.setdefault(site.key, (site, allow))
    return [_suppressed(site, allow, jobs[key], outcome) for key, (site, allow) in sites.items()]


def _suppressed(site: Site, allow: Allow, jobs: list[JobKey], outcome: CheckOutcome) -> _Data:
    head = " ".join((*site.key.causes, site.key.place))
    parts = [each for each in (head, site.reason, site.fix) if each.strip()]
    return {
        "ruleId": gb_of(site.key) or str(FindingKind.NEW_SITE),
        "level": "warning",
        "message": {"text": "\n".join(map(fmt.one_line, parts))},
        "locations": _locations(site_spot(site, outcome), site),
        "partialFingerprints": _site_print(site),
        "suppressions": [{"kind": "external", "status": "accepted", "justification": fmt.one_line(allow.reason)}],
        "properties": {"kind": str(site.key.kind), "jobs": _names(jobs)},
    }


def _names(jobs: list[JobKey]) -> list[str]:
    return [fmt.one_line(str(job)) for job in jobs]


def _locations(at: Spot | None, site: Site | None) -> list[_Data]:
    if at is None:
        return []
    place: _Data = {"artifactLocation": _artifact(at.file)}
    if at.line is not None:
        place["region"] = _region(at.line, at.columns)
    named = [{"fullyQualifiedName": fmt.one_line(site.key.place)}] if site else []
    return [{"physicalLocation": place, "logicalLocations": named}]


def _artifact(file: str) -> _Data:
    """Write a path as a URI, relative if it is below the working directory."""
    uri = quote(file.encode("utf-8", "surrogatepass"), safe="/")
    if file.startswith("/"):
        return {"uri": f"file://{uri}"}
    return {"uri": uri, "uriBaseId": _ROOT}


def _region(line: int, columns: tuple[int, int] | None) -> _Data:
    """Write lines and columns, from 1; as in the standard, the end column is the one after the last."""
    if columns is None:
        return {"startLine": line}
    begin, end = columns
    return {"startLine": line, "startColumn": begin, "endLine": line, "endColumn": end}


def _site_print(site: Site) -> dict[str, str]:
    """Return a fingerprint that does not depend on the line, so that it survives edits."""
    key = site.key
    return _print(key.kind, key.causes, key.owner, key.place, key.text)


def _print(*parts: object) -> dict[str, str]:
    # As JSON, in which parts of different sites cannot join to the same text.
    text = json.dumps([str(part) if not isinstance(part, tuple) else part for part in parts])
    return {"ctraceSite/v1": hashlib.sha256(text.encode()).hexdigest()}
