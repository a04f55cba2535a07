"""Write the page: its style and its scripts, the first answer as plain HTML, and the documents as compressed data.

The browser may run one script and apply one style, those with the hashes in the Content-Security-Policy, and may load
nothing. All data is base64 or escaped JSON, and the scripts put it on the page as text, never as markup.

The list of runs that `ctrace serve` shows is such a page, too; it asks for the runs again and again.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.diagnosis.explain_document import ExplainDocument, explain_document
from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.store import SavedRun
from ctrace.inspector.version import __version__
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, html_text, json_text, one, plain
from ctrace.reports.format import one_line
from ctrace.reports.html.documents import LeftOutDocument, documents, json_for_script, markup, source_hash
from ctrace.reports.html.documents import PackedDocument as Data
from ctrace.reports.wording.diagnosis_wording import asks_nothing, effects, is_nothing, notes

PAGE_SCHEMA = 1
"""Version of the page's data; raise it when the scripts need different data."""
_FOLDER = Path(__file__).parent
# One script in this order: core.js first, which the others use, and start.js last, which begins.
_SCRIPTS = (
    "core.js",
    "lists.js",
    "links.js",
    "summary.js",
    "source.js",
    "recompiles.js",
    "code.js",
    "graph.js",
    "guards.js",
    "fusion.js",
    "kernels.js",
    "memory.js",
    "time.js",
    "numbers.js",
    "search.js",
    "findable.js",
    "start.js",
)
DIFF_SCRIPTS = ("core.js", "lists.js", "search.js", "diff.js", "start.js")
RUNS_SCRIPTS = ("core.js", "lists.js", "search.js", "runs.js", "start.js")
RANKS_SCRIPTS = ("core.js", "lists.js", "search.js", "ranks.js", "start.js")
_STYLES = ("page.css", "charts.css")
_CONNECTS = "; connect-src 'self'"
# As on screens: a message of the user's program may have millions of letters.
_SENTENCE = 1000


class Page(Struct, frozen=True):
    """What one page consists of."""

    title: str
    first: str
    """The answer as HTML, for a browser without scripts and for the moment before they run."""
    scripts: tuple[str, ...]
    head: dict[str, Any]
    """What the scripts know at once; the documents are unpacked when they are needed."""
    documents: tuple[Data | LeftOutDocument, ...]
    connects: bool = False
    """Whether its script may ask the server that the page is from."""


def render_html(session: Session, run: str = "", *, sass: bool = False) -> SafeText:
    """Write the page of a run; with `sass`, also disassemble its binaries."""
    title = one(session.target.path or session.target.name or run or "this run")
    answer = _answer(explain_document(session, whole=False))
    head = {"run": run, "answer": answer, "numbers": session.accuracy is not None}
    found = tuple(documents(session, sass=sass))
    return written(Page(title, _first_answer(answer, title), _SCRIPTS, head, found))


def written(page: Page) -> SafeText:
    """Write a page as one file."""
    return html_text("".join(_parts(page, _read(page.scripts), _read(_STYLES))))


def _read(names: Iterable[str]) -> str:
    return "".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def _parts(page: Page, script: str, style: str) -> Iterator[str]:
    policy = (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)}; img-src data:; "
        f"base-uri 'none'; form-action 'none'{_CONNECTS if page.connects else ''}"
    )
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
    yield f"<title>{markup(page.title)} · ctrace</title>\n"
    yield f'<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n'
    yield f'<div id="app"><main id="first">{page.first}</main></div>\n'
    data = [each for each in page.documents if isinstance(each, Data)]
    notes = [each for each in page.documents if isinstance(each, LeftOutDocument)]
    head = {
        "schema": PAGE_SCHEMA,
        "ctrace": __version__,
        "title": page.title,
        **page.head,
        "documents": [{"name": each.name, "characters": each.characters} for each in data],
        "notes": [{"name": each.name, "why": each.why, "todo": each.todo} for each in notes],
    }
    yield f'<script type="application/json" id="head">{json_for_script(head)}</script>\n'
    for number, each in enumerate(data):
        yield f'<script type="text/plain" id="data-{number}">{each.packed}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _answer(document: ExplainDocument) -> dict[str, Any]:
    """Return the first lines that `ctrace explain` prints."""
    found, run = document.diagnosis, document.answer
    asked = [(each.text, effects(each, found)) for each in found.advice if not asks_nothing(each)]
    said = notes(found)
    if not found.advice:
        asked = [(each, "") for each in document.next_steps if not is_nothing(each)]
        said = [each for each in document.next_steps if is_nothing(each)]
    return {
        "verdict": str(run.verdict),
        "sentence": plain(fmt.shortened(run.sentence, _SENTENCE)),
        "target": plain(run.gpu),
        "unknown": [plain(fmt.shortened(each, _SENTENCE)) for each in run.unknown],
        "advice": [{"text": plain(text), "trial": trial} for text, trial in asked],
        "nothing": [plain(text) for text in said],
    }


def _first_answer(answer: dict[str, Any], title: str) -> str:
    """Write the answer as HTML, for a browser without scripts and for the moment before they run."""
    verdict = answer["verdict"].replace("_", " ")
    lines = [f"<h1>{markup(verdict)}: {markup(title)}</h1>", f"<p>{markup(answer['sentence'])}</p>"]
    lines += [f"<p>{markup(each)}</p>" for each in (*answer["unknown"], answer["target"]) if each]
    steps = "".join(f"<li>{markup(each['text'])}</li>" for each in answer["advice"])
    lines += [f"<h2>What to do</h2><ol>{steps}</ol>"] if steps else []
    lines += [f"<p>{markup(each)}</p>" for each in answer["nothing"]]
    lines.append("<noscript><p>The rest of this page needs JavaScript. Everything is in this file.</p></noscript>")
    return "".join(lines)


# Chosen: a cell of the list, which wraps.
_LONGEST = 300
_COUNTS = ("graphs", "breaks", "skipped", "recompiles")


def render_run_list_html(folder: str) -> SafeText:
    """Write the page; its script fetches the runs."""
    title = one(folder)
    first = f"<h1>Runs in {markup(title)}</h1><noscript><p>This list needs JavaScript.</p></noscript>"
    return written(Page(title, first, RUNS_SCRIPTS, {"serves": True}, (), connects=True))


def render_run_list_json(runs: Sequence[SavedRun], damaged: Sequence[str]) -> SafeText:
    """Write the runs, newest first, and what cannot be read."""
    ordered = sorted(runs, key=lambda run: (run.created, run.name), reverse=True)
    return json_text({"runs": [_run(each) for each in ordered], "damaged": [plain(each) for each in damaged]})


def _status(run: SavedRun) -> str:
    if run.is_active:
        return "running"
    # Its process is gone, and could not write how the run ended.
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
        # A saved run may come from elsewhere, with anything in its summary.
        "counts": {name: summary[name] for name in _COUNTS if isinstance(summary.get(name), int)},
        "kept": run.is_kept,
    }
