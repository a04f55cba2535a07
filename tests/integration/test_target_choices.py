"""Answers to torch's questions about the device during lowering, for a target GPU."""

from contextlib import contextmanager
from typing import Any, cast

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import conv2d, scaled_dot_product_attention

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.features.gpus.child.virtual_gpu import VirtualGpu
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named

LAST = torch.channels_last


class Records:
    """Collects what hooks record."""

    def __init__(self) -> None:
        self.undecided: list[Any] = []
        self.problems: list[str] = []

    def add(self, record, _at=None):
        self.undecided.append(record)

    def record(self, name, payload, _at=None):
        """Ignore the GPU."""

    def problem(self, what):
        self.problems.append(what)

    @contextmanager
    def watching(self, _what):
        yield


@contextmanager
def on(name):
    FakeTensorMode.cache_clear()  # it caches results from another target
    with VirtualGpu(gpu_named(name), cast(Recorder, Records())).present(), FakeTensorMode(), enable_python_dispatcher():
        yield


def image(dtype=torch.float32, form=LAST):
    return torch.empty(2, 8, 16, 16, dtype=dtype, device="cuda").to(memory_format=form)


def weight(dtype=torch.float32):
    return torch.empty(8, 8, 3, 3, dtype=dtype, device="cuda")


@pytest.mark.parametrize(
    ("gpu", "dtype", "form", "last"),
    [
        ("h100", torch.float32, LAST, True),
        ("h100", torch.float32, torch.contiguous_format, False),
        ("h100", torch.float64, LAST, False),
        ("h100", torch.bfloat16, LAST, True),
        ("t4", torch.bfloat16, LAST, False),
        ("t4", torch.float16, LAST, True),
    ],
)
def test_a_convolution_lays_out_its_result_as_cudnn_does(gpu, dtype, form, last):
    with on(gpu):
        assert conv2d(image(dtype, form), weight(dtype)).is_contiguous(memory_format=LAST) is last


def test_without_cudnn_the_result_is_contiguous():
    with on("h100"), torch.backends.cudnn.flags(enabled=False):
        assert conv2d(image(), weight()).is_contiguous()


def attention(width=64, mask=None, dtype=torch.float32):
    """Trace a call, and return the resulting ops."""
    query = torch.empty(2, 4, 100, width, dtype=dtype, device="cuda")
    graph = make_fx(lambda q: scaled_dot_product_attention(q, q, q, mask))(query).graph
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]


def test_a_call_becomes_the_op_of_the_kernel():
    with on("h100"):
        assert attention()[0] == "aten._scaled_dot_product_efficient_attention.default"
        assert attention(dtype=torch.bfloat16)[0] == "aten._scaled_dot_product_cudnn_attention.default"
    with on("a100"):
        assert attention(dtype=torch.bfloat16)[0] == "aten._scaled_dot_product_flash_attention.default"


def test_a_width_is_padded_for_flash_attention():
    with on("h100"):
        found = attention(20, dtype=torch.bfloat16)
    assert found.count("aten.constant_pad_nd.default") == 3
    assert found[-1] == "aten.slice.Tensor"


def test_a_mask_is_made_additive_and_aligned_for_efficient_attention():
    with on("h100"):
        mask = torch.empty(100, 100, dtype=torch.bool, device="cuda")
        found = attention(mask=mask)
    assert [name for name in found if "where" in name or "pad" in name or "expand" in name] == [
        "aten.where.self", "aten.constant_pad_nd.default", "aten.expand.default",
    ]  # fmt: skip


def test_torch_is_restored_afterwards():
    op = torch.ops.aten.scaled_dot_product_attention.default
    before = dict(op.py_kernels), torch._C._select_conv_backend, torch.cuda.default_generators
    with on("h100"):
        pass
    assert (dict(op.py_kernels), torch._C._select_conv_backend, torch.cuda.default_generators) == before
