"""What `ctrace accuracy` found, in words."""

from ctrace.inspector.facts.accuracy_facts import Accuracy, Culprit
from ctrace.inspector.findings.scenarios.culprits import off
from ctrace.reports import format as fmt

KINDS = {"kernel": "kernel ", "external": "call of ", "pass": "", "decomposition": "", "graph": ""}
"""What stands before the name of a culprit."""
_LONG_NAME = 60


def answer(found: Accuracy, cwd: str) -> str:
    """Name the worst culprit, or say that there is none, and what holds then."""
    if found.culprits:
        first = found.culprits[0]
        source = f" `{fmt.one_line(first.source, 100)}`" if first.source else ""
        one = first.file is not None and (len(first.ops) == 1 or first.kind not in ("kernel", "external"))
        name = f"{KINDS[first.kind]}{short_name(first.name)}"
        what = f"{where(first, cwd)}{source} is" if one else f"{name[0].upper()}{name[1:]} is"
        verdict = "wrong" if first.against == "float64" else "other than in eager, and no less exact"
        others = len({(each.file, each.line) for each in found.culprits}) - 1
        text = f"{what} {verdict}: {off(first)}."
        if others:
            text += f" So {'are' if others > 1 else 'is'} {fmt.count(others, 'other line')}."
        return text
    if not found.kernels and found.not_compared:
        return f"Not compared: {fmt.one_line(found.not_compared[0].why, 200)}."
    whole = {
        "wrong": "The whole result is further off than rounding explains, and each kernel is right by itself.",
        "not_compared": "The whole result was not compared.",
    }.get(found.result, "So is the whole result.")
    kernels = f"{fmt.count(found.compared, 'stored result')} of {fmt.count(found.kernels, 'kernel')}"
    return f"Nothing is beyond rounding in {kernels}, each on its real inputs. {whole}"


def where(culprit: Culprit, cwd: str) -> str:
    """Return the place of a culprit's operation."""
    return (
        place_of_line(f"{culprit.file}:{culprit.line}", cwd) if culprit.file is not None else "a line that is not known"
    )


def place_of_line(text: str | None, cwd: str) -> str:
    """Shorten `file:line`."""
    if text is None:
        return ""
    file, _, line = text.rpartition(":")
    return fmt.place(file, int(line), cwd)


def short_name(name: str) -> str:
    """Shorten a kernel's name in its middle: its end has the number that tells it apart."""
    if len(name) <= _LONG_NAME:
        return name
    half = _LONG_NAME // 2
    return f"{name[:half]}…{name[-half:]}"
