"""Screen of `ctrace upgrade`: the answer, a table of the models, then each model's changes by reason."""

import time
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.features.upgrade.upgrade_model import (
    CleanedEnvironments,
    MadeEnvironment,
    UpgradedModel,
    UpgradeDocument,
)
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import capped, fix, indented, more, section, table
from ctrace.reports.wording.upgrade_wording import (
    answer,
    by_reason,
    change_text,
    changed_numbers,
    environments,
    headword,
    reason_text,
)

_STYLES = {"equal": "bold green", "better": "bold green", "worse": "bold red"}
_COLUMNS = ("verdict", "graphs", "breaks", "skipped", "recompilations", "guards", "kernels", "bytes moved")
_MOST = 4
"""How many changes of one reason are shown without --all."""


def upgrade_screen(document: UpgradeDocument, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    """Show the answer first, then what differs in each model and why."""
    word = headword(document)
    yield Text.assemble((word.upper(), _STYLES.get(word, "bold yellow")), "  ", (environments(document), "bold"))
    yield Text(answer(document))
    for note in document.notes:
        yield Text(f"! {fmt.one_line(note, 400)}", style="yellow")
    yield Text()
    yield _fitting_table(document, width)
    for model in document.models:
        if model.changes or model.error is not None:
            yield from _model(model, all_of_it=all_of_it)


def _fitting_table(document: UpgradeDocument, width: int) -> RenderableType:
    """Return the table without the last columns that do not fit; those in which no model differs go first."""
    differ = {each.name for model in document.models for each in model.numbers if each.before != each.after}
    columns = list(_COLUMNS)
    while _width_of(made := _table(document, columns)) > width and columns:
        columns.remove(([name for name in columns if name not in differ] or columns)[-1])
    return made


def _width_of(made: Table) -> int:
    """Return the width of a table of which no cell is cut."""
    # Rich's own measure of a table is bounded by the console's width.
    _, right, _, left = made.padding
    texts = ([str(column.header), *map(str, column.cells)] for column in made.columns)
    return sum(max(map(cell_len, each)) + left + right for each in texts)


def _table(document: UpgradeDocument, columns: Sequence[str]) -> Table:
    made = table("model", "result", *columns)
    for model in document.models:
        numbers = {each.name: (each.before, each.after) for each in model.numbers}
        cells = [_cell(*numbers.get(name, (None, None))) for name in columns]
        made.add_row(Text(fmt.one_line(model.name, 40)), _result(model), *cells)
    return made


def _cell(before: str | None, after: str | None) -> Text:
    if before == after:
        return Text(fmt.one_line(before or "-", 16))
    return Text(fmt.one_line(f"{before or '-'} → {after or '-'}", 32), style="yellow")


def _result(model: UpgradedModel) -> Text:
    if model.error is not None:
        return Text("not compared", style="bold red")
    if not model.changes:
        return Text("equal", style="green")
    if model.worse:
        return Text("worse", style="red")
    is_better = all(each.worse is False for each in model.changes)
    if is_better:
        return Text("better", style="green")
    return Text("different", style="yellow")


def _model(model: UpgradedModel, *, all_of_it: bool) -> Iterator[RenderableType]:
    yield section(fmt.one_line(model.name, 200))
    if model.error is not None:
        error = model.error
        yield Text(f"  {error.environment}, {error.phase}: {fmt.one_line(error.message, 400)}", style="red")
    if numbers := changed_numbers(model, every=all_of_it):
        texts = [f"{name} {was} → {now}" if was != now else f"{name} {was}" for name, was, now in numbers]
        yield indented(Text("; ".join(texts), style="dim"), 2)
    for reason, changes in by_reason(model).items():
        yield indented(Text(fmt.one_line(reason_text(reason), 400), style="bold"), 2)
        shown = capped(changes, _MOST, all_of_it=all_of_it)
        for each in shown:
            style = {True: "red", False: "green", None: ""}[each.worse]
            yield indented(Text(fmt.one_line(change_text(each), 0 if all_of_it else 300), style=style), 4)
        yield from more(len(changes), "change", "--all or --json", most=len(shown))
        if reason.advice:
            yield fix(reason.advice)


def cleaned_screen(document: CleanedEnvironments) -> Iterator[RenderableType]:
    """List the removed environments, with size and age."""
    if not document.removed and not document.kept:
        yield Text("There is no environment of ctrace upgrade here.")
        return
    total = sum(each.bytes for each in document.removed)
    yield Text(f"Removed {fmt.count(len(document.removed), 'environment')}, {fmt.memory(total)}.")
    made = table("environment", "size", "age", "")
    for each, note in [*((one, "") for one in document.removed), *((one, "in use, kept") for one in document.kept)]:
        made.add_row(fmt.one_line(each.name, 60), fmt.memory(each.bytes), _age(each), note)
    yield made


def _age(each: MadeEnvironment) -> str:
    if each.created is None:
        return "incomplete"
    # The clock may have been set back since.
    hours = max(0.0, time.time() - each.created) / 3600
    if hours < 48:
        return f"{hours:.1f} hours"
    return f"{hours / 24:.0f} days"
