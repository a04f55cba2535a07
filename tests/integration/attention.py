"""Attention in many spellings: whether torch fuses each, by its counter `fuse_attention`, and what ctrace reports.

Each unmatched spelling names one that torch matches and that differs only in the obstacle that ctrace reports first. So
each reported obstacle is true, or a test fails.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ctrace.inspector.knowledge.releases import NEWEST, release_of

WIDTH = 16
ROOT = math.sqrt(WIDTH)


@dataclass(frozen=True)
class Spelling:
    """One way to write attention; `inputs` are the shapes of random tensors, `long` ones of a mask of zeros and ones."""

    call: Callable[..., Any]
    matched: bool
    code: str = ""
    """The reported obstacle."""
    instead: str = ""
    """The spelling without this obstacle."""
    shapes: tuple[tuple[int, ...], ...] = ((2, 4, 8, WIDTH),) * 3
    mask: tuple[int, ...] = ()
    train: bool = False
    dtype: torch.dtype = torch.float32
    learned_mask: bool = False
    axis: int = -1
    on_cuda: str = ""
    """The obstacle that exists only on CUDA."""
    on_2_11: str = ""
    """The obstacle that exists only before torch 2.13."""
    exact: bool = False
    """Whether TF32 is off."""
    wrong: bool = False
    """Whether torch's replacement computes something else."""

    def inputs(self: "Spelling | Called", device: str) -> list[Tensor]:
        made = [torch.rand(shape, device=device, dtype=self.dtype, requires_grad=self.train) for shape in self.shapes]
        if self.mask:
            made.append(torch.rand(self.mask, device=device, dtype=self.dtype, requires_grad=self.learned_mask))
        return made


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1)


def textbook(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT).softmax(-1) @ v


def projected(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weight = torch.eye(WIDTH, device=q.device, dtype=q.dtype)
    return textbook(F.linear(q, weight), F.linear(k, weight), F.linear(v, weight))


def times(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_scores(q, k) * 0.25).softmax(-1) @ v


def unscaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _scores(q, k).softmax(-1) @ v


def scaled_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _scores(q * 0.25, k).softmax(-1) @ v


def added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT + mask).softmax(-1) @ v


def times_added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (_scores(q, k) * 0.25 + mask).softmax(-1) @ v


def unscaled_added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (_scores(q, k) + mask).softmax(-1) @ v


def filled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT).masked_fill(mask < 0.5, float("-inf")).softmax(-1) @ v


def exp_over_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (_scores(q, k) / ROOT).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ v


def with_amax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = _scores(q, k) / ROOT
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ v


def with_max(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = _scores(q, k) / ROOT
    weights = (scores - scores.max(-1, keepdim=True).values).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ v


def late(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = _scores(q, k) / ROOT
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights @ v) / weights.sum(-1, keepdim=True)


def dropped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.dropout((_scores(q, k) / ROOT).softmax(-1), 0.1) @ v


def not_dropped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.dropout((_scores(q, k) / ROOT).softmax(-1), 0.1, training=False) @ v


def in_float(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT).float().softmax(-1).to(q.dtype) @ v


def cast(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT).softmax(-1).double() @ v.double()


def heads_last(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return textbook(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return textbook(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))


def with_weights(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (_scores(q, k) / ROOT).softmax(-1)
    return weights @ v, weights


def tensor_scale(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_scores(q, k) / torch.sqrt(torch.tensor(float(WIDTH)))).softmax(-1) @ v


def shifted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT + 1.0).softmax(-1) @ v


def shifted_before(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((_scores(q, k) + 1.0) / ROOT).softmax(-1) @ v


def summed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / ROOT
    return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)


def other_dimension(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT).softmax(-2) @ v


def fixed_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return textbook(q.detach(), k, v)


def padded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """DistilBERT's attention, for which torch has a pattern, without gradients."""
    q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
    scores = (q @ k.transpose(-2, -1)).div(ROOT)
    return scores.masked_fill((mask == 0).view(2, 1, 1, 8).expand_as(scores), -float("inf")).softmax(-1) @ v


def swapped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Permute other dimensions than torch's pattern, which leaves their numbers open."""
    return textbook(q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1))


def one_maximum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Subtract one maximum from all scores of a head, which changes no softmax."""
    scores = _scores(q, k) / ROOT
    weights = (scores - scores.amax((-2, -1), keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ v


def one_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = _scores(q, k) / ROOT
    weights = (scores - scores.amax((-2, -1), keepdim=True)).exp()
    return (weights / weights.sum((-2, -1), keepdim=True)) @ v


def averaged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (_scores(q, k) / ROOT).softmax(-1)
    return weights @ v + weights.mean()


def t5(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """T5's attention, for which torch has patterns; those with dropout are not for CUDA."""
    q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
    weights = (q @ k.permute(0, 1, 3, 2) + mask).float().softmax(-1).type_as(q)
    return F.dropout(weights, 0.1) @ v


def mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT).double().softmax(-1).to(torch.bfloat16) @ v.to(torch.bfloat16)


def whole_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (_scores(q, k) / ROOT + mask.long()).softmax(-1) @ v


THREE = ((8, 8, WIDTH),) * 3
MASK = (1, 1, 8, 8)
HEADS_LAST = ((2, 8, 4, WIDTH),) * 3
SPELLINGS = {
    "textbook": Spelling(textbook, True),
    "times": Spelling(times, True),
    "trained": Spelling(textbook, True, train=True),
    "half": Spelling(textbook, True, dtype=torch.bfloat16),
    "half_in_float": Spelling(in_float, True, dtype=torch.bfloat16),
    "double": Spelling(textbook, True, dtype=torch.float64),
    "amax": Spelling(with_amax, True),
    "added": Spelling(added, True, mask=MASK),
    "half_added": Spelling(added, True, mask=MASK, dtype=torch.bfloat16),
    "added_trained": Spelling(added, True, mask=MASK, train=True),
    "dropped_trained": Spelling(dropped, True, train=True),
    "not_dropped": Spelling(not_dropped, True),
    "heads_last": Spelling(heads_last, True, shapes=HEADS_LAST),
    "heads_last_trained": Spelling(heads_last, True, shapes=HEADS_LAST, train=True),
    "grouped": Spelling(grouped, True, shapes=((2, 4, 8, WIDTH), (2, 2, 8, WIDTH), (2, 2, 8, WIDTH))),
    "one_batch": Spelling(textbook, True, shapes=((1, 4, 8, WIDTH),) * 3),
    "padded": Spelling(padded, True, shapes=HEADS_LAST, mask=(2, 8)),
    "other_dimension": Spelling(other_dimension, True, axis=-2, wrong=True),
    "exact": Spelling(textbook, True, on_cuda="fp32", exact=True),
    "t5": Spelling(t5, True, on_cuda="not_on_cuda", shapes=HEADS_LAST, mask=MASK, train=True),
    "swapped": Spelling(swapped, True, shapes=((8, 8, 8, WIDTH),) * 3, wrong=True),
    "swapped_shape": Spelling(swapped, True, shapes=((4, 2, 8, WIDTH),) * 3, wrong=True),
    "swapped_trained": Spelling(swapped, True, shapes=((8, 8, 8, WIDTH),) * 3, train=True, wrong=True),
    "one_maximum": Spelling(one_maximum, True),
    "one_sum": Spelling(one_sum, True, wrong=True),
    "exp_over_sum": Spelling(exp_over_sum, False, "no_maximum", "amax"),
    "exp_over_sum_trained": Spelling(exp_over_sum, False, "no_maximum", "trained", train=True),
    "max": Spelling(with_max, False, "maximum", "amax"),
    "late": Spelling(late, False, "late_division", "amax"),
    "unscaled": Spelling(unscaled, False, "no_scale", "textbook"),
    "scaled_queries": Spelling(scaled_queries, False, "no_scale", "times"),
    "unscaled_added": Spelling(unscaled_added, False, "no_scale", "added", mask=MASK),
    "times_added": Spelling(times_added, False, "other", "added", mask=MASK),
    "filled": Spelling(filled, False, "mask", "textbook", mask=MASK),
    "filled_trained": Spelling(filled, False, "mask", "trained", mask=MASK, train=True),
    "learned_mask": Spelling(added, False, "mask_gradient", "added_trained", mask=MASK, train=True, learned_mask=True),
    "fixed_queries": Spelling(fixed_queries, False, "no_gradient", "trained", train=True),
    "dropped": Spelling(dropped, False, "training_only", "not_dropped"),
    "padded_trained": Spelling(
        padded, False, "inference_only", "padded", shapes=HEADS_LAST, mask=(2, 8), train=True, on_2_11="backward"
    ),
    "cast": Spelling(cast, False, "cast", "textbook"),
    "three": Spelling(textbook, False, "rank", "textbook", shapes=THREE),
    "three_projected": Spelling(projected, False, "rank", "textbook", shapes=THREE),
    "two": Spelling(textbook, False, "rank", "textbook", shapes=((8, WIDTH),) * 3),
    "weights": Spelling(with_weights, False, "returned", "textbook"),
    "weights_trained": Spelling(with_weights, False, "returned", "trained", train=True),
    "tensor_scale": Spelling(tensor_scale, False, "scale_tensor", "textbook"),
    "shifted": Spelling(shifted, False, "mask_number", "textbook"),
    "shifted_before": Spelling(shifted_before, False, "extra", "textbook"),
    "averaged": Spelling(averaged, False, "used_elsewhere", "textbook"),
    "mixed": Spelling(mixed, False, "dtypes", "half_in_float"),
    "whole_mask": Spelling(whole_mask, False, "mask_dtype", "half_added", mask=MASK, dtype=torch.bfloat16),
    "summed": Spelling(summed, False, "layout", "textbook"),
}


@dataclass(frozen=True)
class Called:
    """A call of scaled_dot_product_attention; `code` is why it has no fused kernel on the CPU."""

    call: Callable[..., Any]
    code: str = ""
    shapes: tuple[tuple[int, ...], ...] = ((2, 4, 8, WIDTH),) * 3
    mask: tuple[int, ...] = ()
    train: bool = False
    learned_mask: bool = False
    exact: bool = False

    inputs = Spelling.inputs
    dtype = torch.float32


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def with_dropout(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)


def across(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q.transpose(-1, -2), k.transpose(-1, -2), v.transpose(-1, -2))


def by_math(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v)


CALLS = {
    "plain": Called(plain),
    "plain_trained": Called(plain, train=True),
    "masked": Called(masked, mask=MASK),
    "with_dropout": Called(with_dropout, "math_dropout", train=True),
    # Torch 2.15 has a flash kernel on the CPU for three dimensions (torch._fused_sdp_choice answers 1, in 2.13 0).
    "three": Called(plain, "" if (release_of(torch.__version__) or NEWEST) >= (2, 15) else "math_rank", shapes=THREE),
    "learned_mask": Called(masked, "math_mask", mask=MASK, train=True, learned_mask=True),
    "across": Called(across, "math_strides"),
    "five": Called(plain, "math_rank", shapes=((2, 2, 4, 8, WIDTH),) * 3),
    "wide": Called(plain, "math_width", shapes=((2, 4, 8, WIDTH), (2, 4, 8, WIDTH), (2, 4, 8, 2 * WIDTH))),
    "broadcast": Called(plain, "math_batch", shapes=((2, 4, 8, WIDTH), (1, 4, 8, WIDTH), (1, 4, 8, WIDTH))),
    "by_math": Called(by_math, "math_asked_for"),
}
