"""What a run with `--target` rests on, on a screen: which GPU, what is left to it, where it was asked about."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.model.session import Session
from ctrace.inspector.model.target import Candidate, DeviceQuestion, Undecided
from ctrace.inspector.target.view import (
    NEEDS_DEVICE,
    Open,
    left_open,
    open_sentence,
    question_place,
    question_sentence,
    questions,
    several,
    target_of,
    target_sentence,
)
from ctrace.reports import format as fmt
from ctrace.reports.terminal.parts import MOST, hanging, item, more, section
from ctrace.reports.text.kernels import lines_text
from ctrace.reports.text.target import kernel_facts

_CANDIDATES = 4


def basis_line(session: Session, *, work: bool = True) -> Iterator[RenderableType]:
    """Say what was emitted, what was computed and what is not known, where code is for a GPU that nothing ran on."""
    if target_of(session) is None:
        return
    computed = "; bytes, FLOPs and bounds are computed" if work else ""
    yield Text(f"Kernels and code are emitted{computed}. Times are {NEEDS_DEVICE}.", style="dim")


def code_note(session: Session) -> str:
    """Write what stands behind the title of emitted code; empty: no other GPU was named."""
    gpu = target_of(session)
    return f" (emitted for {fmt.one_line(gpu.target, 30)}, not run)" if gpu else ""


def emitted_for(session: Session) -> Iterator[RenderableType]:
    """Say what GPU a screen without a verdict is about."""
    if told := target_sentence(session):
        yield Text(fmt.one_line(told, 600), style="yellow")


def nothing_compiled(session: Session) -> Text:
    """Say that registers, spills and shared memory are not known."""
    triton = "" if session.environment.triton else ": Triton is not installed"
    return Text(f"\nResources not known: Triton compiled none of these kernels{triton}.", style="dim")


def facts(session: Session) -> Iterator[RenderableType]:
    """Show, for `explain`, bounds and spills in a line each."""
    for told in kernel_facts(session):
        yield item(Text(told, style="dim"))


def in_short(session: Session) -> Iterator[RenderableType]:
    """Show, for `explain`, what is left to the device and where the program asked about it."""
    if told := open_sentence(session):
        yield section("Choices left to the device, which times them")
        yield item(Text(fmt.one_line(f"{told}: see ctrace kernels --all", 400)))
    yield from questions_section(session)


def questions_section(session: Session, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """List where the program asked about the device."""
    found = questions(session)
    if not found:
        return
    yield section("The program asks about the device")
    for each in found if all_of_it else found[:MOST]:
        yield _question(each)
    if not all_of_it:
        yield from more(len(found), "question", "ctrace kernels --all")


def _question(each: DeviceQuestion) -> RenderableType:
    where = f"{question_place(each)} in {each.function}: "
    style = "" if each.as_target else "yellow"
    return item(Text.assemble((fmt.one_line(where, 120) + " ", "bold"), (fmt.one_line(question_sentence(each)), style)))


def choices_section(session: Session, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """List the choices that torch makes by timing on the device, with the way that the emitted code goes."""
    compiled = several(session)
    for kind in left_open(session):
        yield section(f"Left to the device, which times them: {fmt.one_line(kind.sentence, 100)}")
        if all((each.graph, each.stage, each.subject) in compiled for each in kind.choices):
            yield item(Text(f"all are compiled, see the resources; which is best is {NEEDS_DEVICE}"))
        else:
            yield from _kind(kind, all_of_it=all_of_it)


def _kind(kind: Open, *, all_of_it: bool) -> Iterator[RenderableType]:
    for each in kind.choices if all_of_it else kind.choices[:MOST]:
        lines = f"  {fmt.one_line(lines_text(each.lines), 60)}" if each.lines else ""
        head = fmt.one_line(f"{each.graph} {each.stage}: {each.subject}", 120)
        yield item(Text.assemble((head, "bold"), (lines, "dim")))
        taken = each.taken or ("all of them" if each.kind == "configuration" else "not known which")
        yield hanging(f"emitted: {taken}; which is best is {NEEDS_DEVICE}")
        if each.candidates:
            yield from (hanging(line, "dim") for line in _candidates(each, all_of_it=all_of_it))
    if not all_of_it:
        yield from more(len(kind.choices), "choice", "--all")


def _candidates(each: Undecided, *, all_of_it: bool) -> Iterator[str]:
    """Write a line of the first candidates, or a line each: in each what not all of them have."""
    same = _same(each.candidates)
    told = [_candidate(one, each.subject, same) for one in each.candidates]
    number = fmt.count(len(told), "candidate")
    if all_of_it and len(told) > 1:
        yield f"{number}, all of Inductor's with {' '.join(same)}:" if same else f"{number}:"
        yield from told
    else:
        yield f"{number}: {fmt.listed(told, _CANDIDATES)}"


def _same(candidates: tuple[Candidate, ...]) -> tuple[str, ...]:
    """Give the settings that all candidates with a configuration have; none where that is one."""
    told = [one.configuration.split(", ") for one in candidates if one.configuration]
    return tuple(each for each in told[0] if all(each in other for other in told)) if len(told) > 1 else ()


def _candidate(one: Candidate, subject: str, same: tuple[str, ...]) -> str:
    configuration = " ".join(each for each in one.configuration.split(", ") if each not in same)
    if one.name == subject and configuration:
        return configuration
    return f"{one.name} ({configuration})" if configuration else one.name
