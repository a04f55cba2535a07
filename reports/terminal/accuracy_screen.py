"""Screen of `ctrace accuracy`: which line changed the numbers, how it travels, and what to do."""

import os
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.accuracy.accuracy_facts import Accuracy, Culprit, PathStep, TrainingStep
from ctrace.inspector.knowledge.words.counting import count
from ctrace.reports import format as fmt
from ctrace.reports.terminal.columns import columned
from ctrace.reports.terminal.widgets import MOST, Verbatim, hanging, section

_LONG_NAME = 60
_KINDS = {"kernel": "kernel ", "external": "call of ", "pass": "", "decomposition": "", "graph": ""}
_HEADS = {True: ("EQUAL", "bold green"), False: ("NOT EQUAL", "bold red"), None: ("NOT ALL COMPARED", "bold yellow")}

_WHOLE = {
    "wrong": "The whole result is further off than rounding explains, and each kernel is right by itself.",
    "not_compared": "The whole result was not compared.",
    "rounding": "So is the whole result.",
}
_WHOLE_PROGRAM = {
    "wrong": "A whole graph is further off than rounding explains, and each kernel is right by itself.",
    "not_compared": "Not each whole graph was compared.",
    "rounding": "So is each whole graph.",
}
_PARTED_BY = {
    "compiler": "",
    "chaos": "The runs part by chaos: one changed bit gets about as far.",
    "rounding": "The runs part by rounding alone.",
}
_MOST_STEPS = 8


def accuracy_screen(found: Accuracy, target: str, width: int) -> Iterator[RenderableType]:
    """Show the culprits, the worst first."""
    head = _HEADS[found.equal]
    yield Text.assemble(head, "  ", (fmt.one_line(target, 200), "bold"), "\n", _answer(found))
    grouped: dict[object, list[Culprit]] = {}
    for each in found.culprits:
        grouped.setdefault((each.scenario, each.file, each.line, each.ops), []).append(each)
    for places in list(grouped.values())[:MOST]:
        yield from _culprit(places)
    if len(grouped) > MOST:
        yield hanging(f"and {len(grouped) - MOST} more: see --json")
    yield from _training(found, width)
    yield from _first_nonfinite(found)
    if found.path:
        yield section("How the error travels, against float64 from the graph's inputs on")
        rows = [(_short(each.name), _place(each.line), _error(each.error)) for each in _ends(found)]
        yield columned(width, ("after", "line", ">off by"), rows)
    yield from _promises(found)
    if found.not_compared:
        yield section("Not compared")
        for left in found.not_compared[:MOST]:
            yield hanging(f"{fmt.one_line(left.what, 200)}: {left.why}")
        if len(found.not_compared) > MOST:
            yield hanging(f"and {len(found.not_compared) - MOST} more: see --json")
    yield Text(f"\n{_how(found)}", style="dim")


def _answer(found: Accuracy) -> str:
    if found.culprits:
        first = found.culprits[0]
        source = f" `{fmt.one_line(first.source, 100)}`" if first.source else ""
        one = first.file is not None and (len(first.ops) == 1 or first.kind not in ("kernel", "external"))
        name = f"{_KINDS[first.kind]}{_short(first.name)}"
        what = f"{_where(first)}{source} is" if one else f"{name[0].upper()}{name[1:]} is"
        verdict = "wrong" if first.against == "float64" else "other than in eager, and no less exact"
        others = len({(each.file, each.line) for each in found.culprits}) - 1
        answer = f"{what} {verdict}: {_off(first)}."
        if others:
            answer += f" So {'are' if others > 1 else 'is'} {count(others, 'other line')}."
        return answer
    whole = (_WHOLE_PROGRAM if found.program is not None else _WHOLE)[found.result]
    if parted := _first_parted(found):
        return f"{_parted(parted)} No kernel is beyond rounding by itself."
    if not found.kernels:
        return "No kernel ran, so nothing was compared."
    kernels = f"{count(found.compared, 'stored result')} of {count(found.kernels, 'kernel')}"
    return f"Nothing is beyond rounding in {kernels}, each on its real inputs. {whole}"


def _where(culprit: Culprit) -> str:
    return _place(f"{culprit.file}:{culprit.line}") if culprit.file is not None else "a line that is not known"


def _off(culprit: Culprit) -> str:
    if culprit.against == "eager":
        return f"it differs from eager by {_error(culprit.error)}"
    return f"off by {_error(culprit.error)} where eager is off by {_error(culprit.eager_error)}"


def _error(error: float | None) -> str:
    return "NaN or infinity" if error is None else f"{error:.2g}"


def _culprit(places: list[Culprit]) -> Iterator[RenderableType]:
    """Show one operation of one line, in each kernel that has it."""
    first = places[0]
    source = f"`{fmt.one_line(first.source, 100)}`" if first.source else ""
    yield Text.assemble("\n", (_where(first), "bold"), f" {source}")
    ops = ", ".join(first.ops[:MOST])
    scenario = "" if first.scenario in ("base", "program") else f" (scenario {fmt.one_line(first.scenario, 40)})"
    if first.step is not None:
        scenario += f" at training step {first.step}"
    if ops:
        one = len(first.ops) == 1 or first.kind not in ("kernel", "external")
        yield hanging(f"{'' if one else 'one of '}{ops}{scenario}")
    for each in places[:MOST]:
        yield hanging(f"{_KINDS[each.kind]}{_short(each.name)}, {each.stage}: {_off(each)}")
    if first.reason is not None:
        without = f"; without it, off by {_error(first.remedy_error)}" if first.remedy is not None else ""
        yield hanging(f"why: {first.reason}{without}")
    if first.remedy is not None:
        yield Verbatim(Text(f"   → {first.remedy}", style="green"))


def _first_parted(found: Accuracy) -> TrainingStep | None:
    return next((each for each in found.steps if each.parted), None)


def _parted(step: TrainingStep) -> str:
    """Say where training parts beyond rounding."""
    where = f"in {fmt.one_line(step.parameter, 100)}" if step.parameter is not None else "in the loss or the result"
    numbers = f"off by {_error(step.error)} where eager is off by {_error(step.eager_error)}"
    has_numbers = step.error is not None and step.eager_error is not None
    return f"Training parts at step {step.step}, {where}{f': {numbers}' if has_numbers else ''}."


def _training(found: Accuracy, width: int) -> Iterator[RenderableType]:
    """Show how eager, compiled and float64 train beside each other."""
    training = found.training
    if training is None:
        return
    yield section(f"Training, {count(len(found.steps), 'step')}")
    parted = _first_parted(found)
    if parted is None:
        is_same = all(each.apart_compiled == 0 for each in found.steps)
        parts = "Compiled parameters are those of eager." if is_same else _PARTED_BY[training.parted_by]
        yield hanging(f"No step that was compared is beyond rounding. {parts}")
    elif found.culprits:
        yield hanging(_parted(parted))
    has_wide = any(each.loss_float64 is not None for each in found.steps)
    names = ("step", ">loss eager", ">compiled", *([">float64"] if has_wide else []), ">apart", ">by one bit", "")
    rows = []
    for each in _shown_steps(found.steps):
        wide = [_loss(each.loss_float64)] if has_wide else []
        mark = "parts" if each.parted else ""
        apart = (_apart(each.apart_compiled), _apart(each.apart_one_bit))
        rows.append((str(each.step), _loss(each.loss_eager), _loss(each.loss_compiled), *wide, *apart, mark))
    yield columned(width, names, rows)
    yield hanging("apart: how far compiled parameters are from eager's after the step, relative to those", style="dim")
    yield hanging("by one bit: the same of a second eager run", style="dim")
    bit = f"; changed bit: the last one of {fmt.one_line(training.changed_bit, 80)}" if training.changed_bit else ""
    how = f"loss: {fmt.one_line(training.loss, 100)}; optimizer: {fmt.one_line(training.optimizer, 100)}{bit}"
    yield hanging(how, style="dim")


def _shown_steps(steps: tuple[TrainingStep, ...]) -> list[TrainingStep]:
    """Return the first and last steps, and those around the first that parts."""
    if len(steps) <= _MOST_STEPS:
        return list(steps)
    at = next((number for number, each in enumerate(steps) if each.parted), 0)
    chosen = {0, 1, len(steps) - 2, len(steps) - 1, *range(max(at - 1, 0), min(at + 3, len(steps)))}
    return [steps[number] for number in sorted(chosen)]


def _loss(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.6g}"


def _apart(distance: float | None) -> str:
    return "-" if distance is None else f"{distance:.1e}"


def _first_nonfinite(found: Accuracy) -> Iterator[RenderableType]:
    made = found.first_nonfinite
    if made is None:
        return
    yield section("The first NaN or infinity")
    when = f" at training step {made.step}" if made.step is not None else ""
    eager = "eager makes it as well" if made.in_eager else "eager does not make it"
    if not made.stage:
        op, name = fmt.one_line(made.op, 100), fmt.one_line(made.name, 100)
        yield hanging(f"{op} makes it{when}, no kernel: in {name}; {eager}")
        return
    where = _place(f"{made.file}:{made.line}" if made.file else None) or "a line that is not known"
    yield hanging(f"{where}: {made.op}, from inputs without any; {eager}, on the same inputs")
    yield hanging(f"kernel {_short(made.name)}, {made.stage}{when}")


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
    return steps if len(steps) <= 2 * MOST else [*steps[:MOST], *steps[-MOST:]]


def _short(name: str) -> str:
    """Shorten a kernel's name in its middle: its end has the number that tells it apart."""
    if len(name) <= _LONG_NAME:
        return name
    half = _LONG_NAME // 2
    return f"{name[:half]}…{name[-half:]}"


def _place(where: str | None) -> str:
    if where is None:
        return ""
    file, _, line = where.rpartition(":")
    return fmt.place(file, int(line), os.getcwd())  # noqa: PTH109 - a text, as in a session


def _how(found: Accuracy) -> str:
    runs = count(found.compiled_runs, "compiled call")
    pieces = f", {count(found.pieces, 'part')} of graphs compiled again" if found.pieces else ""
    graphs = count(found.graphs, "graph")
    if found.program is not None:
        return (
            f"The program ended with {fmt.one_line(found.program, 200)}. {graphs}, the first call of each compared"
            f"{pieces}. CUDA graphs and freezing are off."
        )
    return (
        f"{graphs} on {found.device}, {runs}{pieces}. Random numbers are drawn by PyTorch's "
        "operators, CUDA graphs and freezing are off."
    )
