"""What `ctrace kernels` shows, by what was asked for."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctrace.inspector.errors import TargetError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ctrace.inspector.generated import OutputCode
    from ctrace.inspector.model import Session
    from ctrace.inspector.views.kernellines import OfLine, Wanted
    from ctrace.inspector.views.kernels import Part


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one command line.

    Raises:
        TargetError: two of them exclude each other.
    """

    graph: str | None = None
    stage: str | None = None
    kernel: str | None = None
    line: str | None = None
    source: bool = False
    wrapper: bool = False
    all_of_it: bool = False

    def __post_init__(self) -> None:
        choices = {"--kernel": self.kernel, "--line": self.line, "--wrapper": self.wrapper}
        chosen = [name for name, wanted in choices.items() if wanted]
        if self.wrapper and self.source:
            chosen.append("--source")
        if len(chosen) > 1:
            raise TargetError(f"{' and '.join(chosen[:2])} exclude each other", "choose one")


def data(session: "Session", asked: Asked) -> str:
    """Make JSON."""
    from ctrace.reports import json_kernels

    if asked.wrapper:
        return json_kernels.render_wrappers_json(session, _wrappers(session, asked))
    found = _parts(session, asked)
    if asked.line and not asked.source:
        return json_kernels.render_line_json(session, *_of_line(session, asked.line, asked, found))
    return json_kernels.render_kernels_json(session, _chosen(session, asked, found), source=asked.source)


def screen(session: "Session", asked: Asked, width: int) -> "Iterable[RenderableType]":
    """Make a screen."""
    from ctrace.reports.terminal import kernel as one
    from ctrace.reports.terminal.kernels import kernels_screen

    if asked.wrapper:
        return one.wrapper_screen(_wrappers(session, asked))
    found = _parts(session, asked)
    if asked.source:
        return one.source_screen(session, _chosen(session, asked, found))
    if asked.line:
        return one.line_screen(session, *_of_line(session, asked.line, asked, found))
    if asked.kernel:
        return one.kernel_screen(session, _chosen(session, asked, found), all_of_it=asked.all_of_it)
    return kernels_screen(session, found, width, all_of_it=asked.all_of_it)


def _parts(session: "Session", asked: Asked) -> "tuple[Part, ...]":
    from ctrace.inspector.views.kernels import parts

    return parts(session, asked.graph, asked.stage)


def _chosen(session: "Session", asked: Asked, found: "tuple[Part, ...]") -> "tuple[Part, ...]":
    """Keep the kernels that are asked for by name or line.

    Raises:
        TargetError: there is none.
    """
    from ctrace.inspector.views.kernels import named

    if asked.kernel:
        return named(found, asked.kernel)
    if not asked.line:
        return found
    place, of_lines, why = _of_line(session, asked.line, asked, found)
    if not of_lines:
        raise TargetError(f"--line {place.text}: no kernel carries it", why)
    return tuple(replace(part, rows=tuple(each.row for each in told)) for part, told in of_lines)


def _of_line(
    session: "Session", line: str, asked: Asked, found: "tuple[Part, ...]"
) -> "tuple[Wanted, tuple[tuple[Part, tuple[OfLine, ...]], ...], str]":
    """Find the kernels of some lines; where there are none, also why.

    Raises:
        TargetError: there is none, and it is not known why.
    """
    from ctrace.inspector.views.kernellines import check_file, kernels_of, nearest, wanted, why_none

    place = wanted(line)
    check_file(session, place)
    of_lines = kernels_of(found, place)
    why = "" if of_lines else why_none(session, place, asked.graph)
    if not of_lines and not why:
        raise TargetError(f"--line {line}: no kernel carries it", nearest(found, place))
    return place, of_lines, why


def _wrappers(session: "Session", asked: Asked) -> "tuple[tuple[OutputCode, str], ...]":
    """Give the wrappers that are asked for.

    Raises:
        TargetError: there is none.
    """
    from ctrace.inspector.views.kernelcode import wrappers

    found = tuple(wrappers(session, asked.graph, asked.stage))
    if not found:
        known = ", ".join(f"{code.graph} {code.stage}" for code in session.code[:8])
        todo = f"there is code of: {known}" if known else "the log holds no code; run it anew with this ctrace"
        raise TargetError("--wrapper: this run has no such code", todo)
    return found
