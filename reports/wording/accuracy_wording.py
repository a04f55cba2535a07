"""What `ctrace accuracy` found, in words.

How results were compared with eager, in words.
"""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.explain_document import ExplainDocument
from ctrace.inspector.facts.accuracy_facts import Accuracy, Culprit, TrainingStep
from ctrace.inspector.facts.scenario_facts import Comparison, Rule
from ctrace.inspector.findings.culprits import error_text, off
from ctrace.inspector.knowledge.counting import named
from ctrace.reports import format as fmt

KINDS = {"kernel": "kernel ", "external": "call of ", "pass": "", "decomposition": "", "graph": ""}
"""What stands before the name of a culprit."""
# Chosen: names of fused kernels have up to hundreds of letters; half a line is enough to find one.
_LONG_NAME = 60

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


def answer(found: Accuracy, cwd: str) -> str:
    """Name the worst culprit, or say that there is none, and what holds then."""
    if found.culprits:
        first = found.culprits[0]
        name = f"{KINDS[first.kind]}{short_name(first.name)}"
        what = f"{name[0].upper()}{name[1:]}"
        # A kernel of several ops is named itself: nothing says which of their lines is wrong.
        if first.file is not None and (len(first.ops) == 1 or first.kind not in ("kernel", "external")):
            what = f"{where(first, cwd)}{fmt.framed(' `', fmt.one_line(first.source, 100), '`')}"
        verdict = "wrong" if first.against == "float64" else "other than in eager, and no less exact"
        # A line counts once, whose op may be in several kernels.
        others = len({(each.file, each.line) for each in found.culprits}) - 1
        text = f"{what} is {verdict}: {off(first)}."
        if others:
            text += f" So {named(others, 'is', 'are')} {fmt.count(others, 'other line')}."
        return text
    # Before the rest: without a kernel that ran, only the reason is an answer.
    if not found.kernels and found.not_compared:
        return f"Not compared: {fmt.one_line(found.not_compared[0].why, 200)}."
    if parted := first_parted(found):
        return f"{parted_text(parted)} No kernel is beyond rounding by itself."
    if not found.kernels:
        return "No kernel ran, so nothing was compared."
    whole = (_WHOLE_PROGRAM if found.program is not None else _WHOLE)[found.result]
    if found.not_compared:
        whole = whole.replace("each kernel is right", "each kernel that was compared is right")
    kernels = f"{fmt.count(found.compared, 'stored result')} of {fmt.count(found.kernels, 'kernel')}"
    return f"Nothing is beyond rounding in {kernels}, each on its real inputs. {whole}"


def first_parted(found: Accuracy) -> TrainingStep | None:
    """Return the first training step that parts beyond rounding."""
    return next((each for each in found.steps if each.parted), None)


def parted_text(step: TrainingStep) -> str:
    """Say where training parts beyond rounding."""
    where = fmt.known(step.parameter, lambda name: fmt.one_line(name, 100), "the loss or the result")
    text = f"Training parts at step {step.step}, in {where}"
    if step.error is None or step.eager_error is None:
        return f"{text}."
    return f"{text}: off by {error_text(step.error)} where eager is off by {error_text(step.eager_error)}."


def where(culprit: Culprit, cwd: str) -> str:
    """Return the place of a culprit's operation."""
    if culprit.file is None or culprit.line is None:
        return "a line that is not known"
    return fmt.place(culprit.file, culprit.line, cwd)


def place_of_line(text: str | None, cwd: str) -> str:
    """Shorten `file:line`; a log may hold any other text, which is shown as it is."""
    file, _, line = (text or "").rpartition(":")
    if not line.isdecimal():
        return fmt.one_line(text or "", 100)
    return fmt.place(file, int(line), cwd)


def short_name(name: str) -> str:
    """Shorten a kernel's name in its middle: its end has the number that tells it apart."""
    if len(name) <= _LONG_NAME:
        return name
    half = _LONG_NAME // 2
    return f"{name[:half]}…{name[-half:]}"


def basis(comparison: Comparison | None) -> str:
    """Say how results were compared with eager; empty if not recorded."""
    if comparison is None:
        return ""
    if comparison.rule is Rule.EXPERIMENT:
        return "proven by experiment"
    if comparison.rule is Rule.DIRECT:
        return "compared with eager directly"
    if comparison.rule is Rule.TOLERANCE:
        return f"compared by tolerance; no float64 reference: {fmt.one_line(comparison.no_reference or 'it overflows')}"
    if comparison.eager_error is None or comparison.compiled_error is None:
        return "compared with a float64 reference"
    return f"error against float64: eager {comparison.eager_error:.2g}, compiled {comparison.compiled_error:.2g}"


def rounded(document: ExplainDocument) -> Iterator[str]:
    """Name the scenarios whose results differ from eager and are right nevertheless, and say why."""
    wrong = {danger.scenario for danger in document.dangers}
    for each in (result.of for result in document.scenarios):
        # A wrong result is a danger, which has a cause on the screen.
        if each.comparison is None or each.name in wrong:
            continue
        name = fmt.one_line(each.name, 30)
        if each.comparison.rule is Rule.REFERENCE:
            yield f"Results differ from eager only by rounding in {name} ({basis(each.comparison)})."
        elif each.comparison.rule is Rule.TOLERANCE:
            yield f"Results differ from eager within tolerance in {name} ({basis(each.comparison)})."
