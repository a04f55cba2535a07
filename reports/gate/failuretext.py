"""A failed check in a test, as plain text in the style of the screen of `ctrace check`."""

import textwrap
from collections.abc import Iterator

from ctrace.inspector.errors import Exit
from ctrace.inspector.features.check.check_model import CheckedJob, CheckedState, CheckOutcome, FindingKind, GateFinding
from ctrace.inspector.features.check.policy_model import Count
from ctrace.reports import format as fmt
from ctrace.reports.gate.gate_findings import LONGEST, code, detail, headline, todo
from ctrace.reports.gate.gate_words import lock_name, spot, title

# Chosen: pytest shows the text at the width of the terminal; longer lines are hard to read, and below 40 columns a path
# is on a line of its own anyway.
_WIDEST = 120
_NARROWEST = 40
_INDENT = "   "
_BREAKS = (Count.BREAKS, Count.LIBRARY_BREAKS, Count.TORCH_BREAKS)
_WORSE_THAN_LOCK = (FindingKind.NEW_SITE, FindingKind.MORE_TIMES, FindingKind.MORE)


def failure_text(outcome: CheckOutcome, width: int, *, is_by_lock: bool) -> str:
    """Write the findings of the only check in `outcome`; `is_by_lock` means that the lock decides, not the test."""
    width = max(min(width, _WIDEST), _NARROWEST)
    one = outcome.checked[0]
    findings = [*outcome.findings, *one.findings]
    parts = [
        [_headline(one, outcome), *_folded(_facts(one, outcome), "", width)],
        *(list(_finding(number, each, one, outcome, width)) for number, each in enumerate(findings, 1)),
        list(_next(outcome, one, width, is_by_lock=is_by_lock)),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _headline(one: CheckedJob, outcome: CheckOutcome) -> str:
    # Pytest's summary shows only this line.
    return f"{title(outcome)}  {fmt.one_line(str(one.job), LONGEST)}"


def _facts(one: CheckedJob, outcome: CheckOutcome) -> str:
    facts = []
    if outcome.torch:
        facts.append(f"torch {outcome.torch}")
    if one.state is not None:
        facts += _counted(one.state)
    return " · ".join([*facts, fmt.seconds(one.seconds)])


def _counted(state: CheckedState) -> Iterator[str]:
    counts = state.counts
    if Count.GRAPHS in counts:
        yield fmt.count(counts[Count.GRAPHS], "graph")
    if counts:
        yield fmt.count(sum(counts.get(each, 0) for each in _BREAKS), "graph break")
    if skipped := counts.get(Count.SKIPPED):
        yield fmt.count(skipped, "function runs eagerly", "functions run eagerly")
    if Count.RECOMPILES in counts:
        yield f"{fmt.count(counts[Count.RECOMPILES], 'recompilation')} after warm-up"
    if state.coverage is not None:
        yield f"{int(state.coverage)}% of the ops in graphs"


def _finding(number: int, finding: GateFinding, one: CheckedJob, outcome: CheckOutcome, width: int) -> Iterator[str]:
    yield from _folded(f"{number}. {headline(finding, with_code=False)}", "", width, _INDENT)
    if finding.file or finding.site:
        at = spot(finding, one, outcome)
        if at is not None:
            yield f"{_INDENT}{fmt.one_line(str(at), LONGEST)}"
    if finding.site is not None:
        yield f"{_INDENT}  {fmt.one_line(code(finding), LONGEST)}"  # not folded, so that it can be copied
        yield from _folded(finding.site.reason, _INDENT, width)
    for each in detail(finding, one):
        yield from _folded(f"{each[:1].upper()}{each[1:]}.", _INDENT, width)
    for each in todo(finding):
        yield from _folded(f"→ {each}", _INDENT, width, f"{_INDENT}  ")


def _next(outcome: CheckOutcome, one: CheckedJob, width: int, *, is_by_lock: bool) -> Iterator[str]:
    if not is_by_lock or outcome.exit is not Exit.WORSE:
        return
    file = lock_name(outcome)
    kinds = {each.kind for each in one.findings}
    if kinds.intersection(_WORSE_THAN_LOCK):
        update = f"If this is intended, record the current state in {file or 'the lock'}: pytest --ctrace-update"
        yield from _folded(update, "", width)
    elif FindingKind.LIMIT in kinds:  # a test without numbers has strict limits
        known = "There is no lock"
        if file:
            known = f"{file} has no entry for this check"
        limits = "so no graph break, no eager function and no recompilation after warm-up is allowed"
        update = "If this is intended, record the current state: pytest --ctrace-update"
        yield from _folded(f"{known}, {limits}. {update}.", "", width)


def _folded(text: str, indent: str, width: int, hanging: str = "") -> list[str]:
    """Fold foreign text to lines; keep long words whole."""
    return textwrap.wrap(
        fmt.one_line(text, LONGEST),
        width,
        initial_indent=indent,
        subsequent_indent=hanging or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
