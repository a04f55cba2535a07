"""What an upgrade changes as SARIF 2.1.0, for code scanning: each change at its line, with its reason."""

import hashlib
import re
from typing import Any
from urllib.parse import quote

from ctrace.inspector.features.upgrade.upgrade_model import UpgradeChange, UpgradedModel, UpgradeDocument
from ctrace.inspector.version import __version__
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.gate.sarif import SCHEMA
from ctrace.reports.wording.upgrade_wording import change_text, reason_text

_ROOT = "%SRCROOT%"
_LEVELS = {True: "warning", False: "note", None: "note"}
_PLACE = re.compile(r"(?P<file>[^\s:]+\.py):(?P<line>\d+)")


def render_upgrade_sarif(document: UpgradeDocument) -> Document:
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
    return json_document({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


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
    region = {"region": {"startLine": int(match["line"])}} if match and int(match["line"]) > 0 else {}
    artifact = {"uri": quote(file), "uriBaseId": _ROOT}
    return {"physicalLocation": {"artifactLocation": artifact, **region}}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
