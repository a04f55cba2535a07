"""Copies of inputs that overlap."""

import pytest
import torch

from ctrace.inspector.capture.comparing.float64 import NoReferenceError
from ctrace.inspector.features.accuracy.child.kernel_judge import copied_inputs, widened_inputs


def test_what_overlaps_still_does_and_the_rest_does_not():
    memory = torch.arange(24.0)
    tensors = [memory[:8], memory[4:12], memory[16:], memory[18:20]]
    first, second, third, part, number = copied_inputs([*tensors, 3])
    assert [each.tolist() for each in (first, second, third, part)] == [each.tolist() for each in tensors]
    first.zero_()
    part.fill_(-1)
    assert second.tolist() == [0, 0, 0, 0, 8, 9, 10, 11]
    assert third.tolist() == [16, 17, -1, -1, 20, 21, 22, 23]
    assert (number, memory.tolist()) == (3, list(range(24)))
    assert (first._version, second._version) == (2, 1)  # `set_` counts as one


def test_strides_stay_and_float64_overlaps_as_well():
    memory = torch.arange(24.0).view(4, 6)
    one, other = widened_inputs([memory.t(), memory[1:3, ::2]])
    assert (one.dtype, other.dtype) == (torch.float64, torch.float64)
    assert (one.stride(), other.stride()) == ((1, 6), (6, 2))
    one.mul_(2)
    assert other.tolist() == [[12, 16, 20], [24, 28, 32]]


def test_complex_numbers_and_conjugates():
    memory = torch.randn(4, dtype=torch.complex64)
    for copies in (copied_inputs, widened_inputs):
        one, other = copies([memory, memory.conj()])
        assert torch.allclose(other.to(torch.complex64), memory.conj())
        one.zero_()
        assert not other.any()


def test_other_dtypes_overlap_as_they_are_and_have_no_float64():
    memory = torch.arange(8.0)
    one, other = copied_inputs([memory[1:], memory.view(torch.int32)[2:]])
    other.zero_()
    assert one.tolist() == [1, 0, 0, 0, 0, 0, 0]
    with pytest.raises(NoReferenceError):
        widened_inputs([memory[1:], memory.view(torch.int32)])


def test_an_expanded_input_that_overlaps_with_itself_is_copied_alone():
    (one,) = copied_inputs([torch.ones(1).expand(3)])
    assert one.tolist() == [1, 1, 1]
