"""What a check found as SARIF 2.1.0, for code scanning: each place at its line, with its reason and its fix.

Names, units and levels: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

import hashlib
import json
from typing import Any
from urllib.parse import quote

from ctrace import __version__
from ctrace.inspector.errors import Exit
from ctrace.inspector.gate.model import JobKey, Site
from ctrace.inspector.gate.policy.model import Allow
from ctrace.inspector.gate.verdict import FindingKind, Outcome
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.gate.places import Spot, site_spot
from ctrace.reports.gate.sarifrules import gb_of, gb_rule, kind_rule
from ctrace.reports.gate.told import Told, every, lines
from ctrace.reports.gate.words import verdict

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
"""GitHub's name for the root of the checkout."""
_Data = dict[str, Any]


def render_sarif(outcome: Outcome) -> Document:
    """Write the report, indented, with a final newline."""
    results = [*(_finding(each) for each in every(outcome)), *_allowed(outcome)]
    rules = _rules(results)
    indices = {rule["id"]: number for number, rule in enumerate(rules)}
    driver = {"name": "ctrace", "version": __version__, "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "ctrace/check/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The directory that ctrace check was run in."}}},
        "invocations": [_invocation(outcome)],
        "results": [{**each, "ruleIndex": indices[each["ruleId"]]} for each in results],
    }
    return json_document({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rules(results: list[_Data]) -> list[_Data]:
    met = sorted({each["ruleId"] for each in results} - set(FindingKind))
    return [*map(kind_rule, FindingKind), *map(gb_rule, met)]


def _invocation(outcome: Outcome) -> _Data:
    notes = [{"level": "note", "message": {"text": fmt.one_line(note)}} for note in outcome.notes]
    return {
        "executionSuccessful": outcome.exit in (Exit.DONE, Exit.WORSE),
        "exitCode": int(outcome.exit),
        "exitCodeDescription": verdict(outcome),
        "toolConfigurationNotifications": notes,
    }


def _finding(told: Told) -> _Data:
    finding = told.finding
    site = finding.site
    jobs = [one.job for one in told.checked]
    return {
        "ruleId": (gb_of(site.key) if site else None) or str(finding.kind),
        "level": "error",
        "message": {"text": "\n".join(lines(finding, told.first, None))},
        "locations": _locations(told.spot, site),
        "partialFingerprints": _site_print(site) if site else _print(str(finding.kind), finding.count, *jobs),
        "properties": {"kind": str(finding.kind), "jobs": _names(jobs)},
    }


def _allowed(outcome: Outcome) -> list[_Data]:
    """Report sites that the policy lets pass, each once, as results that are suppressed."""
    jobs: dict[object, list[JobKey]] = {}
    sites: dict[object, tuple[Site, Allow]] = {}
    for one in outcome.checked:
        for site, allow in one.allowed:
            jobs.setdefault(site.key, []).append(one.job)
            sites.setdefault(site.key, (site, allow))
    return [_suppressed(site, allow, jobs[key], outcome) for key, (site, allow) in sites.items()]


def _suppressed(site: Site, allow: Allow, jobs: list[JobKey], outcome: Outcome) -> _Data:
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
    """Write a path as a URI: one below the working directory relative to it."""
    uri = quote(file.encode("utf-8", "surrogatepass"), safe="/")
    return {"uri": f"file://{uri}"} if file.startswith("/") else {"uri": uri, "uriBaseId": _ROOT}


def _region(line: int, columns: tuple[int, int] | None) -> _Data:
    """Write lines and columns from 1; the end column is the one after the last, as the standard has it."""
    if columns is None:
        return {"startLine": line}
    begin, end = columns
    return {"startLine": line, "startColumn": begin, "endLine": line, "endColumn": end}


def _site_print(site: Site) -> dict[str, str]:
    """Know a site again wherever it moves: by what it is, not by its line."""
    key = site.key
    return _print(key.kind, key.causes, key.owner, key.place, key.text)


def _print(*parts: object) -> dict[str, str]:
    text = json.dumps([str(part) if not isinstance(part, tuple) else part for part in parts])
    return {"ctraceSite/v1": hashlib.sha256(text.encode()).hexdigest()}
