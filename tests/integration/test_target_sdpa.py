"""Attention under `--target`: the kernel that an H100 chooses, and the resulting op."""

import json
from itertools import product
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ctrace.inspector.features.gpus.child.sdpa import CUDNN, EFFICIENT, FLASH, MATH, SdpaCall, chosen
from tests.support.places import DATA

H100, A100, T4, L4 = (9, 0), (8, 0), (7, 5), (8, 9)
TABLE = (DATA / "sdp_h100.txt").read_text().splitlines()
"""The choices of torch 2.11 on an H100: dtype, mask, causal, width, requires grad, keys; choice."""
FORMS = (DATA / "sdp_h100_forms.jsonl").read_text().splitlines()
"""The same for more forms of a call, as JSON: the call, and the choice."""


def ask(
    dtype=torch.bfloat16, queries=128, keys=None, width=64, *, heads=4, mask=None, grad=False, on=H100, **given
) -> int:
    lengths = (queries, keys or queries, keys or queries)
    counts = (4, heads, heads)
    query, key, value = (
        torch.empty(2, count, length, width, dtype=dtype, requires_grad=grad)
        for count, length in zip(counts, lengths, strict=True)
    )
    options: dict[str, Any] = {"dropout": 0.0, "causal": False, "gqa": False} | given
    return chosen(SdpaCall(query, key, value, mask, **options, capability=on))


@pytest.mark.parametrize("line", TABLE)
def test_an_h100_chose_the_same(line):
    dtype, mask, causal, width, grad, keys, choice, *_ = line.split()
    tensor = None if mask == "None" else torch.zeros(128, int(keys), dtype=getattr(torch, dtype))
    found = ask(
        getattr(torch, dtype), 128, int(keys), int(width), mask=tensor, grad=grad == "True", causal=causal == "True"
    )
    assert found == int(choice)


def test_older_gpus_have_fewer_kernels():
    half, brain, single = torch.float16, torch.bfloat16, torch.float32
    assert [ask(dtype, on=A100) for dtype in (half, brain, single)] == [FLASH, FLASH, EFFICIENT]
    assert [ask(dtype, on=T4) for dtype in (half, brain, single)] == [EFFICIENT, MATH, EFFICIENT]
    assert ask(torch.float32, width=7, on=T4) == EFFICIENT
    assert ask(torch.float32, width=7, on=A100) == MATH


def test_features_of_only_some_kernels():
    assert ask(dropout=0.1) == CUDNN
    assert ask(queries=1, keys=128, dropout=0.1) == FLASH
    assert [ask(width=width) for width in (256, 264, 100)] == [CUDNN, EFFICIENT, FLASH]
    assert ask(heads=2, gqa=True) == CUDNN
    assert ask(torch.float32, heads=2, gqa=True) == MATH
    assert ask(heads=2) == MATH
    assert ask(torch.float64) == MATH
    trained = torch.zeros(128, 128, dtype=torch.bfloat16, requires_grad=True)
    assert ask(mask=trained) == EFFICIENT


def test_a_head_size_without_flash_in_the_backward_pass():
    assert [ask(width=width, grad=True, on=L4) for width in (192, 200, 256)] == [FLASH, EFFICIENT, FLASH]
    assert ask(width=200, on=L4) == FLASH


def test_the_users_switches_are_respected():
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        assert ask() == EFFICIENT
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert ask() == MATH
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
        ask(torch.float32)
    assert ask() == CUDNN


def test_deterministic_algorithms_leave_out_cudnn():
    torch.use_deterministic_algorithms(True)
    try:
        assert ask() == FLASH
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("width", "keys"), list(product((64, 20), (128, 77))))
def test_an_empty_call_takes_no_fused_kernel(width, keys):
    empty = torch.empty(2, 4, 0, width)
    full = torch.empty(2, 4, keys, width)
    assert chosen(SdpaCall(empty, full, full, None, 0.0, causal=False, gqa=False, capability=H100)) == MATH


def form(shape, dtype, layout, grad) -> torch.Tensor:
    """Make a tensor with one of the recorded layouts."""
    if layout == "bshd":
        tensor = torch.empty(shape[0], shape[2], shape[1], shape[3], dtype=dtype, device="meta").transpose(1, 2)
    elif layout == "last":
        tensor = torch.empty(*shape[:-2], shape[-1], shape[-2], dtype=dtype, device="meta").transpose(-1, -2)
    else:
        tensor = torch.empty(shape, dtype=dtype, device="meta")
    return tensor.requires_grad_(grad)


def test_an_h100_chose_the_same_for_many_forms():
    """Recorded with torch 2.11 and cuDNN 9.19: widths, lengths, groups, masks, dropout, layouts, gradients."""
    wrong = []
    for line in FORMS:
        recorded, choice = json.loads(line)
        dtype, grad = getattr(torch, recorded["dtype"]), recorded.get("grad", "")
        keys = recorded.get("k", recorded["q"])
        shapes = (recorded["q"], keys, recorded.get("v", keys))
        query, key, value = (
            form(shape, dtype, recorded.get("layout"), name in grad) for name, shape in zip("qkv", shapes, strict=True)
        )
        mask = None
        if "mask" in recorded:
            mask = torch.empty(recorded["mask"], dtype=torch.bool if "mdtype" in recorded else dtype, device="meta")
            mask.requires_grad_("mgrad" in recorded)
        with torch.set_grad_enabled("no_grad" not in recorded):
            call = SdpaCall(
                query, key, value, mask, float(recorded.get("p", 0)), "causal" in recorded, "gqa" in recorded, H100
            )
            wrong += [recorded] if chosen(call) != choice else []
    assert not wrong
