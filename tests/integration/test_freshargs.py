"""Copies of arguments, and the times of launches on these copies, in this process."""

from typing import Any

import pytest

from ctrace.inspector.capture.built_kernels.fresh_arguments import CannotCopyError, Fresh
from ctrace.inspector.capture.built_kernels.stopwatch import timed

torch = pytest.importorskip("torch")


def test_copies_have_the_same_values_and_sharing() -> None:
    base = torch.arange(12.0)
    left, right = base[2:8].view(2, 3).t(), base[4:]
    fresh = Fresh((left, [right, 3]), {"out": base, "name": "x"})
    copied, (other, three) = fresh.args
    assert (copied.stride(), copied.storage_offset(), three, fresh.kwargs["name"]) == (left.stride(), 2, 3, "x")
    assert torch.equal(copied, left)
    copied.zero_()
    assert torch.equal(other[:4], torch.zeros(4))  # the same memory, among the copies
    assert torch.equal(fresh.kwargs["out"][8:], base[8:])
    assert torch.equal(base, torch.arange(12.0))
    assert not fresh.on_gpu


def test_written_arguments_are_restored() -> None:
    kept, written = torch.ones(3), torch.ones(3)
    fresh = Fresh((kept, written), {})
    restore = fresh.restoring([written, 3])
    for copy in fresh.args:
        copy.add_(1)
    restore()
    assert [copy[0].item() for copy in fresh.args] == [2, 1]


def test_a_parameter_and_an_empty_tensor() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    with torch.no_grad():
        first, second = Fresh((parameter, torch.empty(0, 3)), {}).args
    assert torch.equal(first, torch.ones(2))
    assert second.shape == (0, 3)


@pytest.mark.parametrize("argument", [torch.ones(2).to_sparse(), torch.ones(2, dtype=torch.complex64).conj()])
def test_arguments_that_cannot_be_copied(argument: Any) -> None:
    with pytest.raises(CannotCopyError):
        Fresh((argument,), {})


def test_arguments_are_restored_before_each_launch() -> None:
    seen: list[str] = []
    seconds, launches = timed(lambda: seen.append("launch"), lambda: seen.append("restore"), on_gpu=False)
    assert seconds >= 0
    assert launches >= 3
    assert seen == ["launch", *["restore", "launch"] * launches]
