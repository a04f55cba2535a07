"""What a kernel must not do shows, also where memory is harmless: in Triton's interpreter, as on a GPU."""

import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytest.importorskip("triton")

from ctrace.inspector.features.workshop.child.checks import guarded_call  # noqa: E402
from ctrace.inspector.features.workshop.child.kernel_sides import interpreted  # noqa: E402
from tests.support import small_kernels as kernels  # noqa: E402


def config(**constants: Any) -> Any:
    """Return what a launch reads of a `triton.Config`."""
    return types.SimpleNamespace(kwargs=constants)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_a_store_to_an_input_is_seen(dtype: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        y.as_strided((1,), (1,), y.storage_offset() + 2).fill_(1)
        return x.clone()

    x, y = torch.zeros(2, 3, dtype=dtype), torch.zeros(2, 3, dtype=dtype)
    found, outside = guarded_call(function, (x, y), {})
    assert outside == "the kernel writes to input 2, at element 2 of its memory"
    assert torch.equal(found, x)
    assert not y.any()


def test_a_store_behind_an_input_is_seen() -> None:
    def function(x: Any) -> None:
        x.as_strided((1,), (1,), x.storage_offset() + 7).fill_(1)

    _, outside = guarded_call(function, (torch.zeros(2, 3),), {})
    assert outside == "the kernel writes to input 1, at 2 past its end"


def test_inputs_that_stay_are_no_fault() -> None:
    inputs = (torch.tensor([float("nan"), 1.0]), torch.zeros(0), torch.tensor(3.0), 5)
    assert guarded_call(lambda *x: x[0] * 2, inputs, {})[1] == ""


def test_a_store_before_an_input_is_seen() -> None:
    def function(x: Any) -> None:
        torch.empty(0).set_(x.untyped_storage(), x.storage_offset() - 1, (1,), (1,)).fill_(1)

    assert guarded_call(function, (torch.zeros(2, 3),), {})[1] == "the kernel writes to input 1, at 1 before its start"


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.float8_e4m3fn])
@pytest.mark.parametrize(("at", "where"), [(-1, "before"), (4, "behind")])
def test_a_store_beside_an_output_is_seen(dtype: Any, at: int, where: str) -> None:
    def function() -> Any:
        made = torch.empty(4, dtype=dtype)
        torch.empty(0, dtype=dtype).set_(made.untyped_storage(), made.storage_offset() + at, (1,), (1,)).fill_(1)
        return made

    assert f"the kernel writes {where} buffer 1 that it allocates" in guarded_call(function, (), {})[1]


def test_a_masked_load_without_other_has_no_zeros() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(2, 5, dtype=dtype)
        found = [torch.zeros(2) for _ in range(2)]
        for y, has_other in zip(found, (True, False), strict=True):
            interpreted(kernels.row_sums, (2,), (x, y, 5), config(HAS_OTHER=has_other, BLOCK=8))
        assert found[0].tolist() == [5.0, 5.0]
        assert found[1].isnan().all()


@pytest.mark.parametrize(
    ("shift", "stride", "what"),
    [
        (0, 8, ""),
        (1, 8, "the kernel reads outside of argument 1 of its launch, at 1 past its end"),
        (-1, 8, "the kernel reads outside of argument 1 of its launch, at 1 before its start"),
        (0, 9, "the kernel writes outside of argument 2 of its launch, at 1 past its end"),
        (0, 4, "a program of the kernel writes what another one writes, in no certain order"),
        (0, 0, "a program of the kernel writes what another one writes, in no certain order"),
    ],
)
def test_each_access_is_looked_at(shift: int, stride: int, what: str) -> None:
    """Nothing of the input that is read outside of it reaches a result that a comparison sees."""
    x, y = torch.arange(16.0), torch.zeros(16)

    def function(x: Any) -> Any:
        y = torch.empty(16)
        interpreted(kernels.shifted, (2,), (x, y, shift, stride), config(BLOCK=8))
        return y

    found, wrong = guarded_call(function, (x,), {})
    assert wrong == what
    assert found is None or torch.equal(found, x + y)


def test_a_program_that_needs_another_ones_result_is_seen() -> None:
    x = torch.zeros(16)
    with pytest.raises(Exception, match="reads what another one writes"):
        interpreted(kernels.running_sum, (2,), (x,), config(BLOCK=8))


def test_two_values_for_one_element_are_seen() -> None:
    with pytest.raises(Exception, match="writes two values to one element"):
        interpreted(kernels.all_to_one, (1,), (torch.zeros(1),), config(BLOCK=8))


def test_the_maximum_drops_nan_as_on_a_gpu() -> None:
    x = torch.tensor([float("nan"), 1.0])
    interpreted(kernels.at_least_zero, (1,), (x,), config(BLOCK=2))
    assert x.tolist() == [0.0, 1.0]


def test_programs_that_wait_for_each_other_may_share_results() -> None:
    x, count = torch.ones(16), torch.zeros(1, dtype=torch.int32)
    interpreted(kernels.counted, (2,), (x, count), config(BLOCK=8))
    assert x.tolist() == [2.0] * 8 + [4.0] * 8
