"""The differences between two runs as Markdown, for a pull request."""

from collections.abc import Iterator

from ctrace.inspector.features.compare.changes import Change, DiffDocument, What
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, markdown_text
from ctrace.reports.markup import Marked, code, prose, row, text
from ctrace.reports.wording.diff_wording import answer, folded, headword, judged, name_of, not_compared, short_name

# Chosen, as is the next one: a comment of GitHub takes 65,536 characters, and there are thirteen kinds of changes.
_MOST = 20
_LONGEST = 300


def render_diff_markdown(document: DiffDocument) -> SafeText:
    """Write the report, with a final newline."""
    return markdown_text("\n".join(_lines(document)) + "\n")


def _lines(document: DiffDocument) -> Iterator[str]:
    before, after, found = document.before, document.after, document.found
    yield f"### ctrace diff: {text(before)} → {text(after)}: **{headword(found)}**"
    if not found.equal and (which := judged(found.judgement, short_name(before, after))):
        yield f"\n{prose(which)}"
    yield f"\n{prose(answer(found))}"
    if found.notes:
        yield "\n" + "\n".join(f"- {prose(fmt.shortened(note, _LONGEST))}" for note in found.notes)
    if line := folded(found, "`ctrace diff --all`"):
        yield f"\n{prose(line)}"
    for what in What:
        changes = [each for each in found.changes if each.what is what and each not in found.consequences]
        if changes:
            yield from _table(what, changes)
    if lines := not_compared(found):
        yield "\n" + "\n".join(f"- {text(line)}" for line in lines)


def _table(what: What, changes: list[Change]) -> Iterator[str]:
    yield f"\n**{text(name_of(what))}**\n\n| change | where | was | now |\n|---|---|---|---|"
    for each in changes[:_MOST]:
        was, now = (code(fmt.one_line(side, _LONGEST)) if side else text("") for side in (each.was, each.now))
        if each.follows and each.what is not What.KERNEL:  # a change of kernels says it itself
            now = Marked(f"{now}; {text(each.follows[0])}")
        yield row(text(each.how), code(each.where), was, now)
    if (left := len(changes) - _MOST) > 0:
        yield f"\nAnd {fmt.count(left, 'more change')}: see `ctrace diff --json`."
