"""Write the findings of a check as GitHub workflow commands: GitHub then shows each at its line in the pull request.

Format and escaping: GitHub's documentation, "Workflow commands for GitHub Actions"; actions/toolkit, command.ts.
"""

from collections.abc import Iterable, Iterator

from ctrace.inspector.features.check.check_model import CheckOutcome
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, commands_text
from ctrace.reports.gate.gate_findings import SharedFinding, lines, review_block, shared_findings
from ctrace.reports.gate.gate_words import KINDS, Spot

MOST = 10
"""Of each step, GitHub shows this many errors and this many notices, and silently drops the rest."""
_Command = tuple[str, Spot | None]
"""Title and message, joined by a line break, and the place."""


def render_annotations(outcome: CheckOutcome) -> SafeText:
    """Write one line per finding, the gravest first, and one line per note; write nothing if there are neither."""
    errors = _limited("error", [_finding(each) for each in shared_findings(outcome)], "finding")
    notices = _limited("notice", [(f"ctrace check\n{note}", None) for note in outcome.notes], "note")
    return commands_text("".join(f"{line}\n" for line in (*errors, *notices)))


def _limited(name: str, commands: list[_Command], noun: str) -> Iterator[str]:
    """Write all commands if GitHub shows them all, else the first ones and the number of the others."""
    shown = commands
    if len(commands) > MOST:
        # One is left for the line that counts the others.
        shown = commands[: MOST - 1]
    yield from (_command(name, each, at) for each, at in shown)
    if left := len(commands) - len(shown):
        more = f"ctrace check\nand {fmt.count(left, f'more {noun}')}: see the log of the step"
        yield _command(name, more, None)


def _finding(shared: SharedFinding) -> _Command:
    title = f"ctrace: {KINDS[shared.finding.kind]}"
    others = len(shared.checked) - 1
    text = [title, *lines(shared.finding, shared.first, None)]
    if others > 0:
        text.append(f"Also in {fmt.count(others, 'more job')}.")
    found = shared.finding.suggestion
    if found is not None and (block := review_block(found)) is not None:
        first, last, code = block
        text += [f"Lines {first} to {last}:", code]
    return "\n".join(text), shared.spot


def _command(name: str, text: str, at: Spot | None) -> str:
    """Write `::error file=...,line=...,title=...::message`."""
    title, _, message = text.partition("\n")
    properties = [*_place(at), ("title", title)]
    written = ",".join(f"{key}={_property(value)}" for key, value in properties)
    return f"::{name} {written}::{_data(message)}"


def _place(at: Spot | None) -> Iterable[tuple[str, str]]:
    if at is None:
        return
    yield "file", at.file
    if at.line is not None:
        yield "line", str(at.line)
    if at.columns is not None:
        # GitHub's end is the last column, ours is the one behind it.
        begin, end = at.columns
        yield from (("endLine", str(at.line)), ("col", str(begin)), ("endColumn", str(end - 1)))


def _data(text: str) -> str:
    # The percent sign first, since the escapes of the others have one.
    return fmt.plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
