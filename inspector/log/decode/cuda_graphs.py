"""Decode the entries about CUDA graphs."""

from ctrace.inspector.facts.cuda_graphs import (
    CudaGraphCalled,
    CudaGraphChecked,
    CudaGraphEvent,
    CudaGraphPartitioned,
    CudaGraphRecorded,
    CudaGraphSkipped,
    CudaGraphTimed,
    CudaGraphWarmedUp,
    Offender,
)
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.log.fields import Fields


def cuda_graph(graph: str, data: Fields) -> CudaGraphEvent:
    """Decode an event of a CUDA graph.

    Raises:
        ValueError: ctrace writes no event of that name.
    """
    stage = Stage(data.text("stage"))
    match what := data.text("what"):
        case "checked":
            limits = data.maybe_counts("limits")
            return CudaGraphChecked(graph, stage, data.maybe_texts("reasons"), _offenders(data), limits)
        case "partitioned":
            return CudaGraphPartitioned(
                graph, stage, data.integer("graphs"), data.maybe_texts("reasons"), _offenders(data)
            )
        case "skipped":
            return CudaGraphSkipped(graph, stage, data.text("reason"))
        case "recorded":
            return CudaGraphRecorded(
                graph,
                stage,
                data.text("sizes"),
                piece=data.maybe_integer("piece") or 0,
                why=data.maybe_text("why") or "",
                pool_bytes=data.maybe_integer("pool_bytes"),
                replay=data.maybe_number("replay"),
                launched=data.maybe_number("launched"),
                untimed=data.maybe_text("untimed") or "",
            )
        case "timed":
            times = data.maybe_number("replay"), data.maybe_number("launched")
            return CudaGraphTimed(graph, stage, *times, untimed=data.maybe_text("untimed") or "")
        case "warmed_up":
            return CudaGraphWarmedUp(graph, stage, data.maybe_text("why") or "")
        case "called":
            return CudaGraphCalled(graph, stage)
    raise ValueError(f"an unknown event of a CUDA graph: {what!r:.60}")


def _offenders(data: Fields) -> tuple[Offender, ...]:
    return tuple(Offender(each.text("text"), each.text("stack")) for each in data.maybe_objects("offenders"))
