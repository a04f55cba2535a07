"""The differences between a tensor and what a guard expects."""

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.dynamo.unmet import differences  # noqa: E402

CHECK = (
    "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU), torch.float32, "
    "device=None, requires_grad=False, size=[{}], stride=[{}])"
)
STRIDE = "tensor 'L['x']' stride mismatch at index 2. expected 1, actual 16"


def test_strides_do_not_follow_from_a_size_that_may_vary():
    x = torch.empty_strided((1, 16, 1), (16, 1, 16))
    assert STRIDE in differences(CHECK.format("1, 16, None", "None, None, 1"), x)


def test_strides_follow_from_another_size():
    found = differences(CHECK.format("3, 4", "4, 1"), torch.ones(3, 8))
    assert found == ["tensor 'L['x']' size mismatch at index 1. expected 4, actual 8"]
