"""The README of a dump."""

from collections.abc import Iterator

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.target.view import target_sentence
from ctrace.reports import format as fmt
from ctrace.reports.dump.dumped import Dumped, DumpedKernel, DumpedPart
from ctrace.reports.markup import code
from ctrace.reports.wording.built import resources_text

_HOW = """\
Every kernel has its own file, with its source as Inductor generated it, made-up inputs, and a benchmark.

    python FOLDER/KERNEL.py      run it once, time it, print bytes and FLOPs per second
    python FOLDER/wrapper.py     run all kernels of the graph part and compare with the graph run in eager

From Python, a kernel's file has `inputs()`, `run(args)` and `benchmark()`, which returns seconds. `wrapper.py`
imports the kernels from their files: edit one, and the wrapper runs it and says whether the results are still right.
`graph.txt` is the graph that Inductor compiled, as torch printed it; `graph.py` is the same graph as a program.

Inputs are made up, from a fixed seed: floating-point numbers between -1 and 1 (between 0.1 and 1 if others make the
graph return NaN or infinity); integers below the size that they index, if the kernels show it, else 0 or 1.
If a call needs operators that your own library registers, add `--import MODULE`.

Exit codes: 0 done, 1 the results differ from eager or eager fails, 2 this machine lacks something, such as the device.

**These files are code.** Kernels and graphs come unchanged from a log; run them only if you trust the log.
"""

_NEEDS = (
    "To run these files, copy them to a machine with that GPU. Registers, spills and shared memory are from Triton's "
    "compiler; bytes and FLOPs are computed; times are not measured."
)


def readme(session: Session, dumped: Dumped) -> str:
    """Write the page, in Markdown."""
    return "\n".join([*_lines(session, dumped), ""])


def _lines(session: Session, dumped: Dumped) -> Iterator[str]:
    name = session.target.path or session.target.name or "a run"
    versions = [f"torch {session.environment.torch}" if session.environment.torch else "", session.environment.device]
    yield f"# Kernels of {_cell(name)}"
    yield ""
    yield ", ".join(_cell(each) for each in versions if each) or "The log does not record the torch version."
    yield ""
    if line := target_sentence(session):
        yield f"{_cell(line)} {_NEEDS}"
        yield ""
    yield _HOW
    for part in dumped.parts:
        yield from _part(part, session.environment.cwd)


def _part(part: DumpedPart, cwd: str) -> Iterator[str]:
    yield f"## Graph {_cell(part.graph)}, {part.stage}: `{part.folder}/`"
    yield ""
    if part.why_not:
        yield f"Left out: {_cell(part.why_not)}."
        yield ""
        return
    yield f"Not compared with eager: {_cell(part.compared)}." if part.compared else "`wrapper.py` compares with eager."
    yield ""
    if part.no_instructions:
        yield f"No machine code (SASS): {_cell(part.no_instructions)}."
        yield ""
    yield "| kernel | language | launches | bytes | FLOPs | aten ops | lines |"
    yield "|---|---|---:|---:|---:|---|---|"
    for each in part.kernels:
        yield f"| {' | '.join(_row(each, cwd))} |"
    yield ""
    for each in part.kernels:
        yield from _built(each)
        if each.why_not:
            yield f"{code(each.name)} has no file: {_cell(each.why_not)}."
            yield ""


def _built(each: DumpedKernel) -> Iterator[str]:
    """List the resources of each configuration of a compiled kernel, and its code files."""
    if not each.built:
        return
    yield f"{code(each.name)}, as compiled:"
    yield ""
    yield from (f"- {_cell(resources_text(found))}" for found in each.built)
    if each.code:
        names = [(file.rpartition("/")[2], file) for file in each.code]
        yield f"- code: {', '.join(f'[{name}]({file})' for name, file in names)}"
    yield ""


def _row(each: DumpedKernel, cwd: str) -> list[str]:
    name = _cell(each.name)
    is_file = bool(each.file.rpartition("/")[2])
    memory = "not known" if each.bytes is None else fmt.memory(each.bytes)
    flops = "not known" if each.flops is None else str(each.flops)
    return [
        f"[{name}]({each.file})" if is_file else name,
        _cell(each.language),
        str(each.launches),
        memory,
        flops,
        _cell(", ".join(each.ops)) or "not known",
        _cell(", ".join(fmt.path(line, cwd) for line in each.lines)) or "not known",
    ]


def _cell(text: str) -> str:
    """Make foreign text safe for a table cell: one line, no bars, no markup."""
    line = fmt.one_line(text, 200)
    return "".join(f"\\{letter}" if letter in "|`<>[]*\\" else letter for letter in line)
