"""Decode the graphs that torch prints into the log as text; `graphs/` parses the text on demand."""

from functools import lru_cache
from sys import intern

from ctrace.inspector.facts.events import core as ev
from ctrace.inspector.facts.events.tracing import GraphTraced
from ctrace.inspector.facts.graphs import AliasesFound, GraphPrinted, GraphStage, Printed
from ctrace.inspector.log.fields import Fields
from ctrace.inspector.log.reader import Entry

STAGES = {
    "aot_joint_graph": GraphStage.JOINT,
    "aot_forward_graph": GraphStage.FORWARD,
    "aot_backward_graph": GraphStage.BACKWARD,
    "aot_inference_graph": GraphStage.INFERENCE,
    "artifact:before_pre_grad_graph": GraphStage.BEFORE_PRE_GRAD,
    "artifact:after_pre_grad_graph": GraphStage.PRE_GRAD,
    "artifact:before_joint_graph": GraphStage.BEFORE_JOINT,
    "artifact:after_joint_graph": GraphStage.AFTER_JOINT,
    "artifact:before_post_grad_graph": GraphStage.BEFORE_POST_GRAD,
    "artifact:inductor_post_grad_graph": GraphStage.POST_GRAD,
    "inductor_post_grad_graph": GraphStage.POST_GRAD,
}
"""Stages, keyed by entry kind; the last kind is for a graph from Inductor's cache (2.13, _inductor/codecache.py:2005).
"""


def traced(compile_id: str, entry: Entry) -> GraphTraced:
    """Decode the graph that Dynamo traced; it counts as a graph even if a later stage fails."""
    sizes_by_name = Fields(entry.data, entry.kind).maybe_lists("sizes")
    sizes = {intern(name): _shared(tuple(map(str, size))) for name, size in sizes_by_name.items()}
    text = entry.text
    traced = Printed(GraphStage.DYNAMO, text, sizes, entry.attempt) if text else None
    return GraphTraced(compile_id, traced)


@lru_cache(maxsize=20_000)
def _shared(size: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first equal size: inputs of thousands of compilations share theirs."""
    return size


def printed(entry: Entry) -> GraphPrinted | ev.Ignored:
    """Decode a graph at a later stage; ignore a graph without a compile id, which comes from torch.export."""
    if entry.compile_id is None:
        return ev.Ignored()
    return GraphPrinted(entry.compile_id, Printed(STAGES[entry.kind], entry.text, attempt=entry.attempt))


def aliases(entry: Entry) -> AliasesFound | ev.Ignored:
    """Decode AOTAutograd's metadata on mutated inputs and aliased outputs."""
    return ev.Ignored() if entry.compile_id is None else AliasesFound(entry.compile_id, entry.text, entry.attempt)
