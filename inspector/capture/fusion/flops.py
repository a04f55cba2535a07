"""Count floating-point operations of the scheduler's nodes.

External calls and templates: torch's own formula (torch.utils.flop_counter; matmuls only, without the bias), without
running the operation and without torch's counter, which `estimate_flops` bumps. Generated loops: 1 for each
arithmetic or transcendental operation and each element of the iteration space, even if a compiler may hoist it; 2
for `fma`. Loads, stores, casts, roundings, selects, comparisons (including `maximum`), random numbers and integers
count 0; masked parts count in full. Reductions, for each reduced element: 1 for a sum or a product, 0 for a maximum,
2 for `dot`, 3 for an online softmax (subtract, exp, add), 6 for Welford's mean and variance (subtract, divide, add;
subtract, multiply, add), 10 to combine two of those. A scan counts 1, a sort 0. Members of a fused node that compute
the same value in the same loops share it, as in the emitted kernel: Inductor makes one node for the mean and one for
the variance, each with all of Welford's algorithm.
"""

from math import prod
from typing import Any

from ctrace.inspector.capture.fusion.extents import hint
from ctrace.inspector.capture.fusion.loop_body import Computed, Numbers, computed
from ctrace.inspector.capture.kernels.record import origins_of

_WITHOUT_ARITHMETIC = frozenset(
    (
        "aten.bucketize", "aten.clone", "aten.copy", "aten.copy_", "aten.cummax", "aten.cummin", "aten.empty",
        "aten.empty_strided", "aten.gather", "aten.index", "aten.index_select", "aten.masked_select", "aten.nonzero",
        "aten.searchsorted", "aten.sort", "aten.topk",
    )
)  # fmt: skip
"""Operations that move or compare values."""
_ON_CPU = "_for_cpu"
"""Suffix of an attention op for the CPU; torch has a formula only for the op without the suffix."""


def flops_of(node: Any, numbers: Numbers) -> Computed | int | None:
    """Count an unfused node's FLOPs; those of a loop are listed by value, so that fused nodes can share values."""
    from torch._inductor import ir, scheduler
    from torch._inductor.virtualized import V

    if isinstance(node, scheduler.NopKernelSchedulerNode) or isinstance(node.node, ir.MultiOutput):
        return 0
    if isinstance(node, scheduler.SchedulerNode) and not node.is_template():
        (iteration, reduced), device = node._sizes, node.node.get_device_or_error()
        with V.graph.set_current_device(device):  # torch looks up low-precision arithmetic by device
            return computed(node._body, prod(map(hint, (*iteration, *reduced))), numbers)
    if isinstance(node.node, ir.UserDefinedTritonKernel):
        return None
    return _by_formula(origins_of(node.node, exact=True))


def total(parts: list[Computed | int | None]) -> int | None:
    """Return the sum over the members of a node, or None if one is unknown."""
    values: Computed = {}
    known = 0
    for part in parts:
        if part is None:
            return None
        if isinstance(part, int):
            known += part
        else:
            values |= part
    return known + sum(values.values())


def _by_formula(origins: list[Any]) -> int | None:
    """Return the FLOPs by torch's formula if one operation has a formula, 0 if none computes, else None."""
    from torch.utils.flop_counter import flop_registry

    calls = [origin for origin in origins if origin.op == "call_function"]
    known = [call for call in calls if _counted(call) in flop_registry]
    if len(known) == 1:
        return _evaluate(flop_registry[_counted(known[0])], known[0])
    moves = all(str(_packet(call)) in _WITHOUT_ARITHMETIC or not _on_floats(call) for call in calls)
    return 0 if calls and not known and moves else None


def _packet(call: Any) -> Any:
    return getattr(call.target, "overloadpacket", call.target)


def _counted(call: Any) -> Any:
    """Return the operation whose formula applies to a call."""
    import torch

    name = str(_packet(call))
    if not (name.startswith("aten.") and name.endswith((_ON_CPU, f"{_ON_CPU}_backward"))):
        return _packet(call)
    return getattr(torch.ops.aten, name.removeprefix("aten.").replace(_ON_CPU, ""), None)


def _evaluate(formula: Any, call: Any) -> int:
    import torch

    # A graph argument, such as FlexAttention's score function, has no value, and no formula reads it.
    args, kwargs = torch.fx.map_arg((call.args, call.kwargs), lambda node: node.meta.get("val"))
    count = formula(*args, **kwargs, out_val=call.meta["val"])
    return hint(count.node.expr if isinstance(count, torch.SymInt) else count)


def _on_floats(call: Any) -> bool:
    """Whether an operation takes or returns values other than integers; True if unknown."""
    import torch
    from torch.utils._pytree import tree_leaves

    values = [*tree_leaves(call.meta.get("val", 0.0)), *(node.meta.get("val", 0.0) for node in call.all_input_nodes)]
    tensors = (each for each in tree_leaves(values) if isinstance(each, torch.Tensor | float))
    return any(isinstance(each, float) or each.is_floating_point() or each.is_complex() for each in tensors)
