"""Screen of `ctrace cudagraphs`: which graph parts replay a CUDA graph, which do not, and why."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.cuda_graphs import CudaGraphReason, CudaGraphStatus
from ctrace.inspector.findings.cuda_graph_view import CudaGraphPart, CudaGraphsDocument
from ctrace.reports import format as fmt
from ctrace.reports.format import duration
from ctrace.reports.terminal.widgets import fix, hanging, item, more, section

_STYLES = {CudaGraphStatus.RECORDED: "green", CudaGraphStatus.SKIPPED: "red", CudaGraphStatus.UNKNOWN: "yellow"}
# Chosen: the first nodes say what kind of node is in the way.
_MOST = 8


def cuda_graphs_screen(document: CudaGraphsDocument, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show each graph part, and whether it replays a CUDA graph."""
    if not document.sentence:
        if document.has_failed:
            yield Text("\nNo CUDA graphs in this run, which has problems.")
            yield fix("see them with ctrace explain")
            return
        yield Text("\nNo CUDA graphs: torch.compile was not set to use them.")
        yield fix("use --mode reduce-overhead, on a GPU with --build, or with --target GPU")
        return
    yield section(f"CUDA graphs: {document.sentence}")
    for part in document.graphs:
        yield from _part(part, document.cwd, most=len(part.of.found) if all_of_it else _MOST)
    yield from _notes(document)


def _part(part: CudaGraphPart, cwd: str, *, most: int) -> Iterator[RenderableType]:
    each = part.of
    is_known = each.recordings is None or part.not_recorded
    number = fmt.when(not is_known, f", {fmt.count(each.recordings or 0, 'recording')}")
    name = f"{fmt.one_line(each.graph)} {each.stage}"
    yield item(Text.assemble((name, "bold"), "  ", (_status(part), _STYLES[each.status]), number))
    yield from _unrecorded(part, cwd)
    if part.outlook:
        yield hanging(part.outlook)
    for reason in each.again:
        yield hanging(f"  {_where(cwd, reason)}{fmt.one_line(reason.text, 300)}")
    if each.replay is not None:
        launched = f", {duration(each.launched)} if its kernels are launched one by one"
        yield hanging(f"a replay takes {duration(each.replay)}{launched}")
    elif each.untimed:
        yield hanging(f"time of a replay: not measured, because {each.untimed}")
    if each.found:
        yield hanging("A CUDA graph cannot hold:")
        for reason in each.found[:most]:
            yield hanging(f"  {_where(cwd, reason)}{fmt.one_line(reason.text, 200)}")
        yield from more(len(each.found), "node", "--all", most=most)


def _unrecorded(part: CudaGraphPart, cwd: str) -> Iterator[RenderableType]:
    """Show why torch recorded nothing, or not all of a part."""
    each = part.of
    for why in part.not_recorded:
        yield hanging(fmt.one_line(why, 300))
    if part.fix:
        yield fix(part.fix)
    for reason in each.reasons:
        yield hanging(f"{_where(cwd, reason)}{fmt.one_line(reason.text, 300)}")
    if each.pieces is not None and each.pieces > 1:
        yield hanging(f"torch splits it into {each.pieces} CUDA graphs, and runs the rest between them")


def _status(part: CudaGraphPart) -> str:
    each = part.of
    if each.status is not CudaGraphStatus.UNKNOWN:
        return str(each.status)
    if each.recordings is not None:
        if part.not_recorded:
            return "not recorded"
        return "not recorded; torch logs no reason"
    if each.found:
        return "may be skipped"
    return "no obstacle found"


def _where(cwd: str, reason: CudaGraphReason) -> str:
    if reason.file is not None:
        return f"{fmt.place(reason.file, reason.line, cwd)}: "
    return ""


def _notes(document: CudaGraphsDocument) -> Iterator[RenderableType]:
    found = [part.of for part in document.graphs]
    if document.pool_bytes is not None:
        yield Text(f"\nAll CUDA graphs together hold {fmt.memory(document.pool_bytes)} of GPU memory in their pool.")
    # Without a run on a GPU, nothing could be recorded.
    if any(each.recordings is None and each.status is CudaGraphStatus.UNKNOWN for each in found):
        where = "run it on a GPU with --build"
        if document.has_target:
            where = "nothing ran on that GPU"
        yield Text(f"\nRecordings: not measured, {where}.", style="dim")
    if document.has_target:
        yield Text("With --target, tensors that the program makes on the CPU count as made on the GPU.", style="dim")
    if any(each.found and each.status is not CudaGraphStatus.SKIPPED for each in found):
        skips = "At run time, torch skips a part that changes its inputs, unless they come from another CUDA graph."
        splits = "It may split a part into several CUDA graphs, and run other such nodes between them."
        yield Text(f"{skips} {splits}", style="dim")
