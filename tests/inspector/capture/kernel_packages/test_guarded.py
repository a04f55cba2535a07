"""What a kernel must not do shows, also where memory is harmless: in Triton's interpreter, as on a GPU."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.kernel_packages.guarded import guarded_call  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_a_store_to_an_input_is_seen(dtype: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        y.as_strided((1,), (1,), 2).fill_(1)
        return x.clone()

    x, y = torch.zeros(2, 3, dtype=dtype), torch.zeros(2, 3, dtype=dtype)
    found, outside = guarded_call(function, (x, y), {})
    assert outside == "the kernel writes to input 2, at element 2 of its memory"
    assert torch.equal(found, x)
    assert not y.any()


def test_a_store_behind_an_input_is_seen() -> None:
    _, outside = guarded_call(lambda x: x.as_strided((1,), (1,), 7).fill_(1), (torch.zeros(2, 3),), {})
    assert outside == "the kernel writes to input 1, at 2 past its end"


def test_inputs_that_stay_are_no_fault() -> None:
    inputs = (torch.tensor([float("nan"), 1.0]), torch.zeros(0), torch.tensor(3.0), 5)
    assert guarded_call(lambda *x: x[0] * 2, inputs, {})[1] == ""


def test_a_masked_load_without_other_has_no_zeros() -> None:
    pytest.importorskip("triton")
    from ctrace.inspector.capture.kernel_packages.kernel_sides import Interpreted
    from tests.support.masked_sum import row_sums

    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(2, 5, dtype=dtype)
        found = [torch.zeros(2) for _ in range(2)]
        for y, has_other in zip(found, (True, False), strict=True):
            Interpreted(row_sums)[(2,)](x, y, 5, HAS_OTHER=has_other, BLOCK=8)
        assert found[0].tolist() == [5.0, 5.0]
        assert found[1].isnan().all()
