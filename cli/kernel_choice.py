"""Choose what `ctrace kernels` shows, by the options on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ctrace.cli.command_options import Screen
from ctrace.inspector.errors import TargetError

if TYPE_CHECKING:
    from ctrace.inspector.diagnosis.side_by_side_document import SideBySideDocument
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.findings.kernels.at_line import LineDocument
    from ctrace.inspector.findings.kernels.kernels_document import KernelsDocument, StageDocument, WrappersDocument
    from ctrace.reports.dump.dumped import Dumped

    KernelsAnswer: TypeAlias = KernelsDocument | LineDocument | WrappersDocument | StageDocument | Dumped


class KernelChoice(Struct, frozen=True):
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
        # Each narrows some views, and excludes those that it could not narrow.
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

    @property
    def is_table(self) -> bool:
        """Whether the screen is the tables of all kernels, which begin with the verdict."""
        return not any((self.kernel, self.line, self.dump, self.ir, self.source, self.wrapper))


def side_by_side(found: "SideBySideDocument[KernelsAnswer]", view: KernelChoice, width: int) -> Screen:
    """Return a screen that compares several GPUs."""
    from ctrace.reports.terminal.side_by_side_screen import kernels_side_by_side

    return kernels_side_by_side(found, width, all_of_it=view.all_of_it)


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


def document(session: "Session", view: KernelChoice) -> "KernelsAnswer":
    """Answer for what the options select.

    Raises:
        CtraceError: there is no such thing in the run, or a dump cannot be written.
    """
    from ctrace.inspector.findings.kernels import kernels_document as kernels
    from ctrace.inspector.findings.kernels.at_line import line_document

    if view.dump:
        from ctrace.reports.dump.dumping import dump

        return dump(session, Path(view.dump))
    if view.ir:
        return kernels.stage_document(session, view.ir, view.kernel, view.graph)
    if view.wrapper:
        return kernels.wrappers_document(session, view.graph, view.stage)
    if view.line and not view.source:
        return line_document(session, view.line, view.graph, view.stage)
    return kernels.kernels_document(
        session, view.graph, view.stage, kernel=view.kernel, line=view.line, has_code=view.source
    )


def screen(answer: "KernelsAnswer", view: KernelChoice, width: int) -> Screen:
    """Return the answer as a screen."""
    from ctrace.inspector.findings.kernels import kernels_document as kernels
    from ctrace.inspector.findings.kernels.at_line import LineDocument
    from ctrace.reports.terminal import kernel_detail as screens

    match answer:
        case kernels.StageDocument():
            return screens.stage_code_screen(answer)
        case kernels.WrappersDocument():
            return screens.wrapper_screen(answer)
        case LineDocument():
            return screens.line_screen(answer)
        case kernels.KernelsDocument():
            if view.source:
                return screens.source_screen(answer)
            if view.kernel:
                return screens.kernel_screen(answer, all_of_it=view.all_of_it)
            return screens.kernels_screen(answer, width, all_of_it=view.all_of_it)
    return screens.dump_screen(answer)
