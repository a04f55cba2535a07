"""Questions on CUDA graphs: what became of them in one sentence, and whether recording will settle."""

from ctrace.inspector.model.cuda_graphs import CudaGraph, CudaGraphStatus
from ctrace.inspector.model.session import Session
from ctrace.inspector.words.counting import count

_MANY = 8
"""Recordings from which torch warns (`triton.cudagraph_dynamic_shape_warn_limit`, 2.11 to 2.15)."""


def cuda_graphs(session: Session, graph: str | None = None) -> tuple[CudaGraph, ...]:
    """Return the CUDA graphs of a run, or of one of its graphs."""
    return tuple(each for each in session.cuda_graphs if graph in (None, each.graph))


def sentence(session: Session) -> str:
    """Sum up in one sentence; empty if torch.compile was not asked for CUDA graphs."""
    found = session.cuda_graphs
    if not found:
        return ""
    numbers = {status: sum(each.status is status for each in found) for status in CudaGraphStatus}
    words = {
        CudaGraphStatus.RECORDED: "recorded",
        CudaGraphStatus.SKIPPED: "skipped",
        CudaGraphStatus.UNKNOWN: "not run",
    }
    parts = [f"{number} {words[status]}" for status, number in numbers.items() if number]
    recordings = sum(each.recordings or 0 for each in found)
    more = f", {count(recordings, 'recording')}" if recordings > numbers[CudaGraphStatus.RECORDED] else ""
    return f"{count(len(found), 'graph part')}: {', '.join(parts)}{more}"


def outlook(each: CudaGraph) -> str:
    """Say whether more recordings are to be expected; empty if there is nothing to say."""
    if not each.recordings or each.recordings == 1:
        return ""
    sizes = len(each.inputs)
    if sizes == each.recordings:
        warned = "; torch warns from 9 on" if sizes <= _MANY else "; torch warns of so many"
        return f"recorded once for each of {count(sizes, 'set of input sizes', 'sets of input sizes')}{warned}"
    if sizes == 1:
        return "recorded again with the same sizes: an input or a parameter moved in memory"
    return f"recorded {each.recordings} times for {sizes} sets of input sizes"
