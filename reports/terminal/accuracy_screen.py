"""Screen of `ctrace accuracy`: which line changed the numbers, how it travels, and what to do."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.accuracy_facts import Accuracy, AccuracyDocument, Culprit, PathStep, TrainingStep
from ctrace.inspector.findings.culprits import error_text, off
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import count
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import MOST, Verbatim, columned, hanging, section
from ctrace.reports.wording.accuracy_wording import (
    KINDS,
    answer,
    first_parted,
    parted_text,
    place_of_line,
    short_name,
    where,
)

_HEADS = {True: ("EQUAL", "bold green"), False: ("NOT EQUAL", "bold red"), None: ("NOT ALL COMPARED", "bold yellow")}

_PARTED_BY = {
    "compiler": "",
    "chaos": "The runs part by chaos: one changed bit gets about as far.",
    "rounding": "The runs part by rounding alone.",
}
# Chosen: two at the start, two at the end and four around the step that parts.
_MOST_STEPS = 8


def accuracy_screen(document: AccuracyDocument, width: int) -> Iterator[RenderableType]:
    """Show the culprits, the worst first."""
    found, cwd = document.found, document.folder
    head = _HEADS[found.equal]
    yield Text.assemble(head, "  ", (fmt.one_line(document.target, 200), "bold"), "\n", answer(found, cwd))
    operations = grouped(found.culprits, lambda each: (each.scenario, each.file, each.line, each.ops))
    for places in list(operations.values())[:MOST]:
        yield from _culprit(places, cwd)
    if len(operations) > MOST:
        yield hanging(f"and {len(operations) - MOST} more: see --json")
    yield from _training(found, width)
    yield from _first_nonfinite(found, cwd)
    if found.path:
        yield section("How the error travels, against float64 from the graph's inputs on")
        rows = [(short_name(each.name), place_of_line(each.line, cwd), error_text(each.error)) for each in _ends(found)]
        yield columned(width, ("after", "line", ">off by"), rows)
    yield from _promises(found)
    if found.not_compared:
        yield section("Not compared")
        for left in found.not_compared[:MOST]:
            yield hanging(f"{fmt.one_line(left.what, 200)}: {left.why}")
        if len(found.not_compared) > MOST:
            yield hanging(f"and {len(found.not_compared) - MOST} more: see --json")
    yield Text(f"\n{_how(found)}", style="dim")


def _culprit(places: list[Culprit], cwd: str) -> Iterator[RenderableType]:
    """Show one operation of one line, in each kernel that has it."""
    first = places[0]
    source = fmt.framed("`", fmt.one_line(first.source, 100), "`")
    yield Text.assemble("\n", (where(first, cwd), "bold"), f" {source}")
    ops = ", ".join(first.ops[:MOST])
    is_kernel = first.kind in ("kernel", "external")
    scenario = ""
    if first.scenario not in ("base", "program"):
        scenario = f" (scenario {fmt.one_line(first.scenario, 40)})"
    scenario += fmt.framed(" at training step ", first.step)
    if ops and is_kernel and len(first.ops) > 1:
        yield hanging(f"one of {ops}{scenario}")
    elif ops:
        yield hanging(f"{ops}{scenario}")
    for each in places[:MOST]:
        yield hanging(f"{KINDS[each.kind]}{short_name(each.name)}, {each.stage}: {off(each)}")
    if first.reason is not None:
        without = ""
        if first.remedy is not None:
            whole = fmt.when(not is_kernel, "the whole graph is ")
            without = f"; without it, {whole}off by {error_text(first.remedy_error)}"
        yield hanging(f"why: {first.reason}{without}")
    if first.remedy is not None:
        # Often a line of code, which a fold would break.
        yield Verbatim(Text(f"   → {first.remedy}", style="green"))


def _training(found: Accuracy, width: int) -> Iterator[RenderableType]:
    """Show how eager, compiled and float64 train beside each other."""
    training = found.training
    if training is None:
        return
    yield section(f"Training, {count(len(found.steps), 'step')}")
    parted = first_parted(found)
    if parted is None:
        # Equal bits need no explanation of how far apart the runs get.
        is_same = all(each.apart_compiled == 0 for each in found.steps)
        parts = "Compiled parameters are those of eager." if is_same else _PARTED_BY[training.parted_by]
        yield hanging(f"No step that was compared is beyond rounding. {parts}")
    elif found.culprits:
        yield hanging(parted_text(parted))
    has_wide = any(each.loss_float64 is not None for each in found.steps)
    names = ("step", ">loss eager", ">compiled", *([">float64"] if has_wide else []), ">apart", ">by one bit", "")
    rows = []
    for each in _shown_steps(found.steps):
        losses = [each.loss_eager, each.loss_compiled, *([each.loss_float64] if has_wide else [])]
        apart = [fmt.known(one, "{:.1e}".format, "-") for one in (each.apart_compiled, each.apart_one_bit)]
        mark = fmt.when(each.parted, "parts")
        rows.append((str(each.step), *(fmt.known(loss, "{:.6g}".format, "-") for loss in losses), *apart, mark))
    yield columned(width, names, rows)
    yield hanging("apart: how far compiled parameters are from eager's after the step, relative to those", style="dim")
    yield hanging("by one bit: the same of a second eager run", style="dim")
    bit = fmt.framed("; changed bit: the last one of ", fmt.one_line(training.changed_bit or "", 80))
    how = f"loss: {fmt.one_line(training.loss, 100)}; optimizer: {fmt.one_line(training.optimizer, 100)}{bit}"
    yield hanging(how, style="dim")


def _shown_steps(steps: tuple[TrainingStep, ...]) -> list[TrainingStep]:
    """Return the first and last steps, and those around the first that parts."""
    if len(steps) <= _MOST_STEPS:
        return list(steps)
    at = next((number for number, each in enumerate(steps) if each.parted), 0)
    chosen = {0, 1, len(steps) - 2, len(steps) - 1, *range(max(at - 1, 0), min(at + 3, len(steps)))}
    return [steps[number] for number in sorted(chosen)]


def _first_nonfinite(found: Accuracy, cwd: str) -> Iterator[RenderableType]:
    made = found.first_nonfinite
    if made is None:
        return
    yield section("The first NaN or infinity")
    when = fmt.framed(" at training step ", made.step)
    eager = "eager makes it as well" if made.in_eager else "eager does not make it"
    # Code outside of graphs made it, such as the optimizer.
    if not made.stage:
        op, name = fmt.one_line(made.op, 100), fmt.one_line(made.name, 100)
        yield hanging(f"{op} makes it{when}, no kernel: in {name}; {eager}")
        return
    where_ = place_of_line(f"{made.file}:{made.line}" if made.file else None, cwd) or "a line that is not known"
    yield hanging(f"{where_}: {made.op}, from inputs without any; {eager}, on the same inputs")
    yield hanging(f"kernel {short_name(made.name)}, {made.stage}{when}")


def _promises(found: Accuracy) -> Iterator[RenderableType]:
    promises = found.promises
    if promises.run_to_run is not None:
        same = "equal bit for bit" if promises.run_to_run else f"other after {promises.run_to_run_broken_by}"
        yield Text(f"\nThe same call twice: {same}.")
    if promises.batch_invariant is not None:
        same = "equal bit for bit" if promises.batch_invariant else "not equal"
        yield Text(f"A row alone and in its batch: {same}.")


def _ends(found: Accuracy) -> list[PathStep]:
    """Return the first and the last kernels of the path."""
    steps = list(found.path)
    if len(steps) <= 2 * MOST:
        return steps
    return [*steps[:MOST], *steps[-MOST:]]


def _how(found: Accuracy) -> str:
    runs = count(found.compiled_runs, "compiled call")
    pieces = fmt.framed(", ", fmt.some(found.pieces, "part"), " of graphs compiled again")
    graphs = count(found.graphs, "graph")
    if found.program is not None:
        return (
            f"The program ended with {fmt.one_line(found.program, 200)}. {graphs}, the first call of each compared"
            f"{pieces}. CUDA graphs, freezing and caches of compiled graphs are off."
        )
    return (
        f"{graphs} on {found.device}, {runs}{pieces}. Random numbers are drawn by PyTorch's "
        "operators; CUDA graphs, freezing and caches of compiled graphs are off."
    )
