"""Write the compiled code of dumped kernels, one file per stage, and describe their resources."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.built import IR_STAGES
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.built_view import Resources, codes, resources, stages_of, text_of
from ctrace.inspector.findings.target.view import called, target_of
from ctrace.reports import format as fmt
from ctrace.reports.wording.built import COMMENTS, configuration_text, resources_text

_LAST = IR_STAGES[-1]


class CodeFile(Struct, frozen=True):
    """A file of code that Triton compiled."""

    name: str
    text: str


def built_of(session: Session, graph: str, stage: Stage) -> dict[str, tuple[Resources, ...]]:
    """Return every compiled configuration of each kernel of a graph part, by the kernel's name."""
    found: dict[str, tuple[Resources, ...]] = {}
    for each in resources(session, graph, all_of_them=True):
        if each.built.stage is stage:
            found[each.built.kernel] = (*found.get(each.built.kernel, ()), each)
    return found


class Instructions(Struct, frozen=True):
    """The machine code of a graph part's kernels; ctrace may have to disassemble their binaries."""

    by_hash: Mapping[str, str]
    why_not: str = ""


def instructions(session: Session, graph: str) -> Instructions:
    """Read the machine code of all kernels of a graph at once, or say why that fails."""
    compiled = (each for each in session.built if each.graph == graph)
    if not any(_LAST in stages_of(each) for each in compiled):
        return Instructions({})
    try:
        found = codes(session, _LAST, graph=graph)
    except TargetError as error:
        return Instructions({}, error.what)
    return Instructions({each.built.hash: each.text for each in found if each.text is not None})


def code_files(session: Session, stem: str, found: tuple[Resources, ...], last: Instructions) -> Iterator[CodeFile]:
    """Write the code of each configuration: `KERNEL.ptx`, or `KERNEL.1.ptx`, `KERNEL.2.ptx` and so on for several."""
    compiled = [each for each in found if each.built.ir]
    for number, each in enumerate(compiled, 1):
        middle = f".{number}" if len(compiled) > 1 else ""
        for stage in IR_STAGES:
            text = text_of(each.built.ir[stage]) if stage in each.built.ir else None
            if stage == _LAST:
                text = last.by_hash.get(each.built.hash)
            if text is not None:
                yield CodeFile(f"{stem}{middle}.{stage}", f"{_head(session, each, stage)}\n{text.rstrip()}\n")


def _head(session: Session, each: Resources, stage: str) -> str:
    mark = COMMENTS.get(stage, "//")
    gpu = target_of(session)
    target_note = f", emitted for {fmt.one_line(called(gpu), 100)}, not run" if gpu else ""
    return f"{mark} {fmt.one_line(each.built.kernel, 100)}, {configuration_text(each.built)}{target_note}"


def notes(session: Session, found: tuple[Resources, ...], *, generated: bool) -> tuple[str, ...]:
    """Say in the head of a kernel's file which GPU it needs, and which resources each configuration uses."""
    gpu = target_of(session)
    target_note = (f"emitted for {called(gpu)}, not run; running it needs such a GPU",) if gpu and generated else ()
    return (*target_note, *map(resources_text, found))
