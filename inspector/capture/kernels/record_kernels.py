"""Record every kernel that Inductor emits or calls, with its aten ops and the user's lines.

Source: `set_kernel_post_grad_provenance_tracing` (2.13, _inductor/debug.py:1142), which every backend calls with a
kernel's name and its scheduler nodes. The hook sees the same as torch's provenance tracking without enabling it, which
would change the user's configuration and copy the history of every node.

Record the arguments of the kernel calls in a graph part's code, and torch's own count of kernels.

`GraphLowering.codegen` (2.11 and 2.13, _inductor/graph.py) writes the code of one part, in the program or in ctrace's
fork. The hook then records the layouts of its buffers and the sizes behind symbols, so that the reader can resolve
what each call passes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.node_lines import stack_of, stacks_of
from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.capture.kernels.kernel_calls import kernel_calls
from ctrace.inspector.capture.kernels.line_origins import Statements
from ctrace.inspector.facts.events.kernel_events import KernelMade, Layout, LineStacks, PartGenerated

_HOOK = "set_kernel_post_grad_provenance_tracing"
# codegen/cpp.py and codegen/triton.py import the function by name; others import it from debug.py at each call (2.13).
_USERS = ("torch._inductor.debug", "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton")


@contextmanager
def kernels(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each kernel of each graph part, in call order, and what the wrapper code uses."""
    ours: set[Any] = set()
    statements = Statements()
    schedules: list[Any] = []
    with ExitStack() as patches:
        patches.enter_context(statements.collected(recorder, when))
        patches.enter_context(outputs(recorder, when, statements.clear))
        patches.enter_context(kernel_calls(recorder, when))

        def install(module: ModuleType) -> None:
            original = getattr(module, _HOOK, None)
            if original is None:
                recorder.problem(f"kernels could not be recorded: {module.__name__} has no {_HOOK}")
            if original is None or original in ours:  # imported from a module that is already hooked
                return

            def traced(node_schedule: Any, kernel_name: str, is_extern: bool = False) -> Any:
                schedules.append(node_schedule)
                with recorder.watching("a kernel"):
                    recorder.add(_described(statements, node_schedule, kernel_name, is_extern))
                return original(node_schedule, kernel_name, is_extern)

            ours.add(traced)
            patches.enter_context(patched(module, _HOOK, traced))

        def install_calls(scheduler: ModuleType) -> None:
            original = scheduler.Scheduler.codegen_extern_call

            def codegen_extern_call(self: Any, node: Any) -> Any:
                # Whether the call below reports its kernel shows here.
                schedules.clear()
                result = original(self, node)
                name = getattr(node.node, "python_kernel_name", None)
                if not schedules and name:  # a few kernels, such as index_put, have no provenance
                    with recorder.watching("a kernel"):
                        recorder.add(_described(statements, node.node, name, is_extern=True))
                return result

            with recorder.watching("calls of libraries"):
                patches.enter_context(patched(scheduler.Scheduler, "codegen_extern_call", codegen_extern_call))

        for name in _USERS:
            when(name, install)
        when("torch._inductor.scheduler", install_calls)
        yield


def _described(statements: Statements, schedule: Any, name: str, is_extern: bool) -> KernelMade:
    from torch._inductor import metrics

    scheduled = [] if is_extern else scheduler_nodes(schedule)
    nodes = [schedule] if is_extern else [node.node for node in scheduled if node.node is not None]
    origins = [origin for node in nodes for origin in origins_of(node, exact=is_extern)]
    operations = [schedule.get_operation_name()] if is_extern else [node.get_name() for node in scheduled]
    stacks = tuple(dict.fromkeys(trace for node in nodes for trace in stacks_of(node)))
    line_stacks, beside = _numbered(statements.take(scheduled), stacks)
    return KernelMade(
        stage=current_stage(),
        name=name,
        language=_language(nodes, is_extern),
        user=is_extern and _is_users(schedule),
        operations=tuple(operations),
        ops=tuple(ops_of(origins)),
        stacks=stacks,
        beside=beside,
        counted=metrics.generated_kernel_count,
        line_stacks=line_stacks,
    )


def scheduler_nodes(schedule: Any) -> list[Any]:
    """Return the scheduler's nodes in a kernel, without the markers that start and end a loop."""
    grouped = [item for item in schedule if hasattr(item, "get_operation_names")]
    return list(dict.fromkeys(node for group in grouped for node in group.get_nodes()))


def _numbered(
    written: list[dict[int, list[Any]]], stacks: tuple[str, ...]
) -> tuple[tuple[tuple[LineStacks, ...], ...], tuple[str, ...]]:
    """Return the numbers of each line's stacks, for each kernel object, and the stacks that are not in `stacks`."""
    numbers = {stack: number for number, stack in enumerate(stacks)}
    tables = []
    for lines in written:
        table = []
        for checksum, origins in lines.items():
            traces = dict.fromkeys(trace for origin in origins if (trace := stack_of(origin)))
            if traces:
                table.append(LineStacks(checksum, tuple(numbers.setdefault(each, len(numbers)) for each in traces)))
        tables.append(tuple(table))
    return tuple(tables), tuple(numbers)[len(stacks) :]


def _is_users(node: Any) -> bool:
    return type(node).__name__ == "UserDefinedTritonKernel"


def _language(nodes: list[Any], is_extern: bool) -> str:
    if is_extern:  # a library kernel or a user-written one (2.13, _inductor/ir.py)
        return "triton" if _is_users(nodes[0]) else "external"
    from torch._inductor import config

    device = next((device for node in nodes if (device := node.get_device()) is not None), None)
    kind = device.type if device is not None else "cpu"
    return str(getattr(config, f"{kind}_backend", "triton"))


def origins_of(node: Any, *, exact: bool) -> list[Any]:
    """Return the FX nodes of an `ir.Operation`; with `exact`, only the node that it computes, if torch knows it."""
    # An external call computes exactly one node; a fused one has many origins.
    origin = getattr(node, "origin_node", None) if exact else None
    return [origin] if origin is not None else list(node.origins)


def ops_of(origins: list[Any]) -> list[str]:
    """Return the aten ops of FX nodes, each once."""
    return list(dict.fromkeys(_op(origin) for origin in origins if origin.op == "call_function"))


def _op(origin: Any) -> str:
    """Return an FX node's target without its overload, such as `aten.add`."""
    packet = getattr(origin.target, "overloadpacket", origin.target)
    if packet is not origin.target:
        return str(packet)
    return getattr(origin.target, "__name__", str(origin.target))


@contextmanager
def outputs(recorder: Recorder, when: When, done: Callable[[], None]) -> Iterator[None]:
    """Record layouts and sizes for each part; call `done` after a part that is not nested in another one."""
    with ExitStack() as patches:
        depth = 0

        def install(module: ModuleType) -> None:
            from torch._inductor import metrics

            def codegen(graph: Any) -> Any:
                nonlocal depth
                before, depth = metrics.generated_kernel_count, depth + 1
                try:
                    result = original(graph)
                finally:
                    depth -= 1
                with recorder.watching("arguments of kernels"):
                    recorder.add(_part_generated(graph, before, metrics.generated_kernel_count))
                # Subgraphs generate code in the middle of their parent's, whose lines are still to be taken.
                if depth == 0:
                    done()
                return result

            original = patches.enter_context(patched(module.GraphLowering, "codegen", codegen))

        when("torch._inductor.graph", install)
        yield


def _part_generated(graph: Any, before: int, counted: int) -> PartGenerated:
    sizes = _Sizes(graph.sizevars)
    buffers = (_layout(name, layout, sizes) for name, layout in dict(_layouts(graph)).items())
    known = tuple(each for each in buffers if each is not None)
    return PartGenerated(current_stage(), before, counted, known, sizes.table())


def _layouts(graph: Any) -> Iterator[tuple[str, Any]]:
    """Return each buffer's layout, and each constant, keyed by its name in the code."""
    yield from graph.constants.items()
    for name, buffer in (*graph.graph_inputs.items(), *graph.name_to_buffer.items()):
        layout = buffer.maybe_get_layout() if hasattr(buffer, "maybe_get_layout") else None
        if layout is not None:
            yield name, layout


def _layout(name: str, layout: Any, sizes: "_Sizes") -> Layout | None:
    """Return the layout of a buffer, or None if it has none or if sizes are unknown."""
    import torch

    if isinstance(layout, torch.Tensor):
        shape, stride, offset = sizes.all(layout.shape), sizes.all(layout.stride()), sizes.one(0)
    elif hasattr(layout, "size") and hasattr(layout, "dtype"):
        shape, stride, offset = sizes.all(layout.size), sizes.all(layout.stride), sizes.one(layout.offset)
    else:  # a node with several tensors, or with none
        return None
    if shape is None or stride is None or offset is None:
        return None
    return Layout(name, str(layout.dtype).removeprefix("torch."), shape, stride, offset, str(layout.device))


class _Sizes:
    """The values of symbols when the graph was compiled."""

    def __init__(self, sizevars: Any) -> None:
        # Sizes of the example, not guesses: a size that depends on data stays unknown.
        self._known = sizevars.backed_var_to_val
        self._computed = sizevars.inv_precomputed_replacements

    def all(self, exprs: Iterable[Any]) -> tuple[int, ...] | None:
        numbers = [self.one(expr) for expr in exprs]
        known = tuple(number for number in numbers if number is not None)
        return known if len(known) == len(numbers) else None

    def one(self, expr: Any) -> int | None:
        if isinstance(expr, int) or expr.is_Integer:
            return int(expr)
        value = expr.xreplace(self._computed).xreplace(self._known)
        return int(value) if value.is_Integer else None

    def table(self) -> dict[str, int]:
        symbols = (*self._known, *self._computed)
        return {str(symbol): value for symbol in symbols if (value := self.one(symbol)) is not None}
