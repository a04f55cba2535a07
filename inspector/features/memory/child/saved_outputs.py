"""What a compiled forward saves for its backward, what recomputing it would cost, and why it is saved."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.node_lines import source_of
from ctrace.inspector.capture.kernels.current_gpu import tf32_allowed
from ctrace.inspector.facts.memory_facts import SavedMemory
from ctrace.inspector.features.memory.child.planned_graphs import PlannedGraph


def saved_memory(graph: PlannedGraph) -> Iterator[SavedMemory]:
    """Yield each tensor that a forward saves and that takes memory, before it is compared with eager."""
    kept = {each.node for each in graph.saved}
    for each in graph.saved:
        size = graph.saved_bytes.get(each.index)
        # What the program holds anyway, such as a parameter, costs nothing to save.
        if not size or each.index not in graph.owned:
            continue
        value = each.node.meta["val"]
        file, line, function = graph.line_of(each.node)
        yield SavedMemory(
            bytes=size,
            file=file,
            line=line,
            name=each.name,
            eager_saves=False,
            recompute_flops=recompute_flops(each.node, kept),
            shape=tuple(map(_size, value.shape)),
            dtype=str(value.dtype).removeprefix("torch."),
            reason=_reason(each.node, recompute_flops(each.node, kept)),
            source=source_of(file, line),
            function=function,
        )


def _reason(node: Any, cost: float | None) -> str:
    """Say which rule of the min-cut partitioner keeps a tensor from being computed again in the backward.

    The rules are those of 2.13 (_functorch/partitioners.py, `should_ban_recomputation`), on the graph of the forward.
    Where none applies, the cut decided: it saves what is smallest among what the backward can start from.
    """
    from torch._functorch import partitioners

    if cost is None:
        return "it depends on random numbers, which would be others"
    # In the order of torch's rules, of which the first that applies decides.
    operators = partitioners.get_default_op_list()
    if operators.is_compute_intensive(node):
        return "the partitioner computes no matrix product, convolution or attention again"
    inputs = sum(map(_bytes_of, node.all_input_nodes))
    if _bytes_of(node) * _SHRINKS < inputs:
        return "it is a small result of large tensors, which the partitioner does not compute again"
    return "the least that the backward can start from"


_SHRINKS = 4
"""The partitioner does not compute a result again that is less than a fourth of its inputs."""


def _bytes_of(node: Any) -> int:
    import torch

    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return 0
    count = value.element_size()
    for size in value.shape:
        count *= _size(size)
    return count


def _size(size: Any) -> int:
    """Return a size; of a dynamic one, that of the example."""
    hint = getattr(getattr(size, "node", None), "hint", None)
    return int(size if hint is None else hint)


def recompute_flops(node: Any, kept: set[Any]) -> float | None:
    """Count the operations from what the backward has anyway; None: random numbers cannot be computed again."""
    import torch

    total, waiting, seen = 0.0, [node], {node}
    while waiting:
        each = waiting.pop()
        # The backward has inputs and what is saved, so a recomputation begins there.
        if each.op == "placeholder" or (each in kept and each is not node):
            continue
        tags = getattr(each.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags:
            return None
        total += flops_of(each)
        for argument in each.all_input_nodes:
            if argument not in seen:
                seen.add(argument)
                waiting.append(argument)
    return total


class CountedProducts:
    """Counts the operations of what runs in its block and torch's counter knows: matrix products and the like."""

    def __init__(self) -> None:
        self.work: dict[str, float] = {}
        """Operations by the dtype of the first tensor, `tf32` where torch lets a GPU compute float32 so."""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what runs in the block, at the sizes that it has there."""
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils.flop_counter import flop_registry

        work, allowed = self.work, tf32_allowed()

        class Products(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                packet = getattr(func, "overloadpacket", None)
                if packet in flop_registry:
                    # Without `torch.`.
                    dtype = next(str(each.dtype) for each in args if isinstance(each, torch.Tensor))[6:]
                    library = "convolution" if "convolution" in str(packet) else "matmul"
                    if dtype == "float32" and library in allowed:
                        dtype = "tf32"
                    done = float(flop_registry[packet](*args, **(kwargs or {}), out_val=result))
                    work[dtype] = work.get(dtype, 0.0) + done
                return result

        with Products():
            yield


def flops_of(node: Any) -> float:
    """Count the floating-point operations of a node: those of torch's counter, else one for each element."""
    import torch
    from torch.utils._pytree import tree_map
    from torch.utils.flop_counter import flop_registry

    value = node.meta.get("val")
    if node.op != "call_function":
        return 0.0
    packet = getattr(node.target, "overloadpacket", None)
    if packet in flop_registry:
        args, kwargs = tree_map(
            lambda each: each.meta.get("val") if isinstance(each, torch.fx.Node) else each, (node.args, node.kwargs)
        )
        return float(flop_registry[packet](*args, **kwargs, out_val=value))
    inner = [getattr(node.graph.owning_module, each.target) for each in node.all_input_nodes if each.op == "get_attr"]
    modules = [each for each in inner if isinstance(each, torch.fx.GraphModule)]
    if modules:  # such as `invoke_subgraph`; of the branches of a `cond`, the larger one
        return max(sum(flops_of(each) for each in module.graph.nodes) for module in modules)
    if isinstance(value, list | tuple) and value:
        first = value[0]
    else:
        first = value
    # A view computes nothing.
    if not isinstance(first, torch.Tensor) or getattr(node.target, "is_view", False):
        return 0.0
    count = 1.0
    for size in first.shape:
        count *= _size(size)
    return count
