"""Arithmetic on floating-point values of the scheduler's nodes.

External calls and templates: torch's own formula (torch.utils.flop_counter; products only, a bias is not counted),
without running the operation and without torch's counter, which `estimate_flops` bumps. Generated loops: one for each
arithmetic or transcendental operation, for each element of the loops' space, wherever a compiler may hoist it; two
for `fma`. Loads, stores, casts, roundings, selects, comparisons (`maximum` is one), random numbers and integers are
none; masked parts count in full. Reductions, for each element reduced: 1 for a sum or a product, none for a maximum,
2 for `dot`, 3 for an online softmax (subtract, exp, add), 6 for Welford's mean and variance (subtract, divide, add;
subtract, multiply, add), 10 to combine two such. A scan is 1, a sort none. Members of a fused node that compute the
same value in the same loops share it, as in the emitted kernel: Inductor makes a node for the mean and one for the
variance, each with the whole of Welford's algorithm.
"""

from math import prod
from typing import Any

from ctrace.inspector.capture.loopbody import Computed, Numbers, computed
from ctrace.inspector.capture.origins import origins_of
from ctrace.inspector.capture.patterns import hint

_WITHOUT_ARITHMETIC = frozenset(
    (
        "aten.clone", "aten.copy", "aten.copy_", "aten.empty", "aten.empty_strided", "aten.nonzero", "aten.sort",
        "aten.topk",
    )
)  # fmt: skip
"""Operations that move or compare values."""


def flops_of(node: Any, numbers: Numbers) -> Computed | int | None:
    """Count for an unfused node; what a loop computes is told by value, so that fused ones can share it."""
    from torch._inductor import ir, scheduler

    if isinstance(node, scheduler.NopKernelSchedulerNode) or isinstance(node.node, ir.MultiOutput):
        return 0
    if isinstance(node, scheduler.SchedulerNode) and not node.is_template():
        iteration, reduced = node._sizes
        return computed(node._body, prod(map(hint, (*iteration, *reduced))), numbers)
    if isinstance(node.node, ir.UserDefinedTritonKernel):
        return None
    return _by_formula(origins_of(node.node, exact=True))


def total(parts: list[Computed | int | None]) -> int | None:
    """Add up the members of a node; None if one is not known."""
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
    """Apply the formula of the only operation that has one."""
    from torch.utils.flop_counter import flop_registry

    calls = [origin for origin in origins if origin.op == "call_function"]
    known = [call for call in calls if _packet(call) in flop_registry]
    if len(known) == 1:
        return _evaluate(flop_registry[_packet(known[0])], known[0])
    moves = all(str(_packet(call)) in _WITHOUT_ARITHMETIC or not _on_floats(call) for call in calls)
    return 0 if calls and not known and moves else None


def _packet(call: Any) -> Any:
    return getattr(call.target, "overloadpacket", call.target)


def _evaluate(formula: Any, call: Any) -> int:
    import torch

    args, kwargs = torch.fx.map_arg((call.args, call.kwargs), lambda node: node.meta["val"])
    count = formula(*args, **kwargs, out_val=call.meta["val"])
    return hint(count.node.expr if isinstance(count, torch.SymInt) else count)


def _on_floats(call: Any) -> bool:
    """Whether an operation takes or gives anything but integers; also if that is not known."""
    import torch
    from torch.utils._pytree import tree_leaves

    values = [*tree_leaves(call.meta.get("val", 0.0)), *(node.meta.get("val", 0.0) for node in call.all_input_nodes)]
    tensors = (each for each in tree_leaves(values) if isinstance(each, torch.Tensor | float))
    return any(isinstance(each, float) or each.is_floating_point() or each.is_complex() for each in tensors)
