"""What `ctrace cudagraphs` answers: which parts replay a CUDA graph, and why the others do not."""

from collections import Counter
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphStatus
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.findings.target_gpu_view import target_of
from ctrace.inspector.knowledge.counting import count

_WARNS = "cudagraph_dynamic_shape_warn_limit"
_MOST_SIZES = "cudagraph_dynamic_shape_rerecord_limit"
_MOST_MOVES = "cudagraph_managed_input_rerecord_limit"
_MANAGED = "cudagraph managed"
"""How torch's reason begins if the result of another CUDA graph moved (2.11 to 2.15, _inductor/cudagraph_utils.py)."""

_ONCE = "torch records at the second call, and there was only one"
_PENDING = "pending, uninvoked backwards"

_RECORDED, _SKIPPED, _NOT_RECORDED, _NOT_RUN = _WORDS = ("recorded", "skipped", "not recorded", "not run")


class CudaGraphPart(Struct, frozen=True):
    """The CUDA graph of one graph part, if CUDA graphs are enabled."""

    JSON: ClassVar[str] = (
        "id=of.graph stage=of.stage status=of.status reasons=of.reasons cannot_hold=of.found not_recorded "
        "fix|null_if_empty recordings=of.recordings pieces=of.pieces inputs=of.inputs recorded_again=of.again "
        "pool_bytes=of.pool_bytes replay_seconds=of.replay launched_seconds=of.launched "
        "not_timed=of.untimed|null_if_empty limits=of.limits outlook|null_if_empty"
    )
    of: CudaGraph
    not_recorded: tuple[str, ...]
    """Why torch recorded nothing of a part that ran and that it does not skip; empty if that is not known."""
    fix: str
    """What to change so that torch records it; empty if nothing is known to help."""
    outlook: str
    """Why it was recorded more than once, and when that ends; empty if it was not."""


class CudaGraphsDocument(RunDocument, frozen=True, kw_only=True):
    """The CUDA graph of each graph part; none if the mode uses no CUDA graphs."""

    JSON: ClassVar[str] = "schema verdict=run.verdict graphs problems=run.problems"
    graphs: tuple[CudaGraphPart, ...]
    sentence: str
    """The whole run in one sentence; empty if CUDA graphs were not enabled."""
    pool_bytes: int | None
    """What the pool of all CUDA graphs holds; None: not measured."""
    has_failed: bool
    """Whether perhaps the run did not get as far as CUDA graphs."""
    has_target: bool
    """Whether code was generated for another GPU, on which nothing ran."""


def cuda_graphs_document(session: Session, graph: str | None = None) -> CudaGraphsDocument:
    """Answer for all graphs of a run, or for one."""
    found = [each for each in session.cuda_graphs if graph in (None, each.graph)]
    return CudaGraphsDocument(
        run=session.run,
        graphs=tuple(CudaGraphPart(each, why_not_recorded(each), remedy(each), outlook(each)) for each in found),
        sentence=sentence(session),
        # All CUDA graphs share one pool, and each part has what the whole pool held at its recording: no sum.
        pool_bytes=max((each.pool_bytes for each in session.cuda_graphs if each.pool_bytes is not None), default=None),
        has_failed=session.failure is not None or bool(session.problems),
        has_target=target_of(session) is not None,
    )


def sentence(session: Session) -> str:
    """Summarize CUDA graphs in one sentence; empty if CUDA graphs were not enabled."""
    found = session.cuda_graphs
    if not found:
        return ""
    numbers = Counter(_word(each) for each in found)
    parts = [f"{numbers[word]} {word}" for word in _WORDS if numbers[word]]
    recordings = sum(each.recordings or 0 for each in found)
    more = ""
    if recordings > numbers[_RECORDED]:
        more = f", {count(recordings, 'recording')}"
    return f"{count(len(found), 'graph part')}: {', '.join(parts)}{more}"


def _word(each: CudaGraph) -> str:
    if each.status is not CudaGraphStatus.UNKNOWN:
        if each.status is CudaGraphStatus.SKIPPED:
            return _SKIPPED
        return _RECORDED
    if each.recordings is None:
        return _NOT_RUN
    return _NOT_RECORDED


def why_not_recorded(each: CudaGraph) -> tuple[str, ...]:
    """Explain why torch recorded nothing of a part that ran and that it does not skip; empty if that is not known."""
    if each.status is not CudaGraphStatus.UNKNOWN or each.recordings is None:
        return ()
    if each.held_back:
        return each.held_back
    if each.was_warmed_up:
        return (_ONCE,)
    return ()


def remedy(each: CudaGraph) -> str:
    """Say what to change so that torch records a part; empty if nothing is known to help."""
    if not why_not_recorded(each) or not any(_PENDING in reason for reason in each.held_back):
        return ""
    return "for inference, call it under torch.no_grad(); in training, run the backward before the next call"


def outlook(each: CudaGraph) -> str:
    """Explain why a graph part was recorded more than once, and when that ends; empty if it was not."""
    if each.repeats is None:
        repeats = each.recordings
    else:
        repeats = each.repeats
    if not repeats or repeats == 1:
        return ""
    sizes = len(each.inputs)
    # As many sizes as recordings: the sizes explain all of them, and nothing has to have moved.
    if sizes == repeats:
        found = f"recorded once for each of {count(sizes, 'set of input sizes', 'sets of input sizes')}"
        warns, most = each.limits.get(_WARNS), each.limits.get(_MOST_SIZES)
        if warns is not None:
            if sizes <= warns:
                found += f"; torch warns from {warns + 1} on"
            else:
                found += "; torch warns of so many"
        if most is not None:
            found += f"; after {most}, it runs other sizes without a CUDA graph ({_MOST_SIZES})"
        return found
    if sizes == 1:
        found = "recorded again with the same sizes"
        if not each.again:
            found += ": an input or a parameter moved in memory"
    else:
        found = f"recorded {repeats} times for {sizes} sets of input sizes"
    most = each.limits.get(_MOST_MOVES)
    if most is not None and any(reason.text.startswith(_MANAGED) for reason in each.again):
        found += f"; after {most} moves of an input, torch copies it instead ({_MOST_MOVES})"
    return found
