"""The result of a check as Markdown for a pull request: headline, a row per change, then all jobs, folded."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ctrace.inspector.features.check.check_model import CheckedJob, CheckOutcome
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, markdown_text
from ctrace.reports.gate.gate_findings import (
    SharedFinding,
    code,
    detail,
    headline,
    patch_block,
    review_block,
    shared_findings,
    todo,
)
from ctrace.reports.gate.gate_screen import cells, result
from ctrace.reports.gate.gate_words import gravest_first, near, next_steps, sentence, verdict
from ctrace.reports.markup import Marked, prose, row, text
from ctrace.reports.markup import code as code_span

# How far each part may fill the page, in the order in which they matter: what makes the check fail first, and the list
# of all jobs last. A report has at most 60,000 characters: GitHub takes 65,536 in a comment, and 1 MiB in a step's
# summary.
_FOR_CHANGES = 36_000
_FOR_REPAIRS = 43_000
_FOR_NOTES = 46_000
_FOR_JOBS = 58_000
_LONGEST = 300
"""The most characters of a text in a cell, before the text is escaped."""
_NOTHING = Marked("")
_Writer = Callable[[], str]
"""Writes a line when called; the page calls it only if there may be room."""


def render_table(outcome: CheckOutcome) -> SafeText:
    """Write the report, with a final newline; count what does not fit."""
    page = _Page()
    page.add(f"### ctrace check: **{verdict(outcome)}**", "", text(sentence(outcome)))
    changes: list[_Writer] = [partial(_change, each) for each in shared_findings(outcome)]
    changes += _improvements(outcome.checked)
    if changes:
        page.add("", "| change | where | what to do | jobs |", "|---|---|---|---|")
        page.add_some(changes, _FOR_CHANGES, "change")
    repairs = [partial(_repair, each, outcome) for each in shared_findings(outcome) if _has_block(each)]
    if repairs:
        page.add("", "**Proved repairs**")
        page.add_some(repairs, _FOR_REPAIRS, "repair")
    notes = [partial(_note, each) for each in (*outcome.notes, *_allowed(outcome.checked))]
    if notes:
        page.add("", "**Notes**", "")
        page.add_some(notes, _FOR_NOTES, "note")
    if outcome.checked:
        # Behind HTML, GitHub reads Markdown only after an empty line.
        page.add("", f"<details><summary>{fmt.count(len(outcome.checked), 'job')}</summary>", "")
        page.add("| job | graphs | breaks | recompiles | coverage | time | result |", "|---|--:|--:|--:|--:|--:|---|")
        page.add_some([partial(_job, one) for one in gravest_first(outcome)], _FOR_JOBS, "job")
        page.add("", "</details>")
    page.add(*_end(outcome))
    return markdown_text(page.whole())


class _Page:
    """Lines of a page, and their total length."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def add(self, *lines: str) -> None:
        """Add lines, whatever their length."""
        self._lines += lines
        self._size += sum(len(line) + 1 for line in lines)

    def add_some(self, writers: Sequence[_Writer], up_to: int, noun: str) -> None:
        """Add lines until the page has `up_to` characters, and say how many are left out."""
        for number, write in enumerate(writers):
            line = write()
            if self._size + len(line) >= up_to:
                # A shorter line further down would still fit, but the order is that of what matters.
                left = fmt.count(len(writers) - number, f"more {noun}")
                self.add("", f"and {left}: see the output of `ctrace check`", "")
                return
            self.add(line)

    def whole(self) -> str:
        """Return the page, with a final newline."""
        return "\n".join(self._lines) + "\n"


def _change(shared: SharedFinding) -> str:
    """Write a row: `+1 GB0170 mask.py::forward if is_pad.any(): splits 2 graphs into 3, 14 ops now in eager`."""
    finding = shared.finding
    source = code_span(fmt.one_line(code(finding), _LONGEST))
    costs = text(", ".join(detail(finding, shared.first)))
    where = code_span(fmt.one_line(str(shared.spot or ""), _LONGEST))
    what_to_do = _joined(map(_short, todo(finding)))
    return row(
        _joined((_short(headline(finding, with_code=False)), source, costs)), where, what_to_do, _jobs(shared.checked)
    )


def _has_block(shared: SharedFinding) -> bool:
    found = shared.finding.suggestion
    return found is not None and patch_block(found) is not None


def _repair(shared: SharedFinding, outcome: CheckOutcome) -> str:
    """Write a repair as a suggestion for the lines that it replaces, or as a patch if it changes several places."""
    found = shared.finding.suggestion
    assert found is not None
    # GitHub applies a suggestion by a click, but only to lines that follow each other.
    block, patch = review_block(found), patch_block(found) or ""
    where = code_span(fmt.one_line(str(shared.spot or ""), _LONGEST))
    head = _joined((where, _short(found.summary)))
    if block is None:
        return f"\n{head}\n\n{patch}"
    first, last, code_block = block
    file = code_span(fmt.one_line(near(found.replacements[0].file, outcome), _LONGEST))
    numbers = f"lines {first} to {last}"
    if first == last:
        numbers = f"line {first}"
    return f"\n{head}\n\n{_joined((text(f'{numbers} of'), file))}:\n\n{code_block}"


def _joined(parts: Iterable[Marked]) -> Marked:
    return Marked(" ".join(part for part in parts if part))


def _jobs(checked: tuple[CheckedJob, ...]) -> Marked:
    if not checked:
        return _NOTHING
    more = text(fmt.framed("and ", fmt.some(len(checked) - 1, "more job")))
    return _joined((code_span(fmt.one_line(str(checked[0].job), _LONGEST)), more))


def _improvements(checked: Iterable[CheckedJob]) -> Iterator[_Writer]:
    for one in checked:
        yield from (partial(_improvement, each, one) for each in one.better)


def _improvement(better: str, one: CheckedJob) -> str:
    return row(_short(better), _NOTHING, _NOTHING, _jobs((one,)))


def _note(note: str) -> str:
    return f"- {_short(note)}"


def _allowed(checked: Iterable[CheckedJob]) -> Iterator[str]:
    sites = {site.key: allow for one in checked for site, allow in one.allowed}
    for key, allow in sites.items():
        until = fmt.framed(", until ", allow.expires)
        yield f"allowed: {' '.join((*key.causes, key.place))}: {allow.reason}{until}"


def _job(one: CheckedJob) -> str:
    return row(code_span(fmt.one_line(str(one.job), _LONGEST)), *map(text, cells(one)), text(result(one)))


def _end(outcome: CheckOutcome) -> Iterator[str]:
    for command, why in next_steps(outcome):
        yield f"\n{code_span(fmt.one_line(command, _LONGEST))} {text(fmt.one_line(why, _LONGEST))}"
    made = fmt.joined(", ", fmt.framed("torch ", outcome.torch), fmt.seconds(outcome.seconds))
    yield f"\n<sub>{text(made)}</sub>"


def _short(foreign: str) -> Marked:
    return prose(fmt.one_line(foreign, _LONGEST))
