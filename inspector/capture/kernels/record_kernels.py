"""Record every kernel that Inductor emits or calls (`kernels`), with its aten ops, its arguments and the user's lines.

Source: `set_kernel_post_grad_provenance_tracing` (2.13, _inductor/debug.py:1142), which every backend calls with a
kernel's name and its scheduler nodes. The hook sees the same as torch's provenance tracking without enabling it, which
would change the user's configuration and copy the history of every node.

`kernel_calls` records the arguments of the kernel calls in a graph part's code, and torch's own count of kernels.
`GraphLowering.codegen` (2.11 and 2.13, _inductor/graph.py) writes the code of one part, in the program or in ctrace's
fork. The hook then records the layouts of its buffers and the sizes behind symbols, so that the reader can resolve what
each call passes.

`Statements` finds the FX node that each line of a generated kernel comes from. Torch keeps this only for whole kernels.
A kernel's body is a function, `inner_fn` of an `ir.Loops`, made by lowering one FX node; it calls the functions of the
values that it inlines. So while the body is traced, the running function identifies its FX node. The hook marks each
node of the traced body with it (`loop_body.LightTracer`), and follows bodies that are traced from other bodies
(`V.interpreter.current_node`). At code generation, it assigns every line written while such a node is interpreted to
its FX node. The code generator sees none of this. Sources (2.11 and 2.13): _inductor/ir.py `Loops`,
_inductor/loop_body.py, `SchedulerNode.codegen` of scheduler.py, `IndentedBuffer.writeline` of utils.py.

Each argument of a generated kernel is recorded as a value of the graph, with its sizes as expressions:
`ctrace kernels eject` needs more than the text of the call: which node of the graph each buffer holds, which pointers
are read and which are written, and sizes and strides in symbols. `call_kernel` (2.11 and 2.13: `TritonKernel` of
_inductor/codegen/triton.py, `KernelGroup` of codegen/cpp.py) writes the call after the whole kernel is generated, so
`KernelArgs` is complete there.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.node_lines import stack_of, stacks_of
from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.kernel_facts import (
    KernelBuffer,
    KernelCall,
    KernelMade,
    Layout,
    LineStacks,
    PartGenerated,
    Pointer,
)


@contextmanager
def kernel_calls(recorder: Recorder, when: When) -> Iterator[None]:
    """Record the arguments of every call of a generated kernel."""
    with ExitStack() as patches:

        def install_triton(module: ModuleType) -> None:
            # It writes the call of a kernel that is finished, so all its arguments are known.
            original = module.TritonKernel.call_kernel

            def call_kernel(kernel: Any, name: str, *args: Any, **kwargs: Any) -> Any:
                with recorder.watching("the call of a kernel"):
                    recorder.add(_kernel_call_described(kernel, name))
                return original(kernel, name, *args, **kwargs)

            patches.enter_context(patched(module.TritonKernel, "call_kernel", call_kernel))

        def install_cpp(module: ModuleType) -> None:
            original = module.KernelGroup.call_kernel

            def call_kernel(group: Any, wrapper: Any, kernel_name: str) -> Any:
                with recorder.watching("the call of a kernel"):
                    recorder.add(_kernel_call_described(group, kernel_name))
                return original(group, wrapper, kernel_name)

            patches.enter_context(patched(module.KernelGroup, "call_kernel", call_kernel))

        when("torch._inductor.codegen.triton", install_triton)
        when("torch._inductor.codegen.cpp", install_cpp)
        yield


def _kernel_call_described(kernel: Any, name: str) -> KernelCall:
    from torch._inductor.virtualized import V

    # Both live only while Inductor generates code, so everything is turned into text here.
    sizes = _Expressions(V.graph.sizevars)
    args = kernel.args
    pointers = list(_pointers(args))
    names = dict.fromkeys(buffer for each in pointers for buffer in (each.read, each.written) if buffer)
    trees = getattr(kernel, "range_trees", ())
    return KernelCall(
        stage=current_stage(),
        name=name,
        pointers=tuple(pointers),
        sizes=tuple((str(inner), sizes.text(outer)) for outer, inner in args.sizevars.items()),
        numels=tuple((f"{tree.prefix}numel", sizes.text(tree.numel)) for tree in trees),
        workspaces=len(getattr(args, "workspace_args", ())),
        buffers=tuple(_buffer(each, sizes) for each in names),
        symbols=sizes.hints(),  # of all expressions above
    )


def _pointers(args: Any) -> Iterator[Pointer]:
    """Yield each pointer that the kernel takes.

    The order is that of `KernelArgs.python_argdefs`. The names of a pointer that is reused in place go from the first
    buffer in that memory to the last one.
    """
    seen = list[Any]()
    # One pointer stands under each of its buffers' names, so it is yielded once.
    for inplaced in args.inplace_buffers.values():
        # A buffer that Inductor removed has a marker in place of a pointer.
        if not hasattr(inplaced, "inner_name") or any(inplaced is each for each in seen):
            continue
        seen.append(inplaced)
        yield Pointer(str(inplaced.inner_name), str(inplaced.other_names[0]), str(inplaced.other_names[-1]))
    for outer, inner in args.input_buffers.items():
        # A buffer that Inductor removed has a `RemovedArg` in place of a name (codegen/common.py, 2.13).
        if outer not in args.inplace_buffers and isinstance(inner, str):
            yield Pointer(inner, str(outer), "")
    for outer, inner in args.output_buffers.items():
        if outer not in args.inplace_buffers and isinstance(inner, str):
            yield Pointer(inner, "", str(outer))


def _buffer(name: str, sizes: "_Expressions") -> KernelBuffer:
    """Describe a buffer: the node whose value it holds, and its layout in symbols."""
    import torch
    from torch._inductor.virtualized import V

    # Constants first: they are in no table of buffers.
    if (constant := V.graph.constants.get(name)) is not None and isinstance(constant, torch.Tensor):
        return KernelBuffer(
            name=name,
            kind="constant",
            node="",
            dtype=str(constant.dtype).removeprefix("torch."),
            shape=tuple(map(str, constant.shape)),
            stride=tuple(map(str, constant.stride())),
            device=str(constant.device),
            mutates="",
        )
    buffer: Any = V.graph.try_get_buffer(name)
    if hasattr(buffer, "maybe_get_layout"):
        layout = buffer.maybe_get_layout()
    else:
        layout = buffer.get_layout()
    # MutationLayoutSHOULDREMOVE: the buffer has no memory of its own, it writes to another one's.
    target = getattr(layout, "target", None)
    mutated = ""
    if target is not None and "Mutation" in type(layout).__name__:
        mutated = target.get_name()
    if name in V.graph.graph_inputs:
        kind, held = "input", name
    else:
        origin = getattr(_data(buffer), "origin_node", None)
        kind, held = "buffer", getattr(origin, "name", "") or _held(name, buffer, layout, sizes)
    return KernelBuffer(
        name=name,
        kind=kind,
        node=held,
        dtype=str(buffer.get_dtype()).removeprefix("torch."),
        shape=tuple(map(sizes.text, buffer.get_size())),
        stride=tuple(map(sizes.text, buffer.get_stride())),
        device=str(buffer.get_device()),
        mutates=str(mutated),
    )


def _held(name: str, buffer: Any, layout: Any, sizes: "_Expressions") -> str:
    """Return the node whose value a buffer without a node of its own holds; empty: not known."""
    # The surest first: an output is known by its place, the last origin only by its sizes.
    return _output(name, sizes) or _piece(name, layout) or _last_origin(buffer, sizes)


_SAME_ORDER = ("aten.squeeze.", "aten.unsqueeze.", "aten.view.", "aten.reshape.")
"""Views that keep all elements in their order."""


def _output(name: str, sizes: "_Expressions") -> str:
    """Return the node whose value a buffer holds that the graph returns; empty: it returns none.

    `GraphLowering.graph_outputs` is in the order of the output's arguments (2.11 and 2.13, _inductor/graph.py). The
    mean that a norm saves for the backward has no node of its own: the op that makes it returns two results.
    """
    import torch
    from torch._inductor.virtualized import V

    nodes = getattr(getattr(V.graph, "module", None), "graph", None)
    outputs = []
    if nodes is not None:
        outputs = [node for node in nodes.nodes if node.op == "output"]
    returned = []
    if outputs and isinstance(outputs[0].args[0], list | tuple):
        returned = list(outputs[0].args[0])
    for node, value in zip(returned, getattr(V.graph, "graph_outputs", ()), strict=False):
        is_tensor = isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)
        if is_tensor and value.get_name() == name:
            return _viewed(node, V.graph.try_get_buffer(name), sizes)
    return ""


def _viewed(node: Any, buffer: Any, sizes: "_Expressions") -> str:
    """Return the node with a buffer's sizes that an output is, or is a view of; empty: there is none."""
    import torch

    whole = [sizes.text(size) for size in buffer.get_size()]
    # Up through views, until a node has the buffer's own sizes: of `mean.squeeze()`, the buffer holds the mean.
    while isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor):
        value = node.meta["val"]
        if [sizes.text(getattr(getattr(size, "node", None), "expr", size)) for size in value.shape] == whole:
            if value.dtype == buffer.get_dtype():
                return str(node.name)
            return ""
        if not str(node.target).startswith(_SAME_ORDER):
            return ""
        node = node.args[0]
    return ""


def _piece(name: str, layout: Any) -> str:
    """Return the node whose value goes into a part of a concatenation's memory; empty: the buffer is no such part.

    `ConcatKernel.inputs` has the parts in the order of the op's arguments (2.11 and 2.13, _inductor/ir.py).
    """
    from torch._inductor.virtualized import V

    view = getattr(layout, "view", None)
    base = None
    if view is not None:
        base = V.graph.try_get_buffer(view.get_name())
    node = getattr(base, "origin_node", None)
    parts = [each.get_name() for each in getattr(base, "inputs", ()) if hasattr(each, "get_name")]
    if node is None or name not in parts or "cat" not in str(node.target) or len(node.args[0]) != len(parts):
        return ""
    return str(getattr(node.args[0][parts.index(name)], "name", ""))


_REDUCTIONS = {
    "sum": ("aten.sum.",), "prod": ("aten.prod.",), "max": ("aten.amax.",), "min": ("aten.amin.",),
    "any": ("aten.any.",), "argmax": ("aten.argmax.",), "argmin": ("aten.argmin.",),
}  # fmt: skip
"""Inductor's reductions, and the ops that are no more than that."""


def _last_origin(buffer: Any, sizes: "_Expressions") -> str:
    """Return the last of the nodes fused into a buffer if it has the buffer's sizes and dtype; empty: it has not.

    A buffer has no node of its own if the op that reads it, such as a convolution, asked for its strides. A reduction
    has none either if its op goes on with it: of a mean, the buffer has the sum (2.11 and 2.13, _inductor/lowering.py).
    """
    import torch

    origins = [each for each in getattr(_data(buffer), "origins", ()) if isinstance(each.meta.get("val"), torch.Tensor)]
    if not origins:
        return ""
    # Origins are a set; the graph has their order.
    order = {node: at for at, node in enumerate(origins[0].graph.nodes)}
    last = max(origins, key=lambda each: order.get(each, -1))
    kind = getattr(getattr(buffer, "data", None), "reduction_type", None)
    if kind is not None and not str(last.target).startswith(_REDUCTIONS.get(kind, ())):
        return ""
    value = last.meta["val"]
    shape = [sizes.text(getattr(getattr(size, "node", None), "expr", size)) for size in value.shape]
    is_same = shape == [sizes.text(size) for size in buffer.get_size()] and value.dtype == buffer.get_dtype()
    if not is_same:
        return ""
    return str(last.name)


def _data(buffer: Any) -> Any:
    """Return what a `TensorBox` of a `StorageBox` contains."""
    data = getattr(buffer, "data", None)
    if type(data).__name__ == "StorageBox":
        return getattr(data, "data", buffer)
    return buffer


class _Expressions:
    """Writes sizes as Python expressions of the graph's symbols."""

    def __init__(self, sizevars: Any) -> None:
        # Inductor computes some sizes ahead, e.g. `ps0 = s0*s1`; a reader knows the graph's own symbols only.
        self._computed = getattr(sizevars, "inv_precomputed_replacements", {})
        self._hints = getattr(sizevars, "backed_var_to_val", None) or getattr(sizevars, "var_to_val", {})
        self._used: set[Any] = set()

    def text(self, expr: Any) -> str:
        from torch._inductor.codegen.wrapper import pexpr

        if isinstance(expr, int | str):
            return str(expr)
        if hasattr(expr, "xreplace"):
            whole = expr.xreplace(self._computed)
        else:
            whole = expr
        self._used |= getattr(whole, "free_symbols", set())
        return str(pexpr(whole))

    def hints(self) -> dict[str, int]:
        """Return the values that the symbols had when the graph was compiled."""
        return {str(symbol): int(self._hints[symbol]) for symbol in self._used if symbol in self._hints}


_MARK = "_ctrace_origin"
"""Attribute of a node in a traced body. Not a key of its `meta`, which C++ code generation reads (cpp.py:3896)."""
_SHORTEST = 3
"""Shorter lines contain only brackets."""
_LATE = ("index_expr",)
"""Ops that the tracer defers until a value is used, possibly in another function than the one that made them."""
_STORES = ("store", "store_reduction")

Written = dict[Any, dict[Any, list[Any]]]
"""FX nodes of each line, keyed by kernel object. A line is a text, or an object whose text is known only at the end."""


class Statements:
    """Records the origin of lines while code is generated; `take` returns those of one kernel."""

    def __init__(self) -> None:
        self._running: list[Any] = []
        self._node: Any = None
        self._written: dict[Any, Written] = {}

    def take(self, schedule: list[Any]) -> list[dict[int, list[Any]]]:
        """Return the lines and their origins for each kernel object that was written for these scheduler nodes.

        A line is identified by the checksum of its text without indentation.
        """
        kernels: Written = {}
        for node in schedule:
            for kernel, lines in self._written.pop(node, {}).items():
                merged = kernels.setdefault(kernel, {})
                for line, origins in lines.items():
                    if isinstance(line, str):
                        text = line
                    else:
                        text = line().strip()
                    _join(merged.setdefault(zlib.crc32(text.encode()), []), origins)
        return list(kernels.values())

    def clear(self) -> None:
        """Drop lines that belong to no called kernel."""
        self._written.clear()

    @contextmanager
    def collected(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Record origins while the context is active."""
        with ExitStack() as patches:

            def install_ir(ir: ModuleType) -> None:
                # Each kind of loops is a dataclass below `Loops`, so this sees all of them as they are made.
                patches.enter_context(patched(ir.Loops, "__post_init__", self._named(ir.Loops.__post_init__)))

            def install_body(loop_body: ModuleType) -> None:
                tracer = loop_body.LightTracer
                # `LoopBody` traces each body of a loop with this tracer, so a node is marked as it is made.
                patches.enter_context(patched(tracer, "create_node", self._marking(tracer.create_node)))

            def install_scheduler(scheduler: ModuleType) -> None:
                from torch._inductor.utils import IndentedBuffer

                node, write = scheduler.SchedulerNode, IndentedBuffer.writeline
                # `codegen` writes the lines of one node; those in between, such as loops, belong to none.
                patches.enter_context(patched(node, "codegen", self._generating(node.codegen)))
                patches.enter_context(patched(IndentedBuffer, "writeline", self._writing(write, recorder)))

            def install_triton(triton: ModuleType) -> None:
                name, kernel = "codegen_iteration_ranges_entry", triton.TritonKernel
                patches.enter_context(patched(kernel, name, self._apart(getattr(kernel, name))))

            when("torch._inductor.ir", install_ir)
            when("torch._inductor.codegen.triton", install_triton)
            when("torch._inductor.loop_body", install_body)
            when("torch._inductor.scheduler", install_scheduler)
            yield

    def _named(self, original: Any) -> Any:
        """Wrap the body of each `Loops`, so that `_running` has its FX node while the body runs."""
        from torch._inductor.virtualized import V

        running = self._running

        def post_init(loops: Any) -> None:
            original(loops)
            origin = getattr(V.graph, "current_node", None)  # only while a node is lowered
            inner = getattr(loops, "inner_fn", None)  # a scan or a sort has several
            if origin is None or inner is None:
                return

            def inner_fn(*args: Any, **kwargs: Any) -> Any:
                running.append(origin)
                try:
                    return inner(*args, **kwargs)
                finally:
                    running.pop()

            # The dataclass is frozen.
            object.__setattr__(loops, "inner_fn", inner_fn)

        return post_init

    def _marking(self, original: Any) -> Any:
        from torch._inductor.virtualized import V

        running = self._running

        def create_node(tracer: Any, kind: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            node = original(tracer, kind, target, *args, **kwargs)
            if target in _LATE:
                return node
            # The innermost body that runs made the node; without one, the body was traced from another body.
            if running:
                setattr(node, _MARK, running[-1])
            elif (origin := _interpreted(V)) is not None:
                setattr(node, _MARK, origin)
            return node

        return create_node

    def _generating(self, original: Any) -> Any:
        def codegen(node: Any, *args: Any, **kwargs: Any) -> Any:
            outer, self._node = self._node, node
            try:
                return original(node, *args, **kwargs)
            finally:
                self._node = outer

        return codegen

    def _writing(self, original: Any, recorder: Recorder) -> Any:
        from torch._inductor.virtualized import V

        def writeline(buffer: Any, line: Any) -> Any:
            if self._node is not None:
                with recorder.watching("the lines of a kernel"):
                    self._note(V, line)
            return original(buffer, line)

        return writeline

    def _apart(self, original: Any) -> Any:
        """Assign the lines of an index computation to no node, because several nodes use the index."""

        def codegen(*args: Any, **kwargs: Any) -> Any:
            node, self._node = self._node, None
            try:
                return original(*args, **kwargs)
            finally:
                self._node = node

        return codegen

    def _note(self, virtualized: Any, line: Any) -> None:
        text = (line if isinstance(line, str) else getattr(line, "line", "")).strip()
        if len(text) < _SHORTEST:
            return
        origin = _interpreted(virtualized) or _exact(self._node)
        if origin is not None:
            origins = [origin]
        else:
            origins = list(self._node.node.origins)
        lines = self._written.setdefault(self._node, {}).setdefault(virtualized.kernel, {})
        # By the object, as its text is filled in at the end (`DelayReplaceLine`, _inductor/utils.py).
        if hasattr(line, "value_fn"):
            key = line
        else:
            key = text
        if (known := lines.get(key)) is None:
            lines[key] = origins
        else:
            _join(known, origins)


def _join(known: list[Any], more: list[Any]) -> None:
    for each in more:
        if each not in known:
            known.append(each)


def _interpreted(virtualized: Any) -> Any:
    """Return the origin of the body's node that is being interpreted.

    A store belongs to the node that made its value: the buffer may be named after a later view.
    """
    node = getattr(virtualized.interpreter, "current_node", None)
    if node is not None and node.target in _STORES:
        node = next((each for each in reversed(node.all_input_nodes) if hasattr(each, _MARK)), node)
    return getattr(node, _MARK, None)


def _exact(node: Any) -> Any:
    """Return the FX node of a scheduler node's result, if there is exactly one."""
    get = getattr(node.node, "get_origin_node", None)
    if get is None:
        return None
    return get()


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
                    recorder.add(_described(statements, node_schedule, kernel_name, is_extern=is_extern))
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


def _described(statements: Statements, schedule: Any, name: str, *, is_extern: bool) -> KernelMade:
    """Describe a kernel; `schedule` is the node of the call if it is extern, and what the scheduler fused if not."""
    from torch._inductor import metrics

    if is_extern:  # one ir.Operation, which the scheduler does not look into
        scheduled: list[Any] = []
        nodes = [schedule]
        operations = [schedule.get_operation_name()]
    else:
        scheduled = scheduler_nodes(schedule)
        nodes = [node.node for node in scheduled if node.node is not None]
        operations = [node.get_name() for node in scheduled]
    origins = [origin for node in nodes for origin in origins_of(node, exact=is_extern)]
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
    # A node is listed once for each loop that it takes part in.
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
        if _is_users(nodes[0]):
            return "triton"
        return "external"
    from torch._inductor import config

    device = next((device for node in nodes if (device := node.get_device()) is not None), None)
    kind = "cpu"
    if device is not None:
        kind = device.type
    return str(getattr(config, f"{kind}_backend", "triton"))


def origins_of(node: Any, *, exact: bool) -> list[Any]:
    """Return the FX nodes of an `ir.Operation`; with `exact`, only the node that it computes, if torch knows it."""
    # An external call computes exactly one node; a fused one has many origins.
    origin = None
    if exact:
        origin = getattr(node, "origin_node", None)
    if origin is not None:
        return [origin]
    return list(node.origins)


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
        layout = None
        if hasattr(buffer, "maybe_get_layout"):
            layout = buffer.maybe_get_layout()
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
        if len(known) == len(numbers):
            return known
        return None

    def one(self, expr: Any) -> int | None:
        if isinstance(expr, int) or expr.is_Integer:
            return int(expr)
        value = expr.xreplace(self._computed).xreplace(self._known)
        if value.is_Integer:
            return int(value)
        return None

    def table(self) -> dict[str, int]:
        symbols = (*self._known, *self._computed)
        return {str(symbol): value for symbol in symbols if (value := self.one(symbol)) is not None}
