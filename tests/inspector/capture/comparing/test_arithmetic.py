"""Eager calls that are recorded, rounded at random, or computed in float64."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.calls.ways import Call  # noqa: E402
from ctrace.inspector.capture.comparing.arithmetic import Noisy, WatchedArithmetic  # noqa: E402
from ctrace.inspector.capture.comparing.float64 import Float64, NoReferenceError  # noqa: E402
from ctrace.inspector.capture.comparing.precision import BFLOAT16, FLOAT32, FLOAT64  # noqa: E402


def called(arithmetic: WatchedArithmetic, function: Callable[..., Any], *args: Any) -> Any:
    function = arithmetic.model(function)
    given = arithmetic.call(Call(args, {}))
    with arithmetic.active():
        return function(*given.args)


def normed(x: Any) -> Any:
    """Compute as library code does: casts back and forth, factories, its own constants."""
    wide = x.to(torch.float32)
    scale = torch.full((4,), 3.0, dtype=torch.float16) * torch.tensor(0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True))) @ torch.ones(4, 4, dtype=torch.float32)
    return (y.half() * scale).to(x.dtype)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_float64_ignores_casts_and_autocast(mode: Any):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    with mode():
        result = called(Float64(), normed, x.bfloat16())
        exact = x.bfloat16().double()
        exact = (exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True))) @ torch.ones(4, 4).double() * 0.3
        assert result.dtype is torch.float64
        torch.testing.assert_close(result, exact, rtol=1e-6, atol=1e-6)


def test_float64_of_a_model_and_its_gradients():
    model = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.ReLU()).bfloat16()
    x = torch.randn(2, 2, 8, dtype=torch.bfloat16, requires_grad=True)
    arithmetic = Float64()
    model = arithmetic.model(model)
    given = arithmetic.call(Call((x,), {})).args[0]
    with arithmetic.active():
        model(given).sum().backward()
    assert {each.grad.dtype for each in (given, *model.parameters())} == {torch.float64}
    assert model[1].running_mean.dtype is torch.float64
    assert x.grad is None


def test_float64_writes_into_tensors_that_it_did_not_make():
    cache = torch.zeros(4, 4)

    def function(x: Any) -> Any:
        cache[:2] = x
        cache.index_add_(0, torch.tensor([3]), x[:1])
        return cache @ x.T

    assert called(Float64(), function, torch.ones(2, 4)).sum() == 24


def test_the_same_argument_twice_is_the_same():
    x = torch.ones(2)
    given = Float64().call(Call((x, [x]), {}))
    assert given.args[0] is given.args[1][0]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x.to(torch.float8_e4m3fn).float(), "quantizes"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(), "quantizes"),
        (lambda x: x.view(torch.int32), "bits"),
    ],
)
def test_what_means_something_else_in_float64_is_refused(function: Any, why: str):
    arithmetic = Float64()
    with pytest.raises(NoReferenceError, match=why):
        called(arithmetic, function, torch.ones(4))
    assert why in arithmetic.refused


@pytest.mark.parametrize(
    ("function", "coarsest"),
    [
        (lambda x: x + 1, FLOAT32),
        (lambda x: x.double() + 1, FLOAT64),
        (lambda x: (x.bfloat16() + 1).float(), BFLOAT16),
        (lambda x: x.shape[0], None),
    ],
)
def test_the_coarsest_dtype(function: Any, coarsest: Any):
    watched = WatchedArithmetic()
    called(watched, function, torch.ones(2).double() if coarsest is FLOAT64 else torch.ones(2))
    assert watched.coarsest is coarsest


def test_matmuls_may_round_their_factors():
    watched = WatchedArithmetic()
    torch.set_float32_matmul_precision("medium")
    try:
        called(watched, lambda x: x @ x, torch.ones(2, 2))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert watched.coarsest is BFLOAT16


def test_what_python_reads_and_draws_is_seen():
    watched = WatchedArithmetic()
    generator = torch.Generator().manual_seed(0)

    def function(x: Any) -> Any:
        if x.sum() > 1 and int(x.argmax()) == 0:
            return torch.rand(2, generator=generator)
        return x

    called(watched, function, torch.ones(3))
    assert (watched.read, watched.generators) == ([True, 0], True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_noise_is_that_of_one_more_rounding(dtype: Any):
    x = torch.rand(1000, dtype=torch.float64).to(dtype) + 1
    by = torch.finfo(dtype).eps
    one, other = (called(Noisy(seed), lambda x: x * 1.5, x.clone()).double() for seed in (0, 1))
    exact = x.double() * 1.5
    for each in (one, other):
        error = ((each - exact) / exact).abs()
        assert by / 10 < error.mean()
        assert error.max() < 4 * by
    assert not torch.equal(one, other)
    assert torch.equal(one, called(Noisy(0), lambda x: x * 1.5, x.clone()).double())


def test_noise_leaves_flags_counts_and_positions_alone():
    x = torch.tensor([0.0, 1.0, -1.0, 5.0, float("inf"), float("-inf")])
    result = called(Noisy(0), lambda x: torch.cat([x, x * 1]), x)
    assert torch.equal(result, torch.cat([x, x]))


def test_noise_draws_no_random_numbers_of_the_program():
    state = torch.get_rng_state()
    called(Noisy(0), lambda x: x.exp(), torch.rand(5, generator=torch.Generator()))
    assert torch.equal(state, torch.get_rng_state())


def test_float64_uses_eagers_operators_and_not_pythons_decompositions():
    """The decomposition of nearest interpolation resamples a size that stays the same (pytorch #175154)."""

    def function(x: Any) -> Any:
        return torch.nn.functional.interpolate(x, scale_factor=1.3, mode="nearest")

    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    assert torch.equal(called(Float64(), function, x), function(x).double())


def test_float64_keeps_strides_and_what_lies_between_values():
    def function(x: Any) -> Any:
        return torch.as_strided(x, (4,), (1,))

    x = torch.arange(8.0)[::2]
    assert called(Float64(), function, x).tolist() == [0.0, 1.0, 2.0, 3.0]
