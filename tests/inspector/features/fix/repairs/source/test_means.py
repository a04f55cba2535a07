"""A mean of chosen elements is computed as torch computes one, in the precision of each dtype."""

import pytest
import torch

from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace
from tests.support.repaired import REPAIRS

MEAN = "import torch\n\n\ndef f(x):\n    return x[x > 1].mean()\n"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("number", [0, 5, 70_000])
def test_a_mean_of_chosen_elements(dtype: torch.dtype, number: int):
    (rewrite,) = REPAIRS["boolean_index"].find(RepairPlace("/model.py", MEAN, 5, ""))
    found = []
    for source in (MEAN, rewrite.source):
        names: dict[str, object] = {}
        exec(source, names)
        x = (torch.arange(number) % 7).to(dtype).requires_grad_()
        mean = names["f"](x)  # type: ignore[operator]
        mean.backward()
        found.append((mean.detach(), x.grad))
    (one, gradient), (other, changed) = found
    assert one.dtype == other.dtype
    torch.testing.assert_close(other, one, equal_nan=True)
    torch.testing.assert_close(changed, gradient, equal_nan=True)
