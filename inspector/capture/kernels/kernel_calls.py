"""Record what each argument of a generated kernel is: a value of the graph, with its sizes as expressions.

`ctrace kernels eject` needs more than the text of the call: which node of the graph each buffer holds, which pointers
are read and which are written, and sizes and strides in symbols. `call_kernel` (2.11 and 2.13: `TritonKernel` of
_inductor/codegen/triton.py, `KernelGroup` of codegen/cpp.py) writes the call after the whole kernel is generated, so
`KernelArgs` is complete there.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.facts.kernels import KernelBuffer, KernelCall, Pointer


@contextmanager
def kernel_calls(recorder: Recorder, when: When) -> Iterator[None]:
    """Record the arguments of every call of a generated kernel."""
    with ExitStack() as patches:

        def install_triton(module: ModuleType) -> None:
            original = module.TritonKernel.call_kernel

            def call_kernel(kernel: Any, name: str, *args: Any, **kwargs: Any) -> Any:
                with recorder.watching("the call of a kernel"):
                    recorder.add(_described(kernel, name))
                return original(kernel, name, *args, **kwargs)

            patches.enter_context(patched(module.TritonKernel, "call_kernel", call_kernel))

        def install_cpp(module: ModuleType) -> None:
            original = module.KernelGroup.call_kernel

            def call_kernel(group: Any, wrapper: Any, kernel_name: str) -> Any:
                with recorder.watching("the call of a kernel"):
                    recorder.add(_described(group, kernel_name))
                return original(group, wrapper, kernel_name)

            patches.enter_context(patched(module.KernelGroup, "call_kernel", call_kernel))

        when("torch._inductor.codegen.triton", install_triton)
        when("torch._inductor.codegen.cpp", install_cpp)
        yield


def _described(kernel: Any, name: str) -> KernelCall:
    from torch._inductor.virtualized import V

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
        if not hasattr(inplaced, "inner_name") or any(inplaced is each for each in seen):
            continue
        seen.append(inplaced)
        yield Pointer(str(inplaced.inner_name), str(inplaced.other_names[0]), str(inplaced.other_names[-1]))
    for outer, inner in args.input_buffers.items():
        if outer not in args.inplace_buffers and isinstance(inner, str):
            yield Pointer(inner, str(outer), "")
    for outer, inner in args.output_buffers.items():
        if outer not in args.inplace_buffers and isinstance(inner, str):
            yield Pointer(inner, "", str(outer))


def _buffer(name: str, sizes: "_Expressions") -> KernelBuffer:
    """Describe a buffer: the node whose value it holds, and its layout in symbols."""
    import torch
    from torch._inductor.virtualized import V

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
    layout = buffer.maybe_get_layout() if hasattr(buffer, "maybe_get_layout") else buffer.get_layout()
    target = getattr(layout, "target", None)
    mutated = target.get_name() if target is not None and "Mutation" in type(layout).__name__ else ""
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
    outputs = [node for node in nodes.nodes if node.op == "output"] if nodes is not None else []
    returned = list(outputs[0].args[0]) if outputs and isinstance(outputs[0].args[0], list | tuple) else []
    for node, value in zip(returned, getattr(V.graph, "graph_outputs", ()), strict=False):
        is_tensor = isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)
        if is_tensor and value.get_name() == name:
            return _viewed(node, V.graph.try_get_buffer(name), sizes)
    return ""


def _viewed(node: Any, buffer: Any, sizes: "_Expressions") -> str:
    """Return the node with a buffer's sizes that an output is, or is a view of; empty: there is none."""
    import torch

    whole = [sizes.text(size) for size in buffer.get_size()]
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
    base = V.graph.try_get_buffer(view.get_name()) if view is not None else None
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
    order = {node: at for at, node in enumerate(origins[0].graph.nodes)}
    last = max(origins, key=lambda each: order.get(each, -1))
    kind = getattr(getattr(buffer, "data", None), "reduction_type", None)
    if kind is not None and not str(last.target).startswith(_REDUCTIONS.get(kind, ())):
        return ""
    value = last.meta["val"]
    shape = [sizes.text(getattr(getattr(size, "node", None), "expr", size)) for size in value.shape]
    is_same = shape == [sizes.text(size) for size in buffer.get_size()] and value.dtype == buffer.get_dtype()
    return str(last.name) if is_same else ""


def _data(buffer: Any) -> Any:
    """Return what a `TensorBox` of a `StorageBox` contains."""
    data = getattr(buffer, "data", None)
    if type(data).__name__ == "StorageBox":
        return getattr(data, "data", buffer)
    return buffer


class _Expressions:
    """Writes sizes as Python expressions of the graph's symbols."""

    def __init__(self, sizevars: Any) -> None:
        self._computed = getattr(sizevars, "inv_precomputed_replacements", {})
        self._hints = getattr(sizevars, "backed_var_to_val", None) or getattr(sizevars, "var_to_val", {})
        self._used: set[Any] = set()

    def text(self, expr: Any) -> str:
        from torch._inductor.codegen.wrapper import pexpr

        if isinstance(expr, int | str):
            return str(expr)
        whole = expr.xreplace(self._computed) if hasattr(expr, "xreplace") else expr
        self._used |= getattr(whole, "free_symbols", set())
        return str(pexpr(whole))

    def hints(self) -> dict[str, int]:
        """Return the values that the symbols had when the graph was compiled."""
        return {str(symbol): int(self._hints[symbol]) for symbol in self._used if symbol in self._hints}
