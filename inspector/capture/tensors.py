"""Make tensors from what the command line says of them."""

import functools
from collections.abc import Sequence
from typing import Any

from ctrace.inspector.errors import TargetError
from ctrace.inspector.inputs import LiteralInput, TensorInput, parse_input

_DYNAMIC_SIZES = (8, 12, 16, 20, 24, 28)
"""Sizes for dimensions given by a letter: one each, so that no two are equal by chance; never 0 or 1, which torch
takes as constants."""
_HIGHEST_INTEGER = 10
"""Random integers are small, so that they are valid as indices into most tables."""


def make_inputs(texts: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Make the arguments that `--input` options describe, positional ones and keywords.

    Raises:
        TargetError: one of them cannot be read.
    """
    letters: dict[str, int] = {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for given in map(parse_input, texts):
        value = given.value.value if isinstance(given.value, LiteralInput) else _tensor(given.value, letters)
        if given.name is None:
            args.append(value)
        else:
            kwargs[given.name] = value
    return tuple(args), kwargs


def _tensor(spec: TensorInput, letters: dict[str, int]) -> Any:
    import torch

    for size in spec.sizes:
        if isinstance(size, str):
            letters.setdefault(size, _DYNAMIC_SIZES[len(letters) % len(_DYNAMIC_SIZES)])
    sizes = [letters[size] if isinstance(size, str) else size for size in spec.sizes]
    dtype = getattr(torch, spec.dtype)
    if dtype.is_floating_point or dtype.is_complex:
        tensor = torch.randn(sizes, dtype=dtype)
    else:
        tensor = torch.randint(0, 2 if dtype is torch.bool else _HIGHEST_INTEGER, sizes, dtype=dtype)
    for dimension, size in enumerate(spec.sizes):
        if isinstance(size, str):
            torch._dynamo.mark_dynamic(tensor, dimension)
    return tensor


def resized(call: Any, dimension: int, size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Change a dimension of every tensor that shares the first tensor's size there; values are repeated or cut.

    Raises:
        TargetError: no tensor has such a dimension.
    """
    import torch
    from torch.utils import _pytree

    leaves, spec = _pytree.tree_flatten((call.args, call.kwargs))
    having = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and -leaf.dim() <= dimension < leaf.dim()]
    if not having:
        raise TargetError(f"--vary {dimension}=...: no input has a dimension {dimension}", "count dimensions from 0")
    old = having[0].shape[dimension]
    if old == 0 < size:
        raise TargetError(f"--vary {dimension}=...: that dimension has size 0", "give inputs with at least one row")
    wanted = functools.partial(_taken, dimension=dimension, size=size)
    chosen = {id(leaf) for leaf in having if leaf.shape[dimension] == old}
    args, kwargs = _pytree.tree_unflatten([wanted(leaf) if id(leaf) in chosen else leaf for leaf in leaves], spec)
    return args, kwargs


def _taken(tensor: Any, *, dimension: int, size: int) -> Any:
    import torch

    rows = torch.arange(size, device=tensor.device) % max(tensor.shape[dimension], 1)
    taken = tensor.detach().index_select(dimension, rows)
    return taken.requires_grad_(tensor.requires_grad)
