"""Summarize the CUDA graphs of a run in one sentence, and explain repeated recordings."""

from collections import Counter

from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphStatus
from ctrace.inspector.facts.session import Session
from ctrace.inspector.knowledge.words.counting import count

_WARNS = "cudagraph_dynamic_shape_warn_limit"
_MOST_SIZES = "cudagraph_dynamic_shape_rerecord_limit"
_MOST_MOVES = "cudagraph_managed_input_rerecord_limit"
_MANAGED = "cudagraph managed"
"""How torch's reason begins if the result of another CUDA graph moved (2.11 to 2.15, _inductor/cudagraph_utils.py)."""

_ONCE = "torch records at the second call, and there was only one"
_PENDING = "pending, uninvoked backwards"

_RECORDED, _SKIPPED, _NOT_RECORDED, _NOT_RUN = _WORDS = ("recorded", "skipped", "not recorded", "not run")


def cuda_graphs(session: Session, graph: str | None = None) -> tuple[CudaGraph, ...]:
    """Return the CUDA graphs of a run, or of one of its graphs."""
    return tuple(each for each in session.cuda_graphs if graph in (None, each.graph))


def sentence(session: Session) -> str:
    """Summarize CUDA graphs in one sentence; empty if CUDA graphs were not enabled."""
    found = session.cuda_graphs
    if not found:
        return ""
    numbers = Counter(_word(each) for each in found)
    parts = [f"{numbers[word]} {word}" for word in _WORDS if numbers[word]]
    recordings = sum(each.recordings or 0 for each in found)
    more = f", {count(recordings, 'recording')}" if recordings > numbers[_RECORDED] else ""
    return f"{count(len(found), 'graph part')}: {', '.join(parts)}{more}"


def _word(each: CudaGraph) -> str:
    if each.status is not CudaGraphStatus.UNKNOWN:
        return _SKIPPED if each.status is CudaGraphStatus.SKIPPED else _RECORDED
    return _NOT_RUN if each.recordings is None else _NOT_RECORDED


def why_not_recorded(each: CudaGraph) -> tuple[str, ...]:
    """Explain why torch recorded nothing of a part that ran and that it does not skip; empty if that is not known."""
    if each.status is not CudaGraphStatus.UNKNOWN or each.recordings is None:
        return ()
    return each.held_back or ((_ONCE,) if each.was_warmed_up else ())


def remedy(each: CudaGraph) -> str:
    """Say what to change so that torch records a part; empty if nothing is known to help."""
    if not why_not_recorded(each) or not any(_PENDING in reason for reason in each.held_back):
        return ""
    return "for inference, call it under torch.no_grad(); in training, run the backward before the next call"


def outlook(each: CudaGraph) -> str:
    """Explain why a graph part was recorded more than once, and when that ends; empty if it was not."""
    repeats = each.recordings if each.repeats is None else each.repeats
    if not repeats or repeats == 1:
        return ""
    sizes = len(each.inputs)
    if sizes == repeats:
        found = f"recorded once for each of {count(sizes, 'set of input sizes', 'sets of input sizes')}"
        warns, most = each.limits.get(_WARNS), each.limits.get(_MOST_SIZES)
        if warns is not None:
            found += f"; torch warns from {warns + 1} on" if sizes <= warns else "; torch warns of so many"
        if most is not None:
            found += f"; after {most}, it runs other sizes without a CUDA graph ({_MOST_SIZES})"
        return found
    if sizes == 1:
        found = "recorded again with the same sizes"
        found += "" if each.again else ": an input or a parameter moved in memory"
    else:
        found = f"recorded {repeats} times for {sizes} sets of input sizes"
    most = each.limits.get(_MOST_MOVES)
    if most is not None and any(reason.text.startswith(_MANAGED) for reason in each.again):
        found += f"; after {most} moves of an input, torch copies it instead ({_MOST_MOVES})"
    return found
