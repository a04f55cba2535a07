"""Call models with plain torch, in eager or compiled, and write what they return; ctrace has no part in it.

Reads lines `FILE MODE RESULT` and answers each with a line. Each model runs in a fork of this process, which has
imported torch. MODE is `eager`, `compiled`, or `eager-other`, which seeds random numbers with another number.
"""

import importlib.util
import json
import os
import random
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo.output_graph

_SECONDS = 120
_DEEP = 3


def main() -> None:
    for line in sys.stdin:
        file, mode, result = line.rstrip("\n").split("\t")
        process = os.fork()
        if not process:
            _run(Path(file), mode, Path(result))
        os.waitpid(process, 0)
        print("done", flush=True)


def _run(file: Path, mode: str, result: Path) -> None:
    signal.alarm(_SECONDS)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    try:
        found = _called(file, mode)
    except BaseException as error:
        found = [["loading", f"raised {type(error).__name__}: {error}"[:300]]]
    result.write_text(json.dumps(found))
    os._exit(0)


def _called(file: Path, mode: str) -> list[Any]:
    """Call a model twice in each scenario, and return what it returned, changed and computed as gradients."""
    warnings.simplefilter("ignore")
    _seed(0)
    os.chdir(file.parent)
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location("model", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["model"] = module
    spec.loader.exec_module(module)
    model = module.model
    run = torch.compile(model, backend="eager") if mode == "compiled" else model
    train = getattr(module, "TRAIN", False)
    found = []
    for name, make in {"base": module.inputs, **getattr(module, "scenarios", {})}.items():
        for _ in range(2):
            arguments = make()
            _seed(1 if mode == "eager-other" else 0)
            found.append([name, _once(model, run, arguments, train=train)])
    return found


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def _once(model: Any, run: Any, arguments: Any, *, train: bool) -> Any:
    args, kwargs = ((), arguments) if isinstance(arguments, dict) else (arguments, {})
    is_module = isinstance(model, torch.nn.Module)
    try:
        if train:
            model.zero_grad(set_to_none=True)
        found = run(*args, **kwargs)
        gradients = []
        if train:
            found.sum().backward()
            gradients = [each.grad for each in model.parameters()]
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"[:300]
    inputs = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    buffers = [each for _, each in model.named_buffers()] if is_module else []
    return _plain([found, inputs, gradients, buffers], _DEEP)


def _plain(value: Any, deep: int) -> Any:
    """Write a value as JSON; what has no value of its own becomes one word."""
    if isinstance(value, torch.Tensor):
        return _numbers(value)
    if isinstance(value, np.ndarray | np.generic):
        return _numbers(torch.as_tensor(value)) if value.ndim and value.dtype.kind in "biufc" else str(value)
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str | None):
        return value
    if isinstance(value, dict):
        items = [[k if isinstance(k, str) else type(k).__name__, _plain(item, deep)] for k, item in value.items()]
        return sorted(items, key=repr)
    if isinstance(value, list | tuple):
        return [_plain(item, deep) for item in value] if deep else "deep"
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if deep and hasattr(value, "__dict__") and not callable(value):
        return [[k, _plain(item, deep - 1)] for k, item in sorted(vars(value).items()) if not k.startswith("_")]
    return "opaque"


def _numbers(tensor: Any) -> Any:
    if tensor.is_meta:
        return [list(tensor.shape)]
    if tensor.is_nested:
        tensor = tensor.values()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return [list(tensor.shape), str(tensor.dtype), tensor.to(torch.float64).flatten().tolist()]


if __name__ == "__main__":
    main()
