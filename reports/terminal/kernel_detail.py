"""One kernel in detail, the kernels of a line, and code.

Screen of `ctrace kernels --dump`: what it wrote, and what it left out.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.fusion_facts import Buffer, Node
from ctrace.inspector.facts.kernels import Argument, Launch, OutputCode
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.at_line import KernelAtLine, Wanted
from ctrace.inspector.findings.kernels.bounds import least_of
from ctrace.inspector.findings.kernels.built_view import resources
from ctrace.inspector.findings.kernels.kernel_view import KernelOfPart, PartKernels, work_of_launch
from ctrace.inspector.findings.target_view import NEEDS_DEVICE, target_of
from ctrace.reports import format as fmt
from ctrace.reports.dump.dumped import Dumped, DumpedPart
from ctrace.reports.terminal.kernel_tables import part_title, share_text
from ctrace.reports.terminal.target_screen import basis_line, code_note, emitted_for
from ctrace.reports.terminal.widgets import (
    MOST,
    Verbatim,
    fix,
    hanging,
    highlighted,
    indented,
    item,
    labelled,
    more,
    section,
    table,
)
from ctrace.reports.wording.kernels_wording import (
    buffer_text,
    fused_text,
    kernel_ops_text,
    language,
    least_text,
    lines_text,
    memory,
    nodes_text,
    ops_text,
    outputs_text,
    place_text,
    resources_text,
    sorted_places,
    source_text,
    work_text,
)

_LEXERS = {"cpp": "cpp"}
"""Pygments' lexer for each language; any other language is shown as Python."""
# Chosen: nodes, buffers and calls of one kernel, each a table, share a page.
_MOST = 12


def kernel_screen(
    session: Session, found: Iterable[PartKernels], *, all_of_it: bool = False
) -> Iterator[RenderableType]:
    """Show everything known about one kernel, for each graph part that has it."""
    most = 10**9 if all_of_it else _MOST
    yield from emitted_for(session)
    for part in found:
        for row in part.rows:
            yield part_title(session, part)
            yield Text(fmt.one_line(row.kernel.name), style="bold cyan")
            yield from _facts(session, part, row, most)
            yield from _nodes(row.nodes if row.is_fused else (), most)
            yield from _buffers(row, most)
            yield from _launches(row.kernel.launches, most)
    yield from basis_line(session)


def _facts(session: Session, part: PartKernels, row: KernelOfPart, most: int) -> Iterator[RenderableType]:
    kernel = row.kernel
    share = f"; {share_text(row)} of all bytes in {fmt.plain(part.name)}" if row.share is not None else ""
    yield _fact("language", f"{language(kernel)}, {fmt.count(kernel.calls, 'call')}")
    yield _fact("aten ops", kernel_ops_text(kernel, most))
    yield from _places(session, "lines", kernel.lines, most, "not known")
    yield _fact("output", outputs_text(row, most) if row.outputs else "not known")
    yield _fact("work", f"{work_text(row.work)}{share}")
    yield _fact("fused from", fused_text(row))
    yield from _on_the_gpu(session, row)


def _on_the_gpu(session: Session, row: KernelOfPart) -> Iterator[RenderableType]:
    """Show the kernel's resources as compiled, and its lower bound on the target GPU."""
    kernel = row.kernel
    every = resources(session, kernel.graph)
    found = [each for each in every if (each.built.stage, each.built.kernel) == (kernel.stage, kernel.name)]
    for number, each in enumerate(found):
        yield _fact("" if number else "compiled", resources_text(each))
    if target_of(session) is None:
        return
    if len(found) > 1 and not any(each.built.chosen for each in found):
        yield _fact("", "torch picks one of these on the device, by autotuning")
    least = least_of(session, row)
    if least.seconds is None:
        yield _fact("bound", f"not known; its time is {NEEDS_DEVICE}")
        return
    bound = f"at least {least_text(least.seconds)}, set by {', '.join(least.sets)}; computed, with cold caches"
    yield _fact("bound", f"{bound}; its time is {NEEDS_DEVICE}")


def _places(session: Session, name: str, places: Sequence[str], most: int, otherwise: str) -> Iterator[RenderableType]:
    """Show source lines with their code."""
    shown = [place_text(place, session.listings, session.environment.cwd) for place in sorted_places(places)]
    for number, line in enumerate(shown[:most] or [otherwise]):
        yield _fact("" if number else name, line, fold=False)
    if len(shown) > most:
        yield _fact("", f"and {fmt.count(len(shown) - most, 'more line')}: see --all")


def _fact(name: str, value: str, *, fold: bool = True) -> RenderableType:
    if not fold:
        return item(Text.assemble((f"{name:<11}", "dim"), value, no_wrap=True, overflow="ellipsis"))
    return labelled(name, value, 10)


def _nodes(nodes: Sequence[Node], most: int) -> Iterator[RenderableType]:
    if not nodes:
        return
    yield section("Fused from")
    shown = table("node", "kind", "loops", "aten ops", "lines")
    for node in nodes[:most]:
        shown.add_row(
            fmt.one_line(node.name, 24),
            str(node.kind),
            fmt.one_line(node.loops, 24),
            ops_text(node.ops, 4),
            lines_text(node.lines),
        )
    yield shown
    yield from more(len(nodes), "node", "--all", most=most, before="")


def _buffers(row: KernelOfPart, most: int) -> Iterator[RenderableType]:
    if not row.buffers:
        return
    yield section("Buffers")
    shown = table("buffer", "is", "shape", "reads", "writes")
    for at in (3, 4):
        shown.columns[at].justify = "right"
    for buffer in row.buffers[:most]:
        accesses = [access for node in row.merged for access in node.accesses if access.buffer == buffer.name]
        read, written = sum(each.read for each in accesses), sum(each.written for each in accesses)
        moved = (memory(size) if size else "" for size in (read, written))
        shown.add_row(fmt.one_line(buffer.name, 30), str(buffer.role), _typed(buffer), *moved)
    yield shown
    yield from more(len(row.buffers), "buffer", "--all", most=most, before="")


def _typed(buffer: Buffer) -> str:
    return fmt.one_line(f"{buffer_text(buffer)} {buffer.device}", 40)


def _launches(launches: Sequence[Launch], most: int) -> Iterator[RenderableType]:
    if not launches:
        return
    yield section("Calls")
    for number, launch in enumerate(launches[:most], 1):
        where = f"  {lines_text(launch.lines)}" if launch.lines and len(launches) > 1 else ""
        yield Text.assemble((f"{number:>3}  ", "bold"), work_text(work_of_launch(launch)), (where, "dim"))
        arguments = launch.arguments
        passed = "arguments not known" if arguments is None else ", ".join(map(_argument, arguments))
        yield indented(Text(passed, style="dim"), 5)
        if launch.call:
            yield indented(Text(fmt.one_line(launch.call, 600)), 5)
    yield from more(len(launches), "call", "--all", most=most, before="")


def _argument(argument: Argument) -> str:
    by = fmt.framed("", argument.keyword, "=")
    if not argument.tensor:
        return fmt.one_line(f"{by}{argument.value or argument.name}", 60)
    return f"{fmt.one_line(f'{by}{argument.name}', 30)} {fmt.tensor(argument.dtype, argument.shape)}"


def line_screen(
    session: Session, request: Wanted, found: Sequence[tuple[PartKernels, tuple[KernelAtLine, ...]]], why: str
) -> Iterator[RenderableType]:
    """Show the kernels that come from some source lines, with the other lines in each; if there are none, show why."""
    yield from emitted_for(session)
    places: set[str] = set()
    for _, of_lines in found:
        places.update(place for each in of_lines for place in each.row.kernel.lines)
    for place in sorted_places(filter(request.has_place, places)):
        line = Text(place_text(place, session.listings, session.environment.cwd), style="bold")
        line.overflow, line.no_wrap = "ellipsis", True
        yield line
    if not found:
        yield Text(fmt.one_line(request.text), style="bold")
        yield Text(fmt.one_line(f"No kernel contains this line. {why}", 900))
    for part, of_lines in found:
        yield part_title(session, part)
        for each in of_lines:
            yield from _of_line(session, each)
    yield from basis_line(session)


def _of_line(session: Session, each: KernelAtLine) -> Iterator[RenderableType]:
    kernel, nodes = each.row.kernel, each.row.nodes
    yield item(Text(fmt.one_line(each.row.label), style="bold cyan"))
    some = 0 < len(each.launches) < kernel.calls
    calls = f", {len(each.launches)} of its {fmt.count(kernel.calls, 'call')}" if some else ""
    yield _fact("work", f"{work_text(each.work)} ({language(kernel)}{calls})")
    if each.nodes:
        whole = len(nodes) if len(each.nodes) < len(nodes) else 0
        yield _fact("this line", f"{nodes_text(each.nodes, whole)}")
    yield from _places(session, "also from", each.others, _MOST, "no other line")


def source_screen(session: Session, found: Iterable[PartKernels]) -> Iterator[RenderableType]:
    """Print the code of kernels, each passage below its source line; do not cut lines of code."""
    for part in found:
        for row in part.rows:
            kernel = row.kernel
            mark = "//" if kernel.language == "cpp" else "#"
            title = f"{mark} {fmt.one_line(kernel.name)}: {fmt.one_line(part.name)}, {language(kernel)}"
            title += code_note(session) if kernel.source else ""
            if not kernel.source:
                yield Verbatim(Text(f"{title}: {_no_source(kernel.language)}\n", style="dim"))
                continue
            yield Verbatim(Text(title, style="bold"))
            if not kernel.statements:
                yield Verbatim(Text(f"{mark} torch does not record the source line of each statement", style="dim"))
            code = source_text(kernel, session.listings, session.environment.cwd)
            yield highlighted(f"{code.rstrip()}\n", _LEXERS.get(kernel.language, "python"))


def _no_source(written_in: str) -> str:
    if written_in == "external":
        return "a library function; torch generates no code for it"
    return "its code is not in the log"


def wrapper_screen(session: Session, found: Iterable[tuple[OutputCode, str]]) -> Iterator[RenderableType]:
    """Print the wrapper of each graph part: the function that calls its kernels."""
    for code, text in found:
        yield Verbatim(Text(f"# {fmt.plain(code.graph)} {code.stage}{code_note(session)}", style="bold"))
        yield highlighted(f"{fmt.plain(text).rstrip()}\n", "python")


def dump_screen(session: Session, dumped: Dumped) -> Iterator[RenderableType]:
    """Show the folder, the target GPU, the files of each graph part, what is left out and why, and how to run them."""
    where = fmt.plain(str(dumped.folder))
    yield Text.assemble((where, "bold"), f"  {fmt.count(len(dumped.files), 'file')} written")
    yield from emitted_for(session)
    for part in dumped.parts[:MOST]:
        yield item(Text(_part(part)))
    yield from more(len(dumped.parts), "graph part", "index.json")
    todo = _todo(dumped)
    yield fix(f"{todo}  (on such a GPU)" if todo and target_of(session) else todo)
    left = dumped.left_out
    if left:
        yield section("Not written")
    for name, why in left[:MOST]:
        yield item(Text(fmt.one_line(name, 70)))
        yield hanging(why)
    yield from more(len(left), "of them", "index.json")


def _part(part: DumpedPart) -> str:
    files = sum(1 for each in part.kernels if each.file)
    stages = sum(len(each.code) for each in part.kernels)
    compared = "compared with eager" if not part.compared else f"not compared with eager: {part.compared}"
    compiled = fmt.framed(", ", fmt.some(stages, "file"), " of compiled code")
    contents = f"{fmt.count(files, 'kernel')}{compiled}; wrapper, {compared}" if part.wrapper else "nothing"
    return fmt.one_line(f"{part.folder}/  graph {part.graph}, {part.stage}: {contents}")


def _todo(dumped: Dumped) -> str:
    first = next((part for part in dumped.parts if part.wrapper), None)
    if first:
        return f"python {dumped.folder / first.folder / 'wrapper.py'}"
    return ""
