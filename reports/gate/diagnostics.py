"""The result of a check as the diagnostics of the Language Server Protocol, which editors show on lines.

Names and units: Microsoft, "Language Server Protocol Specification 3.17", `PublishDiagnosticsParams`: lines and
characters count from 0, and a character is a UTF-16 code unit.
"""

from typing import Any
from urllib.parse import quote

from ctrace.inspector.features.check.check_model import CheckOutcome
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, json_text
from ctrace.reports.gate.gate_findings import SharedFinding, lines, shared_findings
from ctrace.reports.gate.gate_words import Spot, cwd
from ctrace.reports.gate.sarif import gb_of

_ERROR = 1
"""`DiagnosticSeverity.Error`."""
_WHOLE_LINE = 2**31 - 1
"""The largest `uinteger` of the protocol: a character beyond the end of a line means its end."""


def render_diagnostics(outcome: CheckOutcome) -> SafeText:
    """Write a list of `PublishDiagnosticsParams`, one for each file, indented, with a final newline.

    A finding without a file is left out: an editor could show it nowhere.
    """
    files: dict[str, list[dict[str, Any]]] = {}
    for each in shared_findings(outcome):
        if each.spot is not None:
            files.setdefault(_uri(each.spot.file), []).append(_diagnostic(each, each.spot))
    return json_text([{"uri": uri, "diagnostics": found} for uri, found in files.items()])


def _diagnostic(shared: SharedFinding, at: Spot) -> dict[str, Any]:
    finding = shared.finding
    source, code = "", None
    if finding.site:
        source, code = finding.site.source, gb_of(finding.site.key)
    return {
        "range": _range(at, source),
        "severity": _ERROR,
        "code": code or str(finding.kind),
        "source": "ctrace",
        "message": "\n".join(lines(finding, shared.first, None)),
        "data": {"kind": str(finding.kind), "jobs": [fmt.one_line(str(one.job)) for one in shared.checked]},
    }


def _range(at: Spot, source: str) -> dict[str, Any]:
    """Return the columns of a place, or its whole line; a place without a line is at the first line of the file."""
    line = max(0, (at.line or 1) - 1)
    begin, end = (0, _WHOLE_LINE) if at.columns is None else (_units(source, column - 1) for column in at.columns)
    return {"start": {"line": line, "character": begin}, "end": {"line": line, "character": end}}


def _units(text: str, column: int) -> int:
    """Count the UTF-16 code units before a column."""
    return len(text[:column].encode("utf-16-le", "surrogatepass")) // 2


def _uri(file: str) -> str:
    # A name whose bytes are no UTF-8 has surrogates in Python, which `quote` alone would refuse.
    whole = file if file.startswith("/") else f"{cwd().as_posix()}/{file}"
    return f"file://{quote(whole.encode('utf-8', 'surrogatepass'), safe='/')}"
