"""Is a compiled model wrong in plain torch? Run by `accuracy.py --issues` in a process that knows nothing of ctrace.

    .venv/bin/python benchmarks/_accuracy_issues.py benchmarks/accuracy_issues/pytorch_198057.py

It calls a model file eagerly, compiled, and eagerly in float64, each with inputs of its own, and prints the result,
input after the call, or gradient that differs most: the distance of both from float64, and how it differs.
"""

import copy
import importlib.util
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree

_SHORTER = (torch.float16, torch.bfloat16, torch.float32)


def called(model: Any, args: Any, *, train: bool) -> dict[str, Any]:
    """Return all that a caller sees: results, inputs after the call, and gradients."""
    torch.manual_seed(20)
    outputs = [each for each in _pytree.tree_leaves(model(*args)) if isinstance(each, torch.Tensor)]
    inputs = [each for each in args if isinstance(each, torch.Tensor)]
    values = {f"result {at}": each.detach() for at, each in enumerate(outputs)}
    values |= {f"input {at}": each.detach() for at, each in enumerate(inputs)}
    if train:
        sum(each.sum() for each in outputs if each.requires_grad).backward()  # type: ignore[union-attr]
        parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
        values |= {f"gradient {at}": each.grad for at, each in enumerate((*parameters, *inputs))}
    return values


def widened(value: Any) -> Any:
    """Return a tensor in float64, with the strides and the memory around it, which some models look at."""
    if not isinstance(value, torch.Tensor) or value.dtype not in _SHORTER:
        return value
    memory = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).double()
    wide = memory.as_strided(value.shape, value.stride(), value.storage_offset())
    return wide.requires_grad_(value.requires_grad)


def distance(one: Any, other: Any) -> float:
    """Return the largest difference; infinite if NaN or infinities are in other places."""
    one, other = one.to(torch.complex128), other.to(torch.complex128)
    off = torch.where((one == other) | (one.isnan() & other.isnan()), 0.0, (one - other).abs())
    return float(off.nan_to_num(torch.inf, torch.inf).max()) if off.numel() else 0.0


def differences(eager: dict[str, Any], compiled: dict[str, Any], exact: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield where compiled code differs from eager, with the distances of both from float64."""
    for place, one in eager.items():
        other, truth = compiled.get(place), exact.get(place)
        if one is None or other is None:
            if one is not other:
                yield {"place": place, "how": "missing", "error": None, "eager_error": None}
            continue
        for name in ("shape", "dtype"):
            if getattr(one, name) != getattr(other, name):
                how = f"{name} {getattr(other, name)} instead of {getattr(one, name)}"
                yield {"place": place, "how": how, "error": None, "eager_error": None}
        if one.shape != other.shape:
            continue
        if distance(one, other):
            truth = one if truth is None or truth.shape != one.shape else truth
            errors = {"error": distance(other, truth), "eager_error": distance(one, truth)}
            yield {"place": place, "how": "values", **errors}
        elif one.stride() != other.stride():
            yield {"place": place, "how": "strides", "error": None, "eager_error": None}


def checked(path: Path) -> list[dict[str, Any]]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, train = module.model, getattr(module, "TRAIN", False)
    eager = called(copy.deepcopy(model), module.inputs(), train=train)
    compiled = called(torch.compile(copy.deepcopy(model)), module.inputs(), train=train)
    try:
        exact_model = copy.deepcopy(model)
        exact_model = exact_model.double() if isinstance(exact_model, torch.nn.Module) else exact_model
        exact = called(exact_model, tuple(map(widened, module.inputs())), train=train)
    except RuntimeError:  # it mixes dtypes, or reads bytes: eager is the reference
        exact = {}
    return list(differences(eager, compiled, exact))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps({"torch": torch.__version__, "differences": checked(Path(sys.argv[1]))}))
