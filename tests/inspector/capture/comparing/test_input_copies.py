"""Copies of tensors in memory and in files."""

import tempfile
from typing import Any, NoReturn

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.comparing import snapshots  # noqa: E402
from ctrace.inspector.capture.comparing.snapshots import copy_of  # noqa: E402


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_LARGE", 64)


def is_same(one: Any, other: Any) -> bool:
    bits = (each.reshape(-1).view(torch.uint8) for each in (one, other))
    return bool(one.shape == other.shape and one.dtype == other.dtype and torch.equal(*bits))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.int64, torch.bool]
)
def test_a_large_tensor_is_the_same_in_a_file(dtype: Any):
    tensor = torch.randint(0, 2, (5, 40)).to(dtype)
    copied = copy_of(tensor)
    assert is_same(copied, tensor)
    before = tensor.clone()
    tensor.zero_()
    assert is_same(copied, before)
    copied.zero_()
    assert is_same(copied, torch.zeros_like(before))


def test_nan_and_signed_zero_stay():
    tensor = torch.tensor([float("nan"), -0.0, 1.0, float("inf")] * 8)
    assert is_same(copy_of(tensor), tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.rand(2, 3),
        torch.rand(40, 5).t(),
        torch.rand(40, 5)[:, ::2],
        torch.rand(40, 5).to_sparse(),
        torch.rand(40, 5, dtype=torch.complex64).conj(),
        torch.quantize_per_tensor(torch.rand(40, 5), 0.1, 0, torch.quint8),
        torch.rand(40, 5, device="meta"),
    ],
    ids=["small", "transposed", "strided", "sparse", "conjugated", "quantized", "meta"],
)
def test_other_tensors_are_copied_in_memory(tensor: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", _refuse)
    copied = copy_of(tensor)
    assert copied is not tensor
    assert (copied.shape, copied.dtype, copied.layout) == (tensor.shape, tensor.dtype, tensor.layout)


def test_a_full_disk_leaves_the_copy_in_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", _full)
    tensor = torch.rand(100)
    assert torch.equal(copy_of(tensor), tensor)


def test_a_copy_has_no_history():
    parameter = torch.nn.Parameter(torch.rand(100))
    copied = copy_of(parameter * 2)
    assert copied.grad_fn is None
    assert not copied.requires_grad
    assert type(copy_of(parameter)) is torch.Tensor


def _refuse(**_options: Any) -> NoReturn:
    raise AssertionError


def _full(**_options: Any) -> NoReturn:
    raise OSError(28, "No space left on device")
