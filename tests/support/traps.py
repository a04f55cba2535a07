"""Trap programs: code in which the obvious repair is wrong, the repair that it tempts to, and a call that shows it.

A file of `tests/inspector/features/fix/repairs/traps/programs/` holds the traps of one theme. Each begins with `=== name` and lines
`key: value`: `repair` is the repair that tempts, `inputs` what the target is called with, `shows` arguments for which the
two programs differ, `calls` how often they are made; `scenario: shows` makes that call a scenario of the target, where
its inputs do not let anybody guess that it is made. Then follow the program, `--- tempting`, and the wrong program. A
program has a function `f` or a module class `M`.
"""

import contextlib
import io
import logging
import random
import sys
import types
import warnings
from typing import Any, NamedTuple

from tests.support.places import TESTS

FOLDER = TESTS / "inspector/features/fix/repairs/traps/programs"
_HEAD = """import contextlib
import copy
import io
import logging
import math
import random
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


"""


class Trap(NamedTuple):
    """One trap."""

    theme: str
    name: str
    about: dict[str, str]
    program: str
    tempting: str

    @property
    def id(self) -> str:
        return f"{self.theme}: {self.name}"

    def target(self, *, tempting: bool = False, inputs: str = "inputs") -> str:
        """Return the program, or the wrong one, as a file with `model` and `inputs`."""
        body = self.tempting if tempting else self.program
        made = "M()" if "\nclass M(nn.Module):" in "\n" + body else "f"
        return (
            f"{_HEAD}{body}\n\ndef model():\n    torch.manual_seed(0)\n    return {made}\n\n\n"
            f"def inputs():\n    return {self.about[inputs]}\n{self._scenario()}"
        )

    def _scenario(self) -> str:
        """Return the call that shows the difference as a scenario, where nobody could guess that it is made."""
        shown = f"\n\nscenarios = {{'shows': lambda: {self.about['shows']}}}\n"
        return shown if self.about.get("scenario") == "shows" else ""


def traps() -> list[Trap]:
    """Read all traps."""
    found = []
    for file in sorted(FOLDER.glob("*.txt")):
        for part in file.read_text(encoding="utf-8").split("=== ")[1:]:
            head, _, text = part.partition("\n\n")
            name, *lines = head.split("\n")
            program, _, tempting = text.partition("--- tempting\n")
            about = dict(line.split(": ", 1) for line in lines)
            found.append(Trap(file.stem, name, about, program.rstrip() + "\n", tempting.rstrip() + "\n"))
    return found


def observed(source: str, calls: int = 1) -> list[Any]:
    """Run a target and return all that a caller can see: this knows nothing of the repairs and their proof."""
    import numpy as np
    import torch

    module = types.ModuleType("trap_program")
    sys.modules[module.__name__] = module  # torch.cond compiles in eager, too, and looks globals up there
    names = module.__dict__
    exec(compile(source, "trap.py", "exec"), names)
    model = names["model"]()
    found: list[Any] = []
    for _ in range(calls):
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        args = names["inputs"]()
        found.append(_called(model, args))
    found.append(_state(model))
    found.append({key: repr(value) for key, value in names.items() if key.isupper() and key != "F"})
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    return found


def _called(model: Any, args: tuple[Any, ...]) -> list[Any]:
    """Call a model; return its results, what became of the arguments, and everything beside them."""
    import numpy as np
    import torch

    printed, logged = io.StringIO(), logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(logged)
    error: object = None
    result: Any = ()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = model(*args)
        except Exception as raised:
            error = (type(raised), str(raised))
    parts = _parts(result)
    grads = _gradients(model, parts, args, printed)
    logging.getLogger().removeHandler(logged)
    random_states = (torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state()))
    return [
        type(result),
        [_seen(part) for part in parts],
        [[_shares(part, other) for other in (*args, *parts)] for part in parts],
        [_seen(arg) for arg in args],
        grads,
        printed.getvalue(),
        logged.stream.getvalue(),
        [(one.category, str(one.message)) for one in warned if "grad attribute" not in str(one.message)],
        error,
        random_states,
    ]


def _parts(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [part for value in result.values() for part in _parts(value)]
    if isinstance(result, list | tuple):
        return [part for value in result for part in _parts(value)]
    return [result]


def _seen(value: Any) -> Any:
    """Return what can be seen of one value."""
    import torch

    if not isinstance(value, torch.Tensor):
        return (type(value), repr(value))
    plain = value.detach()
    plain = plain.as_subclass(torch.Tensor) if type(value) is not torch.Tensor else plain
    if plain.layout is not torch.strided:
        return (type(value), plain.layout, repr(plain))
    bits = plain.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8).tolist() if plain.numel() else []
    return (
        type(value),
        plain.dtype,
        plain.shape,
        plain.stride(),
        value.requires_grad,
        value.is_leaf,
        plain.is_conj(),
        bits,
    )


def _shares(value: Any, other: Any) -> Any:
    """Return whether two values are one object, or lie in the same memory."""
    import torch

    if not isinstance(value, torch.Tensor) or not isinstance(other, torch.Tensor):
        return value is other
    if value.layout is not torch.strided or other.layout is not torch.strided:
        return value is other
    return (
        value is other,
        value.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() and value.numel() > 0,
    )


def _gradients(model: Any, parts: list[Any], args: tuple[Any, ...], printed: io.StringIO) -> list[Any]:
    import torch

    total = [
        part.double().sum()
        for part in parts
        if isinstance(part, torch.Tensor) and part.requires_grad and not part.is_complex()
    ]
    if not total:
        return []
    with contextlib.redirect_stdout(printed):
        torch.stack(total).sum().backward()
    leaves = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.is_leaf]
    leaves += list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    return [None if leaf.grad is None else _seen(leaf.grad) for leaf in leaves]


def _state(model: Any) -> Any:
    """Return the state of a module: parameters, buffers, modes and plain attributes."""
    import torch

    if not isinstance(model, torch.nn.Module):
        return None
    plain = [
        (name, key, repr(value))
        for name, module in model.named_modules()
        for key, value in sorted(module.__dict__.items())
        if not key.startswith("_") and not callable(value)
    ]
    return [(name, _seen(value)) for name, value in model.state_dict().items()], plain
