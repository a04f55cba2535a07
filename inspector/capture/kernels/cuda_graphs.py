"""Record what torch does with CUDA graphs: torch's decision while compiling, and skips and recordings while running.

Torch decides for each graph part when it makes a `CompiledFxGraph` (2.11 to 2.15, _inductor/output_code.py), wraps what
may become a CUDA graph with `compile_fx.cudagraphify`, and records at the second call or later
(`CUDAGraphTreeManager.record_function`, _inductor/cudagraph_trees.py). Torch stops at the first reason that it finds;
this module finds the nodes behind all reasons, with torch's own predicates.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.part import Part
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder, compile_context
from ctrace.inspector.capture.core.source import When

_RECORD = "cuda_graph"
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
_TIMED_ROUNDS = 9
_BLOCK_SECONDS = 0.002
_MOST_CALLS = 100


@contextmanager
def cuda_graphs(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each decision, skip and recording."""
    now = threading.local()
    with ExitStack() as patches:

        def decisions(module: ModuleType) -> None:
            made = module.CompiledFxGraph
            original = made.__init__

            def init(graph: Any, *args: Any, **kwargs: Any) -> None:
                original(graph, *args, **kwargs)
                with recorder.watching("CUDA graphs"):
                    _check(recorder, graph, _graph_module(args, kwargs))

            patches.enter_context(patched(made, "__init__", init))

        def wrapping(module: ModuleType) -> None:
            patches.enter_context(patched(module, "cudagraphify", _attributed(recorder, now, module.cudagraphify)))

        def running(module: ModuleType) -> None:
            skip = "log_cudagraph_skip_and_bump_counter"
            patches.enter_context(patched(module, skip, _record_skips(recorder, now, getattr(module, skip))))
            manager = module.CUDAGraphTreeManager
            patches.enter_context(
                patched(manager, "record_function", _record_recordings(recorder, now, manager.record_function))
            )

        when("torch._inductor.output_code", decisions)
        when("torch._inductor.compile_fx", wrapping)
        when("torch._inductor.cudagraph_trees", running)
        yield


def _graph_module(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the graph module among the arguments of `CompiledFxGraph`."""
    import torch

    return next((each for each in (*args, *kwargs.values()) if isinstance(each, torch.fx.GraphModule)), None)


def _check(recorder: Recorder, graph: Any, module: Any) -> None:
    from torch._inductor import config

    if not config.triton.cudagraphs:
        return
    reason = graph.disabled_cudagraphs_reason
    info = graph.cudagraph_info
    reasons = [reason] if reason else []
    if info is not None and not reason:
        reasons += info.cudagraph_fail_reasons
    if "cuda" not in graph.device_types:  # torch's reason is then that there are several devices
        reasons, module = [_NO_GPU], None
    static = set(graph.fx_kwargs.get("static_input_idxs") or ())
    _part(graph.fx_kwargs).record(
        recorder,
        _RECORD,
        {
            "what": "checked",
            "reasons": [str(each) for each in reasons],
            "offenders": _offenders(module, static),
            "limits": _limits(config.triton),
        },
    )


def _limits(options: Any) -> dict[str, int]:
    """Return torch's limits on recordings; one that is None, or unknown to this torch, is left out."""
    limits = ((name, getattr(options, name, None)) for name in _LIMITS)
    return {name: limit for name, limit in limits if limit is not None}


def _part(kwargs: Any) -> Part:
    stage = "backward" if kwargs.get("is_backward") else "inference" if kwargs.get("is_inference") else "forward"
    return Part(compile_context(), stage)


def _offenders(module: Any, static: set[int]) -> list[dict[str, str]]:
    """List the nodes that a CUDA graph cannot hold: CPU nodes, unsafe ops, data-dependent sizes, writes to inputs."""
    if module is None:
        return []
    found = []
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for index, node in enumerate(placeholders):
        writing = [user for user in node.users if index not in static and _writes(user, node)]
        if writing:
            found.append({"text": f"changes its input {node.name}", "stack": _stack(writing[0]) or _stack(node)})
    for node in module.graph.nodes:
        why = _why_unsafe(node)
        if why:
            found.append({"text": why, "stack": _stack(node)})
    return found[:_MOST_NODES]


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
        if stack := each.meta.get("stack_trace"):
            return str(stack)
    return ""


def _writes(node: Any, placeholder: Any) -> bool:
    """Whether a node writes to an input; parameters and buffers are static, and may be written to."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable and bool(node.args) and node.args[0] is placeholder


def _attributed(recorder: Recorder, now: threading.local, original: Callable[..., Any]) -> Callable[..., Any]:
    """Assign each recording and skip to the graph part that is running."""

    def cudagraphify(model: Any, *args: Any, **kwargs: Any) -> Any:
        run, part = original(model, *args, **kwargs), _part(kwargs)
        is_first = True

        def attributed(inputs: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                part.record(recorder, _RECORD, {"what": "called"})
            outer, now.part = getattr(now, "part", None), part
            try:
                return run(inputs)
            finally:
                now.part = outer

        return attributed

    return cudagraphify


def _record_skips(recorder: Recorder, now: threading.local, original: Callable[..., Any]) -> Callable[..., Any]:
    def record_skip(message: str) -> Any:
        part = getattr(now, "part", None)
        if part is not None:
            part.record(recorder, _RECORD, {"what": "skipped", "reason": str(message)})
        return original(message)

    return record_skip


def _record_recordings(recorder: Recorder, now: threading.local, original: Callable[..., Any]) -> Callable[..., Any]:
    timed: set[tuple[str, ...]] = set()

    def record_function(manager: Any, new_inputs: Any, function_id: Any) -> Any:
        part = getattr(now, "part", None)
        if part is None:
            return original(manager, new_inputs, function_id)
        found: dict[str, Any] = {"what": "recorded", "sizes": ""}
        again: list[Any] = []
        with recorder.watching("the recording of a CUDA graph"):
            found |= {"sizes": _sizes(new_inputs), "why": _why_again(manager, new_inputs, function_id)}
            key = (str(part), found["sizes"])
            if key not in timed:
                timed.add(key)
                obstacle = _why_untimed(manager, function_id)
                if obstacle:
                    found["untimed"] = obstacle
                else:
                    again = list(new_inputs)  # torch empties the list
        result = original(manager, new_inputs, function_id)
        with recorder.watching("the recording of a CUDA graph"):
            found["pool_bytes"] = _pool_bytes(manager)
            if again:
                found |= _timed(manager, again, function_id)
            part.record(recorder, _RECORD, found)
        return result

    return record_function


def _why_again(manager: Any, inputs: Any, function_id: Any) -> str:
    """Return torch's reason why the last recording does not fit this call; empty if none has these sizes."""
    current = manager.current_node
    earlier = (manager.roots if current is None else current.children).get(function_id, ())
    if not earlier:
        return ""
    fits, explain = earlier[-1].check_invariants(list(inputs))  # a copy: a fit clears inputs
    return "" if fits.name == "SUCCESS" else str(explain())[:_MOST_REASON]


def _why_untimed(manager: Any, function_id: Any) -> str:
    """Explain why a CUDA graph cannot be run again without changing the user's program; empty if it can."""
    function = manager.ids_to_funcs[function_id]
    if manager.current_node is not None:
        # a reference to such an input would keep memory alive that torch expects to be free
        return "it reads the results of another CUDA graph"
    if function.mutated_input_idxs:
        return "it changes its inputs"
    return ""


def _timed(manager: Any, inputs: list[Any], function_id: Any) -> dict[str, Any]:
    """Time the replay of the newest recording against launching its kernels one by one, in seconds a call."""
    import torch

    graph, launch = manager.current_node.graph, manager.ids_to_funcs[function_id].model
    if graph is None:
        return {"untimed": "it launches no kernel"}
    generator = torch.cuda.default_generators[manager.device_index]
    before = generator.get_state()
    launch(list(inputs))
    if not torch.equal(before, generator.get_state()):
        generator.set_state(before)
        return {"untimed": "it draws random numbers"}

    def seconds(run: Callable[[], Any], calls: int) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / calls

    ways: tuple[Callable[[], Any], ...] = (graph.replay, lambda: launch(list(inputs)))
    calls = [max(1, min(_MOST_CALLS, int(_BLOCK_SECONDS / seconds(run, 3)))) for run in ways]
    rounds = [[seconds(run, number) for run, number in zip(ways, calls, strict=True)] for _ in range(_TIMED_ROUNDS)]
    replay, launched = (sorted(times)[_TIMED_ROUNDS // 4] for times in zip(*rounds, strict=True))
    return {"replay": replay, "launched": launched}


def _pool_bytes(manager: Any) -> int:
    """Return the bytes that the pool of a GPU's CUDA graphs holds."""
    import torch

    pool = tuple(manager.cuda_graphs_thread_pool)
    segments = torch.cuda.memory_snapshot()
    return sum(each["total_size"] for each in segments if tuple(each["segment_pool_id"]) == pool)


def _sizes(inputs: Any) -> str:
    """Return the sizes of the input tensors, and the numbers that are symbolic sizes."""
    import torch

    shown = [str(list(each.shape)) if isinstance(each, torch.Tensor) else str(each) for each in inputs]
    return " ".join(shown)[:_MOST_SIZES]
