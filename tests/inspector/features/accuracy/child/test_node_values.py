"""What a node reads depends on the writes before it, and on none after it."""

import operator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic  # noqa: E402
from ctrace.inspector.capture.comparing.float64 import Float64  # noqa: E402
from ctrace.inspector.features.accuracy.child.kernel_judge import copied_value, widened  # noqa: E402
from ctrace.inspector.features.accuracy.child.node_values import (  # noqa: E402
    cannot_repeat,
    computed,
    memory_of,
    needed,
    writes_of,
    written_arguments,
)

X = torch.arange(12.0).reshape(4, 3)


def graph_of(function: Any, *args: Any) -> tuple[Any, dict[str, Any]]:
    module = make_fx(function, tracing_mode="fake")(*args)
    return module, {node.name: node for node in module.graph.nodes}


def values(module: Any, nodes: list[Any], known: dict[Any, Any]) -> dict[Any, Any]:
    return computed(module, nodes, known, WatchedArithmetic(), copied_value)


def filled(x: Any) -> Any:
    y = x.clone()
    before = y.sum()
    y[1:3].mul_(10.0)
    return before, y.sum()


def test_a_node_needs_the_writes_before_it() -> None:
    module, nodes = graph_of(filled, X)
    known = {nodes["x_1"]: X}
    assert nodes["mul_"] not in needed([nodes["sum_1"]], known)
    assert nodes["mul_"] in needed([nodes["sum_2"]], known)
    assert values(module, needed([nodes["sum_1"]], known), known)[nodes["sum_1"]] == X.sum()
    after = filled(X)[1]
    assert values(module, needed([nodes["sum_2"]], known), known)[nodes["sum_2"]] == after


def test_memory_is_as_its_writes_leave_it() -> None:
    module, nodes = graph_of(filled, X)
    known = {nodes["x_1"]: X}
    found = values(module, needed([nodes["clone"], nodes["mul_"]], known), known)
    assert torch.equal(found[nodes["clone"]][1:3], X[1:3] * 10)
    assert torch.equal(X, torch.arange(12.0).reshape(4, 3))  # what is known is copied


def test_a_part_of_a_wider_buffer_is_computed_with_in_float64() -> None:
    """As the parts of a `cat` are that a kernel writes in place: with memory between their rows."""
    part = torch.arange(24.0).reshape(4, 6)[:, 3:]
    module, nodes = graph_of(lambda x, y: torch.cat((x, y), 1), X, X + 1)
    known = {nodes["x_1"]: part, nodes["y_1"]: X}
    found = computed(module, needed([nodes["cat"]], known), known, Float64(), widened)[nodes["cat"]]
    assert torch.equal(found, torch.cat((part, X), 1).double())


def test_a_view_has_the_memory_of_what_it_shows() -> None:
    _, nodes = graph_of(filled, X)
    assert memory_of(nodes["mul_"]) is nodes["clone"]
    assert memory_of(nodes["clone"]) is nodes["clone"]
    assert writes_of(nodes["clone"].graph).to == {nodes["clone"]: [nodes["mul_"]]}


def test_an_operator_on_lists_writes_to_each_item() -> None:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    add = graph.call_function(torch.ops.aten._foreach_add_.List, ([x, y], [y, y]))
    item = graph.call_function(operator.getitem, (add, 0))
    double = graph.call_function(torch.ops.aten.mul.Tensor, (item, 2.0))
    graph.output(double)
    module = torch.fx.GraphModule({}, graph)
    assert written_arguments(add) == [x, y]
    assert memory_of(item) is x
    known = {x: torch.ones(2), y: torch.full((2,), 3.0)}
    assert values(module, needed([double], known), known)[double].tolist() == [8.0, 8.0]


def test_copies_keep_strides_and_what_lies_between() -> None:
    every_second = torch.arange(8.0)[::2]
    copy = copied_value(every_second)
    assert copy.stride() == (2,)
    assert copy.as_strided((3,), (1,)).tolist() == [0.0, 1.0, 2.0]
    assert copy.data_ptr() != every_second.data_ptr()


@pytest.mark.parametrize(("dropout", "draws"), [(0.0, False), (0.1, True)])
def test_attention_without_dropout_draws_no_random_numbers(dropout: float, *, draws: bool) -> None:
    graph = torch.fx.Graph()
    q = graph.placeholder("q")
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    assert (cannot_repeat(graph.call_function(attention, (q, q, q, dropout))) is not None) is draws
    assert cannot_repeat(graph.call_function(attention, (q, q, q))) is None
