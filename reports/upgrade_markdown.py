"""What an upgrade changes as Markdown, for the comment of a pull request that moves a pin."""

from collections.abc import Iterator

from ctrace.inspector.features.upgrade.upgrade_model import UpgradedModel, UpgradeDocument
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, markdown_document
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


def render_upgrade_markdown(document: UpgradeDocument) -> Document:
    """Write the report, with a final newline."""
    return markdown_document("\n".join(_lines(document)) + "\n")


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
