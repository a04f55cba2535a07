"""What counts as wrong: further from float64 than rounding explains, given the values that the kernel had."""

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from ctrace.inspector.capture.comparing.judgement import Judgement  # noqa: E402
from ctrace.inspector.features.accuracy.child.kernel_judge import judged_pair, judged_value, lacks_bias  # noqa: E402
from ctrace.inspector.features.accuracy.child.node_values import NotComputableError, needed  # noqa: E402
from ctrace.inspector.features.accuracy.child.pieces import lost_rounding, reason_of  # noqa: E402
from ctrace.inspector.features.accuracy.child.watched_kernels import WatchedCall  # noqa: E402


def graph_of(function: Any, *args: Any) -> tuple[Any, Any, dict[Any, Any]]:
    """Return the graph of a function, the node of its result, and the values of its inputs."""
    module = make_fx(function, tracing_mode="fake")(*args)
    nodes = list(module.graph.nodes)
    placeholders = [each for each in nodes if each.op == "placeholder"]
    return module, nodes[-1].args[0], dict(zip(placeholders, args, strict=True))


def judged(function: Any, value: Any, *args: Any, **options: Any) -> Any:
    module, node, known = graph_of(function, *args)
    return judged_value(module, node, value, known, **options)


X = torch.linspace(-3, 3, 4096).reshape(64, 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_what_eager_gives_is_right(dtype: Any) -> None:
    x = X.to(dtype)
    assert judged(lambda x: (x * 1.3).exp(), (x * 1.3).exp(), x).judgement is Judgement.FINE


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: (x * 1.3001).exp(),
        lambda x: torch.where(torch.arange(64) < 63, (x * 1.3).exp(), 0.0),
        lambda x: (x.bfloat16() * 1.3).float().exp(),
        lambda x: (x * 1.3).exp().index_put((torch.tensor(3), torch.tensor(5)), torch.tensor(math.nan)),
    ],
    ids=["constant", "tail", "rounded", "nan"],
)
def test_a_fault_is_wrong(wrong: Any) -> None:
    found = judged(lambda x: (x * 1.3).exp(), wrong(X), X)
    assert found.judgement is Judgement.WRONG
    assert found.error > 10 * found.eager_error


def test_where_values_are_equal_is_decided_as_eager_does() -> None:
    """A gradient of `amax` looks for the maximum that a forward stored; in float64, nothing would be equal to it."""

    def faulty(x: Any, scale: Any, highest: Any, grad: Any) -> Any:
        picked = x / scale == highest
        return picked * (grad / picked.sum(-1, keepdim=True)) + (x / scale).exp() * 1.03

    def gradient(x: Any, scale: Any, highest: Any, grad: Any) -> Any:
        picked = x / scale == highest
        return picked * (grad / picked.sum(-1, keepdim=True)) + (x / scale).exp()

    x, scale = X + 0.1, torch.linspace(0.7, 1.3, 64)
    inputs = x, scale, (x / scale).amax(-1, keepdim=True), torch.ones(64, 1)
    assert judged(gradient, gradient(*inputs) * (1 + 1e-7), *inputs).judgement is Judgement.FINE
    found = judged(gradient, faulty(*inputs), *inputs)
    assert (found.judgement, math.isfinite(found.eager_error)) == (Judgement.WRONG, True)


def test_another_order_of_additions_is_right() -> None:
    """One term after the other is less exact than the pairs that eager adds, and no error."""
    terms = torch.randn(4, 5000, generator=torch.Generator().manual_seed(1)) + 0.3
    one_by_one = torch.zeros(4)
    for column in range(5000):
        one_by_one += terms[:, column]
    assert not torch.equal(one_by_one, terms.sum(1))
    assert judged(lambda x: x.sum(1), one_by_one, terms).judgement is Judgement.FINE


def test_a_sum_without_its_last_term_is_wrong() -> None:
    terms = torch.randn(4, 5000, generator=torch.Generator().manual_seed(1)) + 0.3
    assert judged(lambda x: x.sum(1), terms[:, :-1].sum(1), terms).judgement is Judgement.WRONG


def test_a_sum_in_16_bits_is_wrong() -> None:
    terms = torch.rand(4, 2000, generator=torch.Generator().manual_seed(1)).bfloat16()
    one_by_one = torch.zeros(4, dtype=torch.bfloat16)
    for column in range(2000):
        one_by_one += terms[:, column]
    assert judged(lambda x: x.sum(1), one_by_one, terms).judgement is Judgement.WRONG


def test_an_error_that_is_passed_on_is_not_the_kernels() -> None:
    broken = X + 1
    assert judged(lambda x: x.relu(), broken.relu(), broken).judgement is Judgement.FINE


def chain(x: Any) -> Any:
    return (x * 1.7 + 0.3).sigmoid() * x


def test_a_lost_rounding_is_other_and_not_wrong() -> None:
    x = X.bfloat16()
    fused = chain(x.float()).bfloat16()
    assert not judged(chain, fused, x).is_other
    found = judged(chain, fused, x, is_strict=True)
    assert (found.judgement, found.is_other) == (Judgement.FINE, True)
    assert not judged(chain, chain(x), x, is_strict=True).is_other


def test_the_lost_rounding_has_an_operation() -> None:
    x = X.bfloat16()
    value = (x * 1.7 + 0.3).float().sigmoid().mul(x.float()).bfloat16()
    module, node, known = graph_of(chain, x)
    found = lost_rounding(module, needed([node], known), known, node, value)
    assert found is not None
    assert found.node.target is torch.ops.aten.sigmoid.default
    assert reason_of(found).startswith("the fused kernel keeps aten.sigmoid in float32")
    assert lost_rounding(module, needed([node], known), known, node, chain(x)) is None


def test_what_is_not_finite_in_eager_either_convicts_nobody() -> None:
    class Runs:
        def reference(self, _at: Any) -> Any:
            return torch.ones(3, dtype=torch.float64)

        def noisy(self, _at: Any) -> list[Any]:
            return [torch.ones(3)]

    eager, value = torch.tensor([math.nan, 1.0, 1.0]), torch.tensor([1.0, math.inf, 1.0])
    assert judged_pair(eager, value, Runs(), None, lost=False).judgement is Judgement.UNDECIDED
    assert judged_pair(torch.ones(3), value, Runs(), None, lost=False).judgement is Judgement.WRONG


def test_random_numbers_are_not_compared() -> None:
    with pytest.raises(NotComputableError, match="draws random numbers"):
        judged(lambda x: torch.rand_like(x) + x, X, X)


def test_the_error_of_a_right_value_is_its_distance() -> None:
    """A value beside zero is off by much in relation to itself: that is no distance."""
    reference = torch.tensor([1e-15, 1.0], dtype=torch.float64)
    eager = torch.tensor([0.0, 1.0 + 2**-22])
    value = torch.tensor([1e-8, 1.0])

    class Runs:
        def reference(self, _at: int | None) -> Any:
            return reference

        def noisy(self, _at: int | None) -> list[Any]:
            return [torch.tensor([3e-8, 1.0 - 2**-22])]

    found = judged_pair(eager, value, Runs(), None, lost=False)
    assert found.judgement is Judgement.FINE
    assert found.error == pytest.approx(1e-8)


def test_memory_that_is_written_to_is_judged_after_the_write() -> None:
    def filled(x: Any) -> Any:
        y = x.clone()
        y[1:3].fill_(2.5)
        return y.tanh()

    module, _, known = graph_of(filled, X)
    clone, write = (next(each for each in module.graph.nodes if name in each.name) for name in ("clone", "fill"))
    after = X.clone()
    after[1:3] = 2.5
    assert judged_value(module, clone, after, known, writes=(write,)).judgement is Judgement.FINE
    assert judged_value(module, clone, X, known, writes=(write,)).judgement is Judgement.WRONG
    assert judged_value(module, clone, X, known).judgement is Judgement.FINE


@pytest.mark.parametrize(("reads", "lacks"), [(("x", "w"), True), (("x", "w", "b"), False)])
def test_a_convolution_without_its_bias_is_no_value_of_the_graph(reads: tuple[str, ...], lacks: bool) -> None:
    weights = torch.randn(2, 3, 3, 3), torch.randn(2)
    _, node, _ = graph_of(torch.nn.functional.conv2d, torch.randn(1, 3, 5, 5), *weights)
    read = dict(zip(reads, reads, strict=True))
    assert (
        lacks_bias(WatchedCall("extern_kernels.convolution", True, False, read, {"buf0": "buf0"}, [node], node))
        is lacks
    )
