"""Screens of applying a kernel package: the answer in one line, then the places."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.workshop.kernel_packages.package_model import AppliedPackage, ExpectedPlace, RegionCheck
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import Verbatim, fix, hanging, marked, section
from ctrace.reports.wording import kernel_packages as words

_WIDEST = 50
"""The most columns of a place."""
_RAN = {
    "gpu": "the kernel ran on the GPU",
    "cpu": "the kernel ran on the CPU",
    "interpreter": "the kernel ran in Triton's interpreter",
    "fallback": "the operator ran its CPU code; the kernel itself was not run",
}


def apply_screen(
    found: AppliedPackage, target: str, package: str, diffs: Sequence[str] = (), cwd: str = ""
) -> Iterator[RenderableType]:
    """Show whether a package fits a model and is correct there, and what it gains."""
    yield _headline(found)
    yield hanging(f"{package} in {target}, on {found.device}")
    yield from _trouble(found)
    if diffs and found.equal:  # they are what was asked for; the rest is the screen without --diff
        yield from _ways(diffs)
        return
    if found.places:
        yield section("Places")
        for index, place in enumerate(found.places):
            yield from _place(place, [each for each in found.regions if each.place == index], cwd)
    yield from _results(found)
    yield from (hanging(each, "yellow") for each in found.notes)
    yield from _ways(diffs)


def _ways(diffs: Sequence[str]) -> Iterator[RenderableType]:
    for diff in diffs:
        yield Text()
        yield Verbatim(_colored(diff))


def _headline(found: AppliedPackage) -> Text:
    applied = sum(each.applied for each in found.places)
    if found.equal is False:
        style = "bold red"
    elif applied < len(found.places) or not applied:
        style = "bold yellow"
    else:
        style = "bold green"
    return Text(words.applied_line(found), style=style)


def _trouble(found: AppliedPackage) -> Iterator[RenderableType]:
    if found.wrong is not None:
        yield hanging(words.element(found.wrong), "red")
    for each in found.regions:
        if not each.equal and each.wrong is None:
            yield hanging(each.note, "red")
    for other in found.compared:
        if other.note:
            yield hanging(f"scenario {other.scenario}: {other.note}", "red")
    if found.not_measured:
        yield hanging(f"Times not measured: {found.not_measured}.")
    if found.model is not None and found.model.verdict == "undecided":
        yield fix("end other programs that use this machine, and measure again, or with more --rounds")
    if not any(each.applied for each in found.places):
        yield fix("check that the target is the model that the kernel came from; eject the kernel again if it changed")


def _place(place: ExpectedPlace, checks: list[RegionCheck], cwd: str) -> Iterator[RenderableType]:
    sign, style = ("✓", "green") if place.applied and all(each.equal for each in checks) else ("✗", "red")
    file, _, line = fmt.one_line(place.line or "", 400).rpartition(":")
    known = fmt.short_place(file, int(line), cwd, _WIDEST) if file and line.isdigit() else ""
    where = known or fmt.one_line(place.line or "line not known", _WIDEST)
    graph = f"graph {fmt.one_line(place.graph, 40)} {place.stage}"
    operator = (fmt.one_line(place.operator, 100), "dim")
    yield marked(sign, style, Text.assemble(f"{graph}  {where}  ", operator))
    if not place.applied:
        yield hanging(f"not applied: {place.why}")
    elif place.operator_called is None:
        yield hanging("compiled code launches the kernel directly")
    else:
        yield hanging(f"compiled code calls the operator: {place.operator_called}")
    for each in checks:
        text = _RAN[each.kernel] + ("" if each.largest is None else f": {words.difference(each.largest)}")
        if each.equal:
            yield hanging(text, "")
        else:
            yield hanging(f"{text}: WRONG", "red")
        if each.wrong is not None:
            yield hanging(words.element(each.wrong), "red")
        if each.note:
            yield hanging(each.note, "yellow")


def _results(found: AppliedPackage) -> Iterator[RenderableType]:
    if not found.compared:
        return
    what = "results and gradients" if found.part == "step" else "results"
    yield section(f"The model's {what}")
    for each in found.compared:
        against = {"compiled": "the unchanged compile", "eager": "eager"}[each.against]
        sign, style = ("✓", "green") if each.equal else ("✗", "red")
        by = words.difference(each.largest, none="nothing to compare" if each.wrong is None else "not finite")
        yield marked(sign, style, f"{fmt.one_line(each.scenario, 40)} against {against}: {by}")
        if each.wrong is not None:
            yield hanging(words.element(each.wrong), "red")


def _colored(diff: str) -> Text:
    text = Text()
    for line in diff.splitlines():
        styles = {"+": "green", "-": "red", "@": "cyan"}
        text.append(f"{fmt.plain(line)}\n", style=styles.get(line[:1], ""))
    text.rstrip()
    return text
