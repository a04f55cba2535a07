"""What measures a peak on a GPU: counts of the allocator that is in use."""

import pytest
import torch

from ctrace.inspector.features.memory.child.model_calls import gpu_index, keeps_counts, keeps_history, measured_peak


@pytest.mark.parametrize(("device", "index"), [("cuda", 0), ("cuda:3", 3), ("cpu", None), ("mps", None)])
def test_gpus_are_known_by_their_number(device: str, index: int | None) -> None:
    assert gpu_index(device) == index


@pytest.mark.parametrize(
    ("backend", "counts", "history"),
    [("native", True, True), ("cudaMallocAsync", True, False), ("pluggable", False, False)],
)
def test_each_allocator_is_asked_for_what_it_keeps(
    monkeypatch: pytest.MonkeyPatch, backend: str, counts: bool, history: bool
) -> None:
    monkeypatch.setattr(torch.cuda.memory, "get_allocator_backend", lambda: backend)
    assert (keeps_counts(), keeps_history()) == (counts, history)


def test_an_allocator_without_counts_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pluggable one, which may take unified memory, raises for each count."""
    monkeypatch.setattr(torch.cuda.memory, "get_allocator_backend", lambda: "pluggable")
    assert measured_peak(lambda: None, "cuda:1", 0) is None
