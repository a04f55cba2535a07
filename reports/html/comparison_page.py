"""Write pages about several runs: the differences between two of them, and the ranks of a job."""

import json
from typing import Any

from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.changes import DiffDocument, RunDiff
from ctrace.inspector.features.compare.ranks_of_job import Job
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, one, plain
from ctrace.reports.html.documents import document, markup
from ctrace.reports.html.html_page import DIFF_SCRIPTS, RANKS_SCRIPTS, Page, written
from ctrace.reports.json.printer import render
from ctrace.reports.wording import ranks_wording as words
from ctrace.reports.wording.diff_wording import answer, headword, judged, name_of, not_compared, short_name

# As on screens: a message of the user's program may have millions of letters.
_SENTENCE = 1000


def render_diff_html(names: tuple[str, str], sessions: tuple[Session, Session], found: RunDiff) -> SafeText:
    """Write the page of the differences between two runs."""
    before, after = (one(name) for name in names)
    title = f"{before} → {after}"
    verdict = headword(found)
    which = "" if found.equal else judged(found.judgement, short_name(before, after))
    text = plain(f"{which} {answer(found)}".lstrip())
    explained = [explain_document(each) for each in sessions]
    kinds = {str(change.what): name_of(change.what) for change in found.changes}
    head = {
        "verdict": verdict,
        "sentence": text,
        "names": [before, after],
        "sentences": [plain(fmt.shortened(each.answer.sentence, _SENTENCE)) for each in explained],
        "kinds": kinds,
        "not_compared": [plain(each) for each in not_compared(found)],
    }
    documents = (
        document("diff", render(DiffDocument(*names, found))),
        *(document(side, render(each)) for side, each in zip(("before", "after"), explained, strict=True)),
    )
    return written(Page(title, _first(verdict, title, text), DIFF_SCRIPTS, head, documents))


def render_ranks_html(job: Job, folder: str) -> SafeText:
    """Write the page of the ranks of a job."""
    title = one(folder)
    word, said = words.answer(job)
    verdict, text = word.lower(), plain(said)
    found = job.divergence
    head: dict[str, Any] = {
        "verdict": verdict,
        "sentence": text,
        "notes_of_job": [plain(each) for each in (*words.incomplete(job), *job.notes)],
        "groups": [words.ranks_text(group) for group in job.groups],
        "divergence": None if found is None else {"kind": words.KINDS[found.kind], "advice": words.ADVICE[found.kind]},
    }
    letters = [list(words.letters(each.contents)) for each in job.compilations]
    documents = (document("ranks", render(job)), document("letters", json.dumps(letters)))
    return written(Page(title, _first(verdict, title, text), RANKS_SCRIPTS, head, documents))


def _first(verdict: str, title: str, text: str) -> str:
    answer_ = f"<h1>{markup(verdict)}: {markup(title)}</h1><p>{markup(text)}</p>"
    return f"{answer_}<noscript><p>The rest of this page needs JavaScript. Everything is in this file.</p></noscript>"
