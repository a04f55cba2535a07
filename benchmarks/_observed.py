"""Write a digest of every result of a compiled call, for `same_results.py`. Knows only torch.

A program of the study imports this module and runs the same with ctrace and without it. Each call of what
`torch.compile` returns writes a line to FOLDER/PID.jsonl, where FOLDER is the environment variable SAME_RESULTS: `key`,
a digest of all that the call may depend on (arguments, state of the module, generators), and `value`, a digest of all
that it may change (results, arguments, state). A line also has some values, which tell rounding from garbage.
"""

import functools
import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree

FOLDER = os.environ.get("SAME_RESULTS", "")
SAMPLES = 8
MOST_LINES = 300
"""After so many lines, a process writes only what it has not written before: `ctrace time` makes thousands of calls."""

_written: dict[int, int] = {}
_known: set[tuple[str, str]] = set()
_inside = False


def install() -> None:
    """Observe everything that is compiled from now on."""
    module = torch._dynamo.eval_frame.OptimizedModule
    call, compile_ = module.__call__, torch.compile

    @functools.wraps(call)
    def observed_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _observed(lambda: call(self, *args, **kwargs), self._orig_mod, args, kwargs)

    @functools.wraps(compile_)
    def observed_compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda function: observed_compile(function, **options)
        made: Any = compile_(model, **options)
        if isinstance(model, torch.nn.Module):
            return made

        @functools.wraps(made)
        def observed(*args: Any, **kwargs: Any) -> Any:
            return _observed(lambda: made(*args, **kwargs), None, args, kwargs)

        return observed

    module.__call__ = observed_call  # type: ignore[method-assign]
    torch.compile = observed_compile


def _observed(call: Callable[[], Any], subject: Any, args: Any, kwargs: Any) -> Any:
    global _inside  # noqa: PLW0603
    if not FOLDER or _inside:
        return call()
    _inside = True
    try:
        key = digest([args, kwargs, state_of(subject), generators()])
        found = call()
        write("call", [found, args, kwargs, state_of(subject)], key)
        return found
    finally:
        _inside = False


def watch_gradients(model: torch.nn.Module) -> None:
    """Write each gradient as it is accumulated."""
    parameters: Any = model.named_parameters()
    for name, parameter in parameters:
        parameter.register_post_accumulate_grad_hook(lambda leaf, name=name: write(f"gradient of {name}", [leaf.grad]))


def write(what: str, value: Any, key: str = "") -> None:
    """Write the digest of a value."""
    if not FOLDER:
        return
    found, tensors = digest(value), list(_tensors(value))
    line = {"what": what, "key": key, "value": found, "leaves": [_sampled(each) for each in tensors]}
    number = _written.get(os.getpid(), 0)
    if number >= MOST_LINES and (key, found) in _known:
        return
    _written[os.getpid()] = number + 1
    _known.add((key, found))
    with open(f"{FOLDER}/{os.getpid()}.jsonl", "a") as file:  # noqa: PTH123
        file.write(json.dumps(line) + "\n")


def state_of(subject: Any) -> Any:
    """Return the parameters and buffers of a module."""
    if not isinstance(subject, torch.nn.Module):
        return ()
    return [*subject.parameters(), *subject.buffers()]


def generators() -> Any:
    """Return the states of torch's and Python's generators."""
    gpu: Any = torch.cuda
    cuda = gpu.get_rng_state_all() if gpu.is_initialized() else []
    return [torch.get_rng_state(), *cuda, hashlib.sha256(repr(random.getstate()).encode()).hexdigest()]


def digest(value: Any) -> str:
    """Return the SHA-256 of all tensors and plain values in a value."""
    found = hashlib.sha256()
    for leaf in _pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.update(f"{leaf.dtype} {tuple(leaf.shape)} ".encode())
            found.update(_bytes(leaf))
        elif isinstance(leaf, (bool, int, float, complex, str, type(None))):
            found.update(repr(leaf).encode())
        else:
            found.update(type(leaf).__name__.encode())
    return found.hexdigest()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    yield from (leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _bytes(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def _sampled(tensor: torch.Tensor) -> list[float]:
    """Return the largest magnitude and some values, as numbers that survive JSON."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    plain = (torch.view_as_real(plain) if plain.is_complex() else plain).reshape(-1).to(torch.float64).nan_to_num()
    if not plain.numel():
        return []
    at = torch.linspace(0, plain.numel() - 1, min(SAMPLES, plain.numel())).long()
    return [float(f"{value:.6g}") for value in (plain.abs().max().item(), *plain[at].tolist())]
