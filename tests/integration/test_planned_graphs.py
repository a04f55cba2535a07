"""What graphs keep, and what a CUDA graph would copy, from graphs that are planned on a machine without a GPU."""

import pytest
import torch

from ctrace.inspector.features.memory.child.planned_graphs import PlannedGraph, PlannedGraphs
from ctrace.inspector.features.memory.child.storage_ledger import Ledger
from ctrace.inspector.features.memory.child.tracked_calls import Tracked

pytestmark = pytest.mark.integration


class TwoParts(torch.nn.Module):
    """Two layers, with a graph break between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(32, 64), torch.nn.Linear(64, 8)

    def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x)) * by
        torch._dynamo.graph_break()
        return self.last(h)


class Counting(torch.nn.Module):
    """Writes to an input."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return x * count


def planned(model: torch.nn.Module, *args: torch.Tensor) -> list[PlannedGraph]:
    """Return the graphs of a forward, after a step."""
    ledger = Ledger()
    graphs = PlannedGraphs(ledger)
    torch._dynamo.reset()
    with Tracked(ledger).active(), graphs.active():
        result = torch.compile(model)(*args)
        if result.requires_grad:
            result.sum().backward()
    return [each for each in graphs.graphs if not each.is_backward]


def copied(model: torch.nn.Module, *args: torch.Tensor) -> list[int]:
    """Return what a CUDA graph would copy for each graph of a forward."""
    return [each.copied_bytes for each in planned(model, *args)]


def test_inputs_are_copied_and_neither_parameters_nor_results_of_another_graph():
    x, by = torch.randn(128, 32), torch.randn(64).expand(128, 64)
    assert copied(TwoParts(), x, by) == [(128 * 32 + 64) * 4, 0]  # the copy of an expanded input has its strides


def test_a_copy_lasts_until_the_backward_only_if_it_is_saved():
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), torch.randn(16, 8)
    kept = planned(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.ReLU()), torch.randn(2, 3, 8, 8))
    saved = planned(model, x)
    assert [each.copied_at("backward") for each in (*saved, *kept)] == [x.nbytes, 0]
    assert all(each.copied_at("forward") == each.copied_bytes > 0 for each in (*saved, *kept))


def test_inputs_that_are_marked_static_are_not_copied():
    x, by = torch.randn(128, 32), torch.randn(64)
    torch._dynamo.mark_static_address(x)
    assert copied(TwoParts(), x, by) == [64 * 4, 0]


def test_code_that_writes_to_an_input_becomes_no_cuda_graph():
    assert copied(Counting(), torch.randn(8), torch.zeros(8)) == [0]


def test_a_copy_of_an_input_that_is_saved_in_another_layout_counts_once():
    # Inductor copies the input and the weight of a convolution on the CPU to channels-last, and saves the copies.
    ledger = Ledger()
    model, x = torch.nn.Conv2d(3, 16, 4, stride=4), torch.randn(8, 3, 32, 32)
    torch._dynamo.reset()
    with Tracked(ledger).active(), PlannedGraphs(ledger).active():
        ledger.add_unknown(x)
        ledger.begin()
        torch.compile(model)(x).sum().backward()
    alive = ledger.peak("cpu").alive
    assert [size for stored, size in alive.items() if size == x.nbytes and stored is not ledger.of(x)] == [x.nbytes]
