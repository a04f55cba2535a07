"""The child process that calls a model in eager, and returns its results in short and the modules that it loaded."""

import ctypes
import hashlib
import sys
from collections.abc import Iterator
from typing import Any

from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.capture.calls.calling import called
from ctrace.inspector.capture.calls.model_files import load
from ctrace.inspector.capture.calls.start import NEW, ProcessStart
from ctrace.inspector.capture.calls.ways import training
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.capture.isolation.random_states import seed
from ctrace.inspector.features.upgrade.upgrade_model import EagerFacts, EagerOutputs, EagerRequest, EagerTensor

_SAMPLE = 64
"""Elements of a tensor that are compared one by one; its norm stands for the rest."""
_MOST_TENSORS = 64
"""Results of a call that are compared."""


def main(loaded: frozenset[str], start: ProcessStart = NEW) -> None:
    """Call the model in each scenario."""
    preloaded = Preloaded(loaded)
    answer(EagerRequest, lambda request: _called(request, preloaded, start))


def _called(request: EagerRequest, preloaded: Preloaded, start: ProcessStart) -> EagerFacts:
    import torch
    from torch.utils._pytree import tree_leaves

    # Before loading, for the weights that the file draws; before each call, for what a model draws in it.
    seed()
    with start.loading(request.capture):
        loaded = load(request.capture, preloaded)
    is_training = request.capture.options.train
    if is_training and isinstance(loaded.model, torch.nn.Module):
        loaded.model.train()
    calls = []
    with torch.compiler.set_stance("force_eager"):
        for name, way in loaded.scenarios.items():
            with training(loaded.model, way):
                seed()
                results, _ = called(loaded.model, way.make(), way, train=False)
            found = [each for each in tree_leaves(results.outputs) if isinstance(each, torch.Tensor)][:_MOST_TENSORS]
            calls.append(EagerOutputs(name, tuple(map(_shortened, found))))
    return EagerFacts(tuple(calls), dict(_modules()))


def _shortened(tensor: Any) -> EagerTensor:
    import torch

    dtype, sizes = str(tensor.dtype).removeprefix("torch."), tuple(map(int, tensor.shape))
    try:
        # In one order, so that the bytes do not depend on strides.
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        raw = b""
        if flat.numel():
            raw = ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())
        wide = flat.to(torch.complex128 if flat.is_complex() else torch.float64)
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, nested or quantized
        return EagerTensor(dtype, sizes, "", "", ())
    # Over all of the tensor, because an error may be in its end only.
    step = max(1, len(wide) // _SAMPLE)
    sample = tuple(repr(each) for each in wide[::step][:_SAMPLE].tolist())
    norm = "0.0"
    if len(wide):
        norm = repr(float(wide.abs().square().sum().sqrt()))
    return EagerTensor(dtype, sizes, hashlib.sha256(raw).hexdigest(), norm, sample)


def _modules() -> Iterator[tuple[str, str]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and ("site-packages" in file or "dist-packages" in file):
            yield name, file
