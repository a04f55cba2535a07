"""Times of a model with a package."""

from ctrace.inspector.features.workshop.child.applying_kernels import waiting
from ctrace.inspector.features.workshop.package_model import Times


def test_a_gpu_that_waits_for_the_host_is_named_with_both_times() -> None:
    """A model of 63 us whose kernel takes 12 us was called slower after its kernel became faster."""
    said = waiting(Times(62.6e-6, 63.9e-6, "slower"), Times(12.0e-6, 8.27e-6))
    assert "62.6 us" in said
    assert "12 us before" in said
    assert "8.27 us after" in said


def test_a_busy_gpu_needs_no_words() -> None:
    assert waiting(Times(1.31e-3, 1.27e-3, "faster"), Times(1.2e-3, 1.16e-3)) == ""
    assert waiting(None, Times(1.0, 1.0)) == waiting(Times(1.0, 1.0), None) == ""
