"""Tell two programs apart as their users might; knows no repair, and nothing of ctrace.

    python tools/trap_oracle.py BEFORE.py AFTER.py     exit 1, and one line for each difference

Each program defines a class `Net` and a function `inputs`. Everything below is done with a new model of each.
"""

import copy
import io
import logging
import random
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

Act = Callable[[Any, list[Any]], Any]


def called(model: Any, inputs: list[Any]) -> Any:
    """Call a model, and go backward from what it returns, and from each tensor that it keeps."""
    output = model(*inputs)
    found = [plain(output)]
    kept = [output, *(value for name, value in sorted(vars(model).items()) if isinstance(value, torch.Tensor))]
    for each in kept:
        if isinstance(each, torch.Tensor) and each.grad_fn is not None:
            torch.autograd.backward([each.sum()], retain_graph=True)
            leaves = [(path, leaf) for path, leaf in reached(model, "model", 4) if isinstance(leaf, torch.Tensor)]
            found.append([(path, plain(leaf.grad)) for path, leaf in leaves if leaf.is_leaf])
            model.zero_grad(set_to_none=True)
    held = list(reached(model, "model", 4))
    tensors = [*held, *reached([output, inputs], "call", 4)]
    return [
        *found,
        [(name, plain(value)) for name, value in model.state_dict().items()],
        [(path, plain(value)) for path, value in held],
        sharing([(path, value) for path, value in tensors if isinstance(value, torch.Tensor)]),
    ]


def reached(value: Any, path: str, deep: int) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds by path: plain values and tensors, in containers and in objects of the program."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, torch.Tensor | int | float | str | None):
        yield path, value
    elif isinstance(value, dict):
        yield path, type(value).__name__
        inner = [*value.items()]
    elif isinstance(value, list | tuple):
        yield path, type(value).__name__
        inner = [*enumerate(value)]
    elif hasattr(value, "__dict__") and not callable(value):
        inner = sorted(vars(value).items())
    elif isinstance(value, torch.nn.Module):
        known = {**value._parameters, **value._buffers, **value._modules}
        inner = [*sorted(known.items()), *sorted(each for each in vars(value).items() if not each[0].startswith("_"))]
    for name, each in inner if deep else ():
        yield from reached(each, f"{path}.{name}", deep - 1)


def sharing(tensors: list[tuple[str, Any]]) -> Any:
    """Return which tensors lie in the same memory."""
    places: dict[int, set[str]] = {}
    for path, value in tensors:
        if value.numel():
            places.setdefault(value.untyped_storage().data_ptr(), set()).add(path)
    return sorted(sorted(paths) for paths in places.values() if len(paths) > 1)


def plain(value: Any) -> Any:
    """Return a value as data that can be compared, with the kind of everything."""
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), tuple(value.shape), value.requires_grad, repr(value.detach().flatten().tolist()))
    if isinstance(value, dict):
        return (type(value).__name__, [(key, plain(each)) for key, each in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [plain(each) for each in value])
    return (type(value).__name__, repr(value))


def having(**values: Any) -> Act:
    """Set attributes that the model has, and call it twice."""

    def act(model: Any, inputs: list[Any]) -> Any:
        for name, value in values.items():
            if hasattr(model, name):
                setattr(model, name, value)
        return called(model, copy.deepcopy(inputs)), called(model, inputs)

    return act


def cast(dtype: torch.dtype, scale: float) -> Act:
    """Call the model in another precision, with larger inputs."""

    def act(model: Any, inputs: list[Any]) -> Any:
        return called(model.to(dtype), [(each * scale).to(dtype) for each in inputs])

    return act


def training(*, every: bool) -> Act:
    """Freeze all parameters and plain tensors, or none."""

    def act(model: Any, inputs: list[Any]) -> Any:
        buffers = {id(each) for each in model.buffers()}
        for _, each in reached(model, "model", 4):
            if is_trainable(each) and id(each) not in buffers:
                each.requires_grad_(every)
        return called(model, inputs)

    return act


def is_trainable(value: Any) -> bool:
    """Whether a value is a tensor that may require gradients."""
    return isinstance(value, torch.Tensor) and value.is_leaf and value.is_floating_point()


def filled(value: float) -> Act:
    """Load a checkpoint with other values in the buffers."""

    def act(model: Any, inputs: list[Any]) -> Any:
        names = {name for name, _ in model.named_buffers()}
        saved = {
            name: torch.full_like(each, value) if name in names else each for name, each in model.state_dict().items()
        }
        model.load_state_dict(saved)
        return called(model, inputs)

    return act


def after_methods(model: Any, inputs: list[Any]) -> Any:
    """Call the model's own methods between two calls."""
    found = [called(model, copy.deepcopy(inputs))]
    for name in ("bump", "reset"):
        if hasattr(model, name):
            getattr(model, name)()
    return [*found, called(model, inputs)]


def other_inputs(change: Callable[[Any], Any]) -> Act:
    """Call the model with other inputs, and then with its own."""

    def act(model: Any, inputs: list[Any]) -> Any:
        try:
            first = called(model, [change(each) for each in inputs])
        except Exception as error:
            first = type(error).__name__
        return first, called(model, inputs)

    return act


def rows_of(number: int) -> Callable[[Any], Any]:
    """Repeat the first row."""
    return lambda each: each[:1].repeat(number, 1)


def constant(value: float) -> Callable[[Any], Any]:
    """Give all elements one value."""
    return lambda each: torch.full_like(each, value)


def with_one(value: float) -> Callable[[Any], Any]:
    """Change the first element."""

    def changed(each: Any) -> Any:
        each = each.clone()
        each.view(-1)[0] = value
        return each

    return changed


ACTS: dict[str, Act] = {
    "a call": called,
    "two calls": having(),
    "warm": having(warm=True),
    "strict": having(strict=True),
    "warm and strict": having(warm=True, strict=True),
    "half": cast(torch.float16, 1.0),
    "half, large": cast(torch.float16, 60.0),
    "half, very large": cast(torch.float16, -3000.0),
    "bfloat16": cast(torch.bfloat16, 1.0),
    "double": cast(torch.float64, 1.0),
    "all trained": training(every=True),
    "all frozen": training(every=False),
    "checkpoint with 3.6": filled(3.6),
    "checkpoint with -1": filled(-1),
    "methods": after_methods,
    "negated": other_inputs(lambda each: -each),
    "zeros": other_inputs(torch.zeros_like),
    "large": other_inputs(lambda each: each * 1e4),
    "infinite": other_inputs(lambda each: each + float("inf")),
    **{f"one {value:g}": other_inputs(with_one(value)) for value in (float("inf"), float("-inf"), float("nan"))},
    "expanded": other_inputs(lambda each: each[:1].expand(each.shape)),
    "empty": other_inputs(lambda each: each[:0]),
    **{f"{rows} rows": other_inputs(rows_of(rows)) for rows in (10, 17, 33, 65, 101)},
    **{f"all {value:g}": other_inputs(constant(value)) for value in (1.0, 7.0, 5.0, 0.75, -3.0)},
}


def seen(path: str, act: Act) -> str:
    """Return what an act with a new model of a program shows."""
    # torch says some warnings once in a process, so the second program would not show what the first one did.
    torch.set_warn_always(True)
    torch.manual_seed(0)
    program = runpy.run_path(path)
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    output, kept = io.StringIO(), sys.stdout
    handler = logging.StreamHandler(output)
    logging.getLogger().addHandler(handler)
    sys.stdout = output
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = repr(act(program["Net"](), list(program["inputs"]())))
        except Exception as error:
            found = type(error).__name__
        finally:
            sys.stdout = kept
            logging.getLogger().removeHandler(handler)
    output.writelines(f"{each.category.__name__}: {each.message}\n" for each in caught)
    drawn = torch.rand(2).tolist(), random.random(), np.random.rand()
    return f"{found}\n{output.getvalue()}\n{drawn}"


def differences(before: str, after: str) -> list[str]:
    """Return the acts that tell two programs apart."""
    return [name for name, act in ACTS.items() if seen(before, act) != seen(after, act)]


if __name__ == "__main__":
    apart = differences(*sys.argv[1:3])
    for name in apart:
        print(name)
    sys.exit(bool(apart))
