"""What rounding may change in the graph that an operator replaces."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.features.workshop.child.patched_model import (  # noqa: E402
    PassRewrite,
    _noise,
    _values,
)


def test_the_order_of_a_sum_that_cancels_is_no_difference() -> None:
    """A gradient of a batch norm was called wrong: torch adds up in a tree, C++ one by one."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def summed(x: Any) -> Any:
        constant = torch.ops.aten.full.default([1024], 0.0, dtype=torch.float32)
        return torch.ops.aten.sum.default(constant.scatter_add(0, torch.arange(1024), x))

    half = torch.rand(512)
    inputs = [torch.cat([half, -half])]
    graph = make_fx(summed)(*inputs).graph
    (name,) = [node.name for node in graph.nodes if "sum" in str(node.target)]
    rewrite = PassRewrite("", torch.nn.Module(), graph, graph, (), (), (), ())
    noise, unknown = _noise(rewrite, inputs, {name}, _values(rewrite, graph, inputs, {name}))
    assert unknown == ""
    one_by_one = inputs[0].cumsum(0)[-1]
    assert abs(float(one_by_one)) < noise[name] < 1e-2 * float(half.sum())
