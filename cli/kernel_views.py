"""Choose what `ctrace kernels` shows, by the options on the command line."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ctrace.cli.command_options import Screen
from ctrace.inspector.errors import TargetError

if TYPE_CHECKING:
    from ctrace.inspector.facts.kernels import OutputCode
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.findings.kernels.at_line import KernelAtLine, Wanted
    from ctrace.inspector.findings.kernels.kernel_view import PartKernels
    from ctrace.reports.dump.dumped import Dumped
    from ctrace.reports.escape import Document


class KernelView(Struct, frozen=True):
    """The options of one command line.

    Raises:
        TargetError: two options exclude each other.
    """

    graph: str | None = None
    stage: str | None = None
    kernel: str | None = None
    line: str | None = None
    dump: str | None = None
    ir: str | None = None
    source: bool = False
    wrapper: bool = False
    all_of_it: bool = False

    def __post_init__(self) -> None:
        whole = {"--dump": self.dump, "--wrapper": self.wrapper, "--ir": self.ir, "--line": self.line}
        chosen = [name for name, value in whole.items() if value]
        narrowed = {
            "--kernel": bool(self.kernel) and not self.ir,
            "--source": self.source and not self.line,
            "--graph": bool(self.graph and self.dump),
            "--stage": bool(self.stage and (self.dump or self.ir)),
        }
        chosen += [name for name, value in narrowed.items() if value and chosen]
        if len(chosen) > 1:
            raise TargetError(f"{' and '.join(chosen[:2])} exclude each other", "choose one")

    @property
    def views(self) -> dict[str, object]:
        """The options that narrow or replace the table of kernels."""
        return {
            "--graph": self.graph,
            "--stage": self.stage,
            "--kernel": self.kernel,
            "--line": self.line,
            "--dump": self.dump,
            "--ir": self.ir,
            "--source": self.source,
            "--wrapper": self.wrapper,
        }


def side_by_side(targets: "Mapping[str, Session]", failed: "Mapping[str, str]", view: KernelView, width: int) -> Screen:
    """Return a screen that compares several GPUs."""
    from ctrace.reports.terminal.side_by_side_screen import kernels_side_by_side

    return kernels_side_by_side(targets, failed, width, all_of_it=view.all_of_it)


def with_torchs(session: "Session") -> "Session":
    """Add the kernels that torch's own log has, and say what of it cannot be parsed."""
    from ctrace.cli.console import say
    from ctrace.inspector.findings.kernels.emitted_code import with_torchs_kernels

    found, problems = with_torchs_kernels(session)
    for each in problems[:_MOST_PROBLEMS]:
        say(f"ctrace: {each}")
    return found


# Chosen: lines on stderr above the screen; what cannot be parsed of one log is mostly alike.
_MOST_PROBLEMS = 3


def data(session: "Session", view: KernelView) -> "Document":
    """Return the view as JSON."""
    from ctrace.reports.json import kernels_json as json_kernels

    if view.dump:
        return json_kernels.render_dump_json(session, _dumped(session, view.dump))
    if view.ir:
        return json_kernels.render_ir_json(session, view.ir, view.kernel, view.graph)
    if view.wrapper:
        return json_kernels.render_wrappers_json(session, _wrappers(session, view))
    found = _parts(session, view)
    if view.line and not view.source:
        return json_kernels.render_line_json(session, *of_line(session, view.line, view, found))
    return json_kernels.render_kernels_json(session, _chosen(session, view, found), source=view.source)


def screen(session: "Session", view: KernelView, width: int) -> Screen:
    """Return the view as a screen."""
    from ctrace.reports.terminal import kernel_detail as one
    from ctrace.reports.terminal.kernel_tables import kernels_screen

    if view.dump:
        return _dump_screen(session, view.dump)
    if view.ir:
        return _ir_screen(session, view)
    if view.wrapper:
        return one.wrapper_screen(session, _wrappers(session, view))
    found = _parts(session, view)
    if view.source:
        return one.source_screen(session, _chosen(session, view, found))
    if view.line:
        return one.line_screen(session, *of_line(session, view.line, view, found))
    if view.kernel:
        return one.kernel_screen(session, _chosen(session, view, found), all_of_it=view.all_of_it)
    shown = kernels_screen(session, found, width, all_of_it=view.all_of_it)
    return chain(shown, _beside(session, view, found, width))


def _beside(session: "Session", view: KernelView, found: "tuple[PartKernels, ...]", width: int) -> Screen:
    """Show the sections that only some runs have: user-written kernels, built kernels, a target GPU."""
    from ctrace.inspector.findings.target_view import target_of
    from ctrace.reports.terminal.kernel_detail import resources_screen, times_screen, user_kernels_section
    from ctrace.reports.terminal.widgets import MOST

    yield from user_kernels_section(session, most=None if view.all_of_it else MOST)
    if session.timed:
        yield from times_screen(session, width, view.graph)
    if session.built:
        yield from resources_screen(session, width, view.graph, all_of_them=view.all_of_it)
    if target_of(session):
        yield from _for_a_target(session, view, found, width)


def _for_a_target(session: "Session", view: KernelView, found: "tuple[PartKernels, ...]", width: int) -> Screen:
    """Show bounds, choices that autotuning makes on the device, and questions about the device."""
    from ctrace.reports.terminal import target_screen as target
    from ctrace.reports.terminal.target_screen import bounds_screen

    if not session.built:
        yield target.nothing_compiled(session)
    yield from bounds_screen(session, found, width, all_of_it=view.all_of_it)
    yield from target.choices_section(session, all_of_it=view.all_of_it)
    yield from target.questions_section(session, all_of_it=view.all_of_it)


def _dumped(session: "Session", folder: str) -> "Dumped":
    from ctrace.reports.dump.dumping import dump

    return dump(session, Path(folder))


def _dump_screen(session: "Session", folder: str) -> Screen:
    from ctrace.reports.terminal.kernel_detail import dump_screen

    return dump_screen(session, _dumped(session, folder))


def _ir_screen(session: "Session", view: KernelView) -> Screen:
    from ctrace.reports.terminal.kernel_detail import ir_screen

    return ir_screen(session, str(view.ir), view.kernel, view.graph)


def _parts(session: "Session", view: KernelView) -> "tuple[PartKernels, ...]":
    from ctrace.inspector.findings.kernels.kernel_view import parts

    return parts(session, view.graph, view.stage)


def _chosen(session: "Session", view: KernelView, found: "tuple[PartKernels, ...]") -> "tuple[PartKernels, ...]":
    """Keep the kernels that the name or line selects.

    Raises:
        TargetError: there is none.
    """
    from ctrace.inspector.findings.kernels.kernel_view import named

    if view.kernel:
        return named(found, view.kernel)
    if not view.line:
        return found
    place, of_lines, why = of_line(session, view.line, view, found)
    if not of_lines:
        raise TargetError(f"--line {place.text}: no kernel contains it", why)
    return tuple(replace(part, rows=tuple(each.row for each in of_part)) for part, of_part in of_lines)


def of_line(
    session: "Session", line: str, view: KernelView, found: "tuple[PartKernels, ...]"
) -> "tuple[Wanted, tuple[tuple[PartKernels, tuple[KernelAtLine, ...]], ...], str]":
    """Return the kernels of some source lines, and if there are none, why.

    Raises:
        TargetError: there is none, and it is not known why.
    """
    from ctrace.inspector.findings.kernels.at_line import check_file, kernels_of, nearest, wanted, why_none

    place = wanted(line)
    check_file(session, place)
    of_lines = kernels_of(found, place)
    why = "" if of_lines else why_none(session, place, view.graph)
    if not of_lines and not why:
        raise TargetError(f"--line {line}: no kernel contains it", nearest(found, place))
    return place, of_lines, why


def _wrappers(session: "Session", view: KernelView) -> "tuple[tuple[OutputCode, str], ...]":
    """Return the selected wrappers.

    Raises:
        TargetError: there is none.
    """
    from ctrace.inspector.findings.kernels.at_line import wrappers

    found = tuple(wrappers(session, view.graph, view.stage))
    if not found:
        known = ", ".join(f"{code.graph} {code.stage}" for code in session.code[:8])
        todo = f"there is code for: {known}" if known else "the log has no code; run the model again with this ctrace"
        part = " ".join(each for each in (view.graph, view.stage) if each)
        raise TargetError(f"--wrapper: this run has no code{' for ' if part else ''}{part}", todo)
    return found
