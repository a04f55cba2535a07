"""Screens of kernels as packages: `ctrace kernels eject`, `apply`, `tune` and `wrap`.

Each begins with the answer in one line; places, configurations and limits follow.
"""

import shlex
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.workshop.package_configurations import best_of, own_of
from ctrace.inspector.features.workshop.package_model import (
    AppliedPackage,
    ApplyDocument,
    ExpectedPlace,
    KernelConfiguration,
    PackageTuning,
    RegionCheck,
    SizeClass,
    TriedConfiguration,
    TunedConfigurations,
    TuneDocument,
    TunedPackage,
)
from ctrace.inspector.features.workshop.triton_op_model import OperatorCheck, OperatorLimit, WrapResult
from ctrace.reports import format as fmt
from ctrace.reports.dump.eject_writing import EjectDocument
from ctrace.reports.terminal.widgets import Verbatim, capped, columned, fix, hanging, item, marked, more, section
from ctrace.reports.wording import kernel_packages as words

_WIDEST = 50
"""The most columns of a place."""
_RAN = {
    "gpu": "the kernel ran on the GPU",
    "cpu": "the kernel ran on the CPU",
    "interpreter": "the kernel ran in Triton's interpreter",
    "fallback": "the operator ran its CPU code; the kernel itself was not run",
}
_ORIGINS = {
    "triton": "read by torch from Triton's intermediate code of a launch",
    "source": "read from the source: pointers that flow into tl.store or an atomic operation",
}
_CPU = {
    "branch": "the function's own branch",
    "interpreter": "Triton's interpreter, which is slow",
}
_SIGNS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
"""How a check is marked: it holds, it does not, or it was not made."""
_MOST = 12
"""How many configurations of a size class a screen lists."""


def ejected_screen(document: EjectDocument, width: int) -> Iterator[RenderableType]:
    """Show how many kernels were ejected, each package with its op, and each refusal with its reason."""
    found = document.kernels
    # Several words of the command may name one kernel, whose package counts once.
    written = list({each.written.folder: each.written for each in found if each.written is not None}.values())
    refused = [each for each in found if each.written is None]
    if not found:
        yield Text("No kernel ejected: the run has no generated kernel", "bold yellow")
        yield fix("name a model that torch.compile compiles: --of model.py")
        return
    total = f"{len(found) - len(refused)} of {fmt.count(len(found), 'kernel')} ejected"
    yield Text(f"{total}, {fmt.count(len(written), 'package')} written", "bold")
    for each in written:
        names = ", ".join(size.name for size in each.package.sizes)
        sizes = fmt.framed("dynamic sizes ", names) or "fixed sizes"
        taken = fmt.count(len(each.package.region.inputs), "input")
        stored = fmt.count(len(each.package.region.outputs), "output")
        yield item(Text(fmt.one_line(f"{each.folder}/", width - 4)))
        kernels = fmt.repeated(len(each.package.parts), "", " kernels")
        yield hanging(fmt.joined(", ", kernels, taken, stored, sizes))
    if written:
        tested = written[0].folder if len(written) == 1 else written[0].folder.parent
        files = {f"kernel.{'py' if each.package.cpp is None else 'cpp'}" for each in written}
        package = shlex.quote(str(written[0].folder)) if len(written) == 1 else "FOLDER"
        target = shlex.quote(document.model) if document.model else "TARGET"
        yield fix(f"python -m pytest {fmt.plain(shlex.quote(str(tested)))}")
        yield fix(f"edit {fmt.listed(sorted(files), 2)}; ctrace kernels edit {fmt.plain(package)} checks each save")
        yield fix(f"ctrace kernels apply {fmt.plain(package)} {fmt.plain(target)} puts it into the model")
    if refused:
        yield section("Not ejected")
    for one in refused:
        yield item(Text(fmt.one_line(f"{one.kernel.name}  ({one.kernel.graph}, {one.kernel.stage})", width - 4)))
        yield hanging(f"{one.why}; {one.instead}")


def apply_screen(document: ApplyDocument, cwd: str = "") -> Iterator[RenderableType]:
    """Show whether a package fits a model and is correct there, and what it gains."""
    found = document.of
    yield _headline(found, document.summary)
    yield hanging(f"{document.package} in {document.target}, on {found.device}")
    yield from _trouble(found)
    if document.diffs and found.equal:  # they are what was asked for; the rest is the screen without --diff
        yield from _ways(document.diffs)
        return
    if found.places:
        yield section("Places")
        for index, place in enumerate(found.places):
            yield from _place(place, [each for each in found.regions if each.place == index], cwd)
    yield from _results(found)
    yield from (hanging(each, "yellow") for each in found.notes)
    yield from _ways(document.diffs)


def _ways(diffs: Sequence[str]) -> Iterator[RenderableType]:
    for diff in diffs:
        yield Text()
        yield Verbatim(_colored(diff))


def _headline(found: AppliedPackage, summary: str) -> Text:
    applied = sum(each.applied for each in found.places)
    if found.equal is False:
        style = "bold red"
    elif applied < len(found.places) or not applied:
        style = "bold yellow"
    else:
        style = "bold green"
    return Text(summary, style=style)


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
    sign, style = _SIGNS[place.applied and all(each.equal for each in checks)]
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
        text = f"{_RAN[each.kernel]}{fmt.framed(': ', fmt.known(each.largest, words.difference, ''))}"
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
        sign, style = _SIGNS[each.equal]
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


def _wrapped(checks: Sequence[OperatorCheck]) -> tuple[str, str]:
    """Return what became of an operator, and the style of that."""
    if not checks:
        return "WRAPPED, NOT CHECKED", "bold yellow"
    if any(each.passed is False for each in checks):
        return "WRAPPED, WRONG", "bold red"
    if any(each.passed is None for each in checks):
        return "WRAPPED, NOT ALL CHECKED", "bold yellow"
    return "WRAPPED", "bold green"


def wrap_screen(result: WrapResult) -> Iterator[RenderableType]:
    """Show what was written, and whether it holds."""
    made = result.wrapped
    head, style = _wrapped(result.checks)
    place = fmt.one_line(f"{made.file}:{made.line}")
    yield Text.assemble(
        (head, style), "  ", (fmt.one_line(made.name), "bold"), f"  {fmt.one_line(made.kernel)}, {place}"
    )
    yield _fact("writes to", f"{', '.join(made.written) or 'nothing'} in the kernel, {_mutated(made.mutates)}")
    yield _fact("", _ORIGINS[made.written_source])
    yield _fact("fake", made.fake)
    yield _fact("on a CPU", _CPU[made.cpu])
    flops = "a stub to fill in: the kernel loops or reduces" if made.flops is None else f"{made.flops} per element"
    yield _fact("FLOPs", flops)
    yield _fact("gradient", "none: add register_autograd if the operator is trained through")
    yield section("Checks")
    for each in result.checks:
        yield from _check(each)
    if not result.checks:
        yield Text("  none: the model was not run")
    applying = [each for each in result.limits if each.applies]
    yield section("Limits of torch: those with ! apply" if applying else "Limits of torch: none applies")
    for limit in result.limits:
        yield _limit(limit)
    yield from (hanging(each, "yellow") for each in made.notes)
    yield section("In your code")
    yield Text(f"  - {fmt.one_line(made.calls[0], 300)}", style="red")
    yield Text(f"  + {fmt.one_line(made.calls[1], 300)}", style="green")


def _fact(name: str, text: str) -> Text:
    return Text.assemble((f"  {name:<10}", "dim"), fmt.one_line(text, 300))


def _mutated(names: tuple[str, ...]) -> str:
    if names:
        return f"so the operator mutates {', '.join(names)}"
    return "which the operator allocates"


def _check(check: OperatorCheck) -> Iterator[RenderableType]:
    detail = fmt.framed(": ", fmt.one_line(check.detail, 300))
    yield marked(*_SIGNS[check.passed], f"{fmt.one_line(check.what, 200)}{detail}")


def _limit(limit: OperatorLimit) -> RenderableType:
    return marked(*(("!", "yellow") if limit.applies else ("·", "dim")), fmt.one_line(limit.what, 300))


def tune_screen(document: TuneDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show what was tried, and what it costs or takes."""
    for package in document.packages:
        yield from _tuned_package(package, width, all_of_it=all_of_it)


def _tuned_package(package: TunedPackage, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    found = package.of
    for kernel in found.kernels:
        yield _tuned_kernel(package.folder, found, kernel)
        for each in kernel.classes:
            yield section(f"{each.name}: {fmt.one_line(each.sizes, 100)}")
            rows = _ordered(each)
            shown = capped(rows, _MOST, all_of_it=all_of_it)
            yield columned(width, _tuned_columns(found), [_tuned_row(one, found, kernel) for one in shown])
            yield from more(len(rows), "", "--all", most=len(shown))
    yield from (hanging(each) for each in package.notes)


def _tuned_kernel(folder: str, found: PackageTuning, kernel: TunedConfigurations) -> Text:
    tried = [one for each in kernel.classes for one in each.tried]
    failed = sum(bool(one.failed) for one in tried)
    name = fmt.one_line(f"{kernel.kernel} of {folder}", 200)
    if not found.is_timed:
        answer = f"{fmt.count(len(tried) - failed, 'configuration')} compiled for {found.device}; times not measured"
    else:
        answer = "; ".join(_gain(kernel, each) for each in kernel.classes)
    left = fmt.framed("; ", failed or None, " failed")
    device = f", on {found.device}" if found.is_timed else ""
    return Text.assemble((f"{answer}{left}", "bold"), f"\n   {name}{device}")


def _gain(kernel: TunedConfigurations, each: SizeClass) -> str:
    best, own = best_of(each), own_of(kernel, each)
    if best is None or best.seconds is None:
        return f"{each.name}: no configuration is right"
    if own is None or own.seconds is None:
        return f"{each.name}: {best.seconds * 1e6:.3g} us"
    if best is own:
        return f"{each.name}: {own.seconds * 1e6:.3g} us, nothing is measurably faster"
    return f"{each.name}: {own.seconds * 1e6:.3g} -> {best.seconds * 1e6:.3g} us"


def _ordered(each: SizeClass) -> list[TriedConfiguration]:
    """Return the fastest first; without times, those that spill least and fit most."""

    def key(one: TriedConfiguration) -> tuple[bool, float, int, float]:
        seconds = one.seconds if one.seconds is not None else float("inf")
        # Failed ones have no time, and belong at the end even where nothing was timed.
        return bool(one.failed), seconds, one.spills or 0, -(one.occupancy or 0.0)

    return sorted(each.tried, key=key)


def _tuned_columns(found: PackageTuning) -> tuple[str, ...]:
    times = (">us",) if found.is_timed else ()
    return ("configuration", *times, ">registers", ">spills", ">shared", ">occupancy", "limited by")


def _tuned_row(one: TriedConfiguration, found: PackageTuning, kernel: TunedConfigurations) -> tuple[str, ...]:
    own = ", now" if kernel.current is not None and one.configuration.key == kernel.current.key else ""
    name = f"{configuration_text(one.configuration)}{own}"
    if one.failed:
        blank = ("-",) * (len(_tuned_columns(found)) - 2)
        return (name, *blank, fmt.one_line(one.failed, 60))
    cells = [name]
    if found.is_timed:
        cells.append(fmt.known(one.seconds, lambda seconds: f"{seconds * 1e6:.2f}", "-"))
    cells += [fmt.known(one.registers), fmt.known(one.spills), fmt.known(one.shared, fmt.memory)]
    return (*cells, fmt.known(one.occupancy, "{:.0%}".format), one.limited_by)


def configuration_text(each: KernelConfiguration) -> str:
    """Return a configuration for a table, such as `4w 1s XBLOCK=256`."""
    blocks = "".join(f" {name}={size}" for name, size in each.blocks.items())
    return f"{each.warps}w {each.stages}s{blocks}"
