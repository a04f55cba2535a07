"""What an upgrade changes, for a pull request that moves a pin.

As Markdown for a comment; as SARIF 2.1.0 for code scanning: each change at its line, with its reason.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from ctrace.inspector.features.upgrade.upgrade_model import UpgradeChange, UpgradedModel, UpgradeDocument
from ctrace.inspector.version import __version__
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, json_text, markdown_text
from ctrace.reports.gate.sarif import SCHEMA
from ctrace.reports.markup import code, prose, row, text
from ctrace.reports.wording.upgrade_wording import (
    answer,
    by_reason,
    change_text,
    changed_numbers,
    environments,
    headword,
    reason_text,
)

# Chosen, as is the next one: a comment of GitHub takes 65,536 characters, and an upgrade has several models.
_MOST = 20
_LONGEST = 300
_ROOT = "%SRCROOT%"
_LEVELS = {True: "warning", False: "note", None: "note"}
_PLACE = re.compile(r"(?P<file>[^\s:]+\.py):(?P<line>\d+)")


def render_upgrade_markdown(document: UpgradeDocument) -> SafeText:
    """Write the report, with a final newline."""
    return markdown_text("\n".join(_lines(document)) + "\n")


def _lines(document: UpgradeDocument) -> Iterator[str]:
    yield f"### ctrace upgrade: {text(environments(document))}: **{headword(document)}**"
    yield f"\n{prose(answer(document))}"
    if document.notes:
        yield "\n" + "\n".join(f"- {prose(fmt.shortened(note, _LONGEST))}" for note in document.notes)
    yield "\n| model | worse | better | other | numbers that changed |\n|---|---|---|---|---|"
    for model in document.models:
        counts = [sum(each.worse is which for each in model.changes) for which in (True, False, None)]
        numbers = "; ".join(f"{name} {was} → {now}" for name, was, now in changed_numbers(model))
        yield row(code(model.name), *(text(str(each)) for each in counts), text(numbers or "none"))
    for model in document.models:
        if model.changes or model.error is not None:
            yield from _model(model)


def _model(model: UpgradedModel) -> Iterator[str]:
    yield f"\n**{text(model.name)}**\n"
    if model.error is not None:
        error = model.error
        where = text(f"{error.environment}, {error.phase}")
        yield f"- not compared: {where}: {code(fmt.one_line(error.message, _LONGEST))}"
    for reason, changes in by_reason(model).items():
        yield f"- {text(fmt.one_line(reason_text(reason), _LONGEST))}"
        for each in changes[:_MOST]:
            yield f"  - {code(fmt.one_line(change_text(each), _LONGEST))}"
        if (left := len(changes) - _MOST) > 0:
            yield f"  - and {fmt.count(left, 'more change')}: see `ctrace upgrade --json`"
        if reason.advice:
            yield f"  - {text(reason.advice)}"


def render_upgrade_sarif(document: UpgradeDocument) -> SafeText:
    """Write the report, indented, with a final newline."""
    results = [_result(model, change) for model in document.models for change in model.changes]
    results += [_error(model) for model in document.models if model.error is not None]
    names = sorted({each["ruleId"] for each in results})
    indices = {name: number for number, name in enumerate(names)}
    driver = {
        "name": "ctrace",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(name) for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "ctrace/upgrade/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The directory that ctrace upgrade was run in."}}},
        "invocations": [{"executionSuccessful": all(each.error is None for each in document.models)}],
        "results": [{**each, "ruleIndex": indices[each["ruleId"]]} for each in results],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(name: str) -> dict[str, Any]:
    title = f"An upgrade changes: {name.removeprefix('upgrade-')}."
    return {"id": name, "shortDescription": {"text": title}, "properties": {"tags": ["torch.compile"]}}


def _result(model: UpgradedModel, change: UpgradeChange) -> dict[str, Any]:
    lines = [change_text(change), reason_text(change.reason), change.reason.advice or ""]
    return {
        "ruleId": f"upgrade-{change.what.replace(' ', '-')}",
        "level": _LEVELS[change.worse],
        "message": {"text": "\n".join(fmt.one_line(line, 1000) for line in lines if line)},
        "locations": [_location(change.where, model.name)],
        "partialFingerprints": {"ctrace/v1": _digest(model.name, *change.key)},
        "properties": {"model": model.name, "reason": str(change.reason.kind)},
    }


def _error(model: UpgradedModel) -> dict[str, Any]:
    assert model.error is not None
    text = f"{model.error.environment}, {model.error.phase}: {model.error.message}"
    return {
        "ruleId": "upgrade-error",
        "level": "error",
        "message": {"text": fmt.one_line(text, 1000)},
        "locations": [_location(model.name, model.name)],
        "partialFingerprints": {"ctrace/v1": _digest(model.name, model.error.environment, model.error.phase)},
        "properties": {"model": model.name},
    }


def _location(where: str, model: str) -> dict[str, Any]:
    """Return the place of a change, else the model's file."""
    match = _PLACE.search(where)
    file = match["file"] if match else model.rpartition(":")[0] or model
    # SARIF counts lines from 1.
    region = {"region": {"startLine": int(match["line"])}} if match and int(match["line"]) > 0 else {}
    artifact = {"uri": quote(file), "uriBaseId": _ROOT}
    return {"physicalLocation": {"artifactLocation": artifact, **region}}


def _digest(*parts: str) -> str:
    # Joined by a letter that no part has, so that other parts make another text.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
