"""Record what torch does with CUDA graphs: torch's decision while compiling, and skips and recordings while running.

Torch decides for each graph part when it makes a `CompiledFxGraph` (2.11 to 2.15, _inductor/output_code.py), wraps what
may become a CUDA graph with `compile_fx.cudagraphify`, and records at the second call or later; see
`cuda_graph_calls.py`. Torch stops at the first reason that it finds; this module finds the nodes behind all reasons,
with torch's own predicates. With `graph_partition`, the default, the scheduler decides for each node
(`Scheduler.should_partition`, 2.11 to 2.13): what it refuses runs between CUDA graphs, and nothing is logged.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.node_lines import stack_of
from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder, compile_context
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.capture.kernels.cuda_graph_calls import CudaGraphCalls
from ctrace.inspector.capture.kernels.cuda_graph_piece import CudaGraphPiece
from ctrace.inspector.capture.kernels.record_kernels import ops_of, origins_of
from ctrace.inspector.facts.cuda_graphs import CudaGraphCalled, CudaGraphChecked, CudaGraphPartitioned, Offender
from ctrace.inspector.facts.kernels import Stage

_MOST_NODES = 50
_NO_GPU = "the graph part runs on the CPU"
_MOST_SIZES = 400
_MOST_REASON = 2000
_LIMITS = (
    "cudagraph_dynamic_shape_warn_limit",
    "cudagraph_dynamic_shape_rerecord_limit",
    "cudagraph_managed_input_rerecord_limit",
    "cudagraph_unexpected_rerecord_limit",
)
"""Torch's limits on recordings, in `torch._inductor.config.triton`; the second and third are new in 2.15."""
_NONE_LEFT = "all kernels are in partitions smaller than cudagraph_min_partition_size"
_SAID_OF_NODES = ("unbacked binding ops", "CUDAGraph-unsafe custom ops")
"""Reasons of `Scheduler.should_partition` that `_offenders` finds in the graph, with better words."""
_WORDS = {"dynamic shape ops": "symbolic sizes, with cudagraph_skip_dynamic_graphs on"}
"""Reasons of `Scheduler.should_partition` that do not name the setting behind them."""
_SKIP = "log_cudagraph_skip_and_bump_counter"


@contextmanager
def cuda_graphs(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each decision, skip and recording."""
    now = threading.local()
    calls = CudaGraphCalls(recorder, now)
    with ExitStack() as patches:

        def decisions(module: ModuleType) -> None:
            made = module.CompiledFxGraph
            original = made.__init__

            def init(graph: Any, *args: Any, **kwargs: Any) -> None:
                # Torch decides within `__init__`, and the object has the decision afterwards.
                original(graph, *args, **kwargs)
                with recorder.watching("CUDA graphs"):
                    _check(recorder, graph, _graph_module(args, kwargs), _refused(now))

            patches.enter_context(patched(made, "__init__", init))

        def wrapping(module: ModuleType) -> None:
            patches.enter_context(patched(module, "cudagraphify", _attributed(recorder, now, module.cudagraphify)))
            without_trees = calls.without_trees(module.cudagraphify_impl)
            patches.enter_context(patched(module, "cudagraphify_impl", without_trees))
            if hasattr(module, _SKIP):  # since 2.13
                patches.enter_context(patched(module, _SKIP, _note_refusal(now, getattr(module, _SKIP))))

        def partitioning(module: ModuleType) -> None:
            scheduler = module.Scheduler
            patches.enter_context(
                patched(scheduler, "graph_partition", _record_partitions(recorder, scheduler.graph_partition))
            )

        when("torch._inductor.output_code", decisions)
        when("torch._inductor.compile_fx", wrapping)
        when("torch._inductor.scheduler", partitioning)
        when("torch._inductor.cudagraph_trees", lambda module: calls.install(module, patches))
        yield


def _note_refusal(now: threading.local, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep why torch turns CUDA graphs off before it compiles a graph, which it logs once for all parts."""

    def note_refusal(message: str) -> Any:
        now.refused = compile_context(), str(message)
        return original(message)

    return note_refusal


def _refused(now: threading.local) -> str:
    context, reason = getattr(now, "refused", ({}, ""))
    return reason if context == compile_context() else ""


def _graph_module(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the graph module among the arguments of `CompiledFxGraph`."""
    import torch

    return next((each for each in (*args, *kwargs.values()) if isinstance(each, torch.fx.GraphModule)), None)


def _check(recorder: Recorder, graph: Any, module: Any, refused: str) -> None:
    from torch._inductor import config

    if not config.triton.cudagraphs and not refused:
        return
    reason = graph.disabled_cudagraphs_reason
    info = graph.cudagraph_info
    reasons = [reason] if reason else []
    if info is not None and not reason:
        reasons += info.cudagraph_fail_reasons
    if refused and not reasons:
        reasons = [refused]
    if "cuda" not in graph.device_types:  # torch's reason is then that there are several devices
        reasons, module = [_NO_GPU], None
    static = set(graph.fx_kwargs.get("static_input_idxs") or ())
    part = _part(graph.fx_kwargs)
    offenders, limits = _offenders(module, static), _limits(config.triton)
    part.add(recorder, CudaGraphChecked(part.stage, tuple(map(str, reasons)), offenders, limits))


def _limits(options: Any) -> dict[str, int]:
    """Return torch's limits on recordings; one that is None, or unknown to this torch, is left out."""
    limits = ((name, getattr(options, name, None)) for name in _LIMITS)
    return {name: limit for name, limit in limits if limit is not None}


def _part(kwargs: Any) -> PartIdentity:
    if kwargs.get("is_backward"):
        return PartIdentity(compile_context(), Stage.BACKWARD)
    return PartIdentity(compile_context(), Stage.INFERENCE if kwargs.get("is_inference") else Stage.FORWARD)


def _offenders(module: Any, static: set[int]) -> tuple[Offender, ...]:
    """List the nodes that a CUDA graph cannot hold: CPU nodes, unsafe ops, data-dependent sizes, writes to inputs."""
    if module is None:
        return ()
    found = []
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for index, node in enumerate(placeholders):
        writing = [user for user in node.users if index not in static and _writes(user, node)]
        if writing:
            found.append(Offender(f"changes its input {node.name}", _stack(writing[0]) or _stack(node)))
    for node in module.graph.nodes:
        why = _why_unsafe(node)
        if why:
            found.append(Offender(why, _stack(node)))
    return tuple(found[:_MOST_NODES])


def _why_unsafe(node: Any) -> str:
    import torch
    from torch._inductor.utils import is_cudagraph_unsafe_fx_node
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if node.op == "output":
        return ""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.device.type == "cpu":
        return f"{_name(node)} is on the CPU"
    if node.op == "call_function" and is_cudagraph_unsafe_fx_node(node):
        return f"{_name(node)} cannot be in a CUDA graph"
    if value is not None and free_unbacked_symbols(value):
        return f"{_name(node)} has a size that depends on data"
    return ""


def _name(node: Any) -> str:
    return f"input {node.name}" if node.op == "placeholder" else str(node.target)


def _stack(node: Any) -> str:
    """Return a node's stack trace; for an input, which has none, return that of its first use."""
    for each in (node, *node.users):
        if stack := stack_of(each):
            return stack
    return ""


def _writes(node: Any, placeholder: Any) -> bool:
    """Whether a node writes to an input; parameters and buffers are static, and may be written to."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable and bool(node.args) and node.args[0] is placeholder


def _attributed(recorder: Recorder, now: threading.local, original: Callable[..., Any]) -> Callable[..., Any]:
    """Assign each recording and skip to the graph part that is running."""

    pieces: Counter[str] = Counter()

    def cudagraphify(model: Any, *args: Any, **kwargs: Any) -> Any:
        # Called while compiling; the function that it returns is what the program runs.
        run, part = original(model, *args, **kwargs), _part(kwargs)
        piece = pieces[str(part)]  # torch calls this once for each CUDA graph that it splits a part into
        pieces[str(part)] += 1
        is_first = True

        def attributed(inputs: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                part.add(recorder, CudaGraphCalled(part.stage))
            outer, now.piece = getattr(now, "piece", None), CudaGraphPiece(part, piece)
            try:
                return run(inputs)
            finally:
                now.piece = outer

        return attributed

    return cudagraphify


def _record_partitions(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    def graph_partition(scheduler: Any) -> Any:
        partitions, signatures = original(scheduler)
        with recorder.watching("the partitions of CUDA graphs"):
            from torch._inductor import config

            if config.triton.cudagraphs:
                _partitioned(recorder, scheduler, sum(not each.skip_cudagraph for each in signatures))
        return partitions, signatures

    return graph_partition


def _partitioned(recorder: Recorder, scheduler: Any, graphs: int) -> None:
    """Record how many CUDA graphs a part is split into, and torch's reason for each node that runs between them."""
    outside = [(node, reason) for node in scheduler.nodes if (reason := scheduler.should_partition(node))]
    reasons = list(dict.fromkeys(_WORDS.get(reason, reason) for _, reason in outside)) or [_NONE_LEFT]
    said = [(node, reason) for node, reason in outside if not _is_said(reason)]
    offenders = tuple(_outside(node, reason) for node, reason in said[:_MOST_NODES])
    part = PartIdentity.under_way()
    part.add(recorder, CudaGraphPartitioned(part.stage, graphs, () if graphs else tuple(reasons), offenders))


def _is_said(reason: str) -> bool:
    return reason in _SAID_OF_NODES or reason.startswith("cpu")


def _outside(node: Any, reason: str) -> Offender:
    origins = [origin for each in node.get_nodes() if each.node for origin in origins_of(each.node, exact=False)]
    stacks = [stack for each in origins if (stack := stack_of(each))]
    ops = ", ".join(ops_of(origins)) or node.get_name()
    return Offender(f"{ops}: {_WORDS.get(reason, reason)}", stacks[-1] if stacks else "")
