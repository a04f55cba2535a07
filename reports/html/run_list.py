"""Write the list of runs that `ctrace serve` shows: a page that asks for the runs again and again."""

from collections.abc import Sequence
from typing import Any

from ctrace.inspector.runs.store import SavedRun
from ctrace.reports.escape import Document, json_document, one, plain
from ctrace.reports.format import one_line
from ctrace.reports.html.documents import markup
from ctrace.reports.html.html_page import RUNS_SCRIPTS, Page, written

_LONGEST = 300
_COUNTS = ("graphs", "breaks", "skipped", "recompiles")


def render_run_list_html(folder: str) -> Document:
    """Write the page; its script fetches the runs."""
    title = one(folder)
    first = f"<h1>Runs in {markup(title)}</h1><noscript><p>This list needs JavaScript.</p></noscript>"
    return written(Page(title, first, RUNS_SCRIPTS, {"serves": True}, (), connects=True))


def render_run_list_json(runs: Sequence[SavedRun], damaged: Sequence[str]) -> Document:
    """Write the runs, newest first, and what cannot be read."""
    ordered = sorted(runs, key=lambda run: (run.created, run.name), reverse=True)
    return json_document({"runs": [_run(each) for each in ordered], "damaged": [plain(each) for each in damaged]})


def _status(run: SavedRun) -> str:
    if run.is_active:
        return "running"
    if run.status == "running":
        return "cut off"
    return run.status


def _run(run: SavedRun) -> dict[str, Any]:
    summary = run.summary
    gpu = summary.get("target_gpu")
    return {
        "name": run.name,
        "target": one_line(run.target.path or run.target.name or "", _LONGEST),
        "created": run.created,
        "seconds": run.seconds,
        "status": _status(run),
        "verdict": one(str(summary.get("verdict", ""))),
        "gpu": None if gpu is None else one_line(str(gpu), _LONGEST),
        "counts": {name: summary[name] for name in _COUNTS if isinstance(summary.get(name), int)},
        "kept": run.is_kept,
    }
