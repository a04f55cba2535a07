"""The operations of what runs, and how long a GPU needs for them at least."""

import pytest
import torch

from ctrace.inspector.facts.memory_facts import ProductWork
from ctrace.inspector.features.memory.child.saved_outputs import CountedProducts
from ctrace.inspector.features.memory.memory_run import _least_seconds
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named


def test_products_count_at_the_sizes_that_run_by_dtype_and_what_a_gpu_may_compute_in_tf32():
    products = CountedProducts()
    layer = torch.nn.Conv2d(2, 4, 1, bias=False)
    with products.counting():
        torch.randn(3, 5) @ torch.randn(5, 7) + 1
        torch.randn(3, 5, dtype=torch.bfloat16) @ torch.randn(5, 2, dtype=torch.bfloat16)
        layer(torch.randn(1, 2, 8, 8))
    assert products.work == {"float32": 2 * 3 * 5 * 7, "bfloat16": 2 * 3 * 5 * 2, "tf32": 2 * 64 * 2 * 4}


def test_each_dtype_takes_its_time_at_the_rate_of_the_gpu():
    gpu = gpu_named("h100")
    half, whole = (ProductWork(dtype, 1e15) for dtype in ("bfloat16", "float32"))
    alone = [_least_seconds((each,), gpu) for each in (half, whole)]
    assert alone == [pytest.approx(1e15 / gpu.rates["bfloat16"]), pytest.approx(1e15 / gpu.vector_rates["float32"])]
    assert _least_seconds((half, whole), gpu) == pytest.approx(sum(filter(None, alone)))
    assert _least_seconds((), gpu) is None
