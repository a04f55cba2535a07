"""Seed the default random number generators, and save and restore their states; `comparing/sealed.py` has those of the
program.
"""

import importlib
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.recorder import Recorder


class RandomStates:
    """The states of torch's, Python's and NumPy's generators when this object was created."""

    def __init__(self) -> None:
        import torch

        self._python = random.getstate()
        # A program that has not imported NumPy has drawn nothing from it.
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random.get_state(legacy=False) if numpy is not None else None
        self._torch = torch.get_rng_state()
        self._cuda = _cuda_states()

    def restore(self) -> None:
        """Restore the states of the generators; one that has not moved is not written to."""
        import torch

        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        if not torch.equal(self._torch, torch.get_rng_state()):
            torch.set_rng_state(self._torch)
        for index, now in enumerate(_cuda_states()):
            if not self._cuda:  # CUDA was initialized since then: its generators were as new
                generator = torch.cuda.default_generators[index]
                generator.manual_seed(generator.initial_seed())
            elif not torch.equal(self._cuda[index], now):
                torch.cuda.set_rng_state(self._cuda[index], index)

    def moved(self) -> tuple[str, ...]:
        """Return which of `torch`, `numpy.random` and `random` have drawn a number since then."""
        numpy = sys.modules.get("numpy")
        drawn = {
            "torch": self.torch_moved(),
            "numpy.random": self._numpy is not None
            and numpy is not None
            and repr_of_state(self._numpy) != repr_of_state(numpy.random.get_state(legacy=False)),
            "random": self._python != random.getstate(),
        }
        return tuple(name for name, has_moved in drawn.items() if has_moved)

    def torch_moved(self) -> bool:
        """Whether torch has drawn a random number since then."""
        import torch

        if not torch.equal(self._torch, torch.get_rng_state()):
            return True
        if not self._cuda:
            generators: Sequence[torch.Generator] = ()
            if torch.cuda.is_initialized():
                generators = torch.cuda.default_generators
            # A new generator of a GPU has the offset 0, and each draw advances it.
            return any(generator.get_offset() for generator in generators)
        return any(not torch.equal(old, new) for old, new in zip(self._cuda, _cuda_states(), strict=True))


# Any number will do: it is only one that nobody's program uses by habit, such as 0 or 42.
_SEED = 20_011


def seed(further: int = 0) -> None:
    """Set all generators to a fixed state, for calls of which the observations are compared.

    Each `further` number makes another state, in which a side drawn at random may be another one.
    """
    import torch

    number = _SEED + further
    _seed_python(random, number)
    _seed_torch(torch, number)
    # A program that does without NumPy must not get it from here.
    if "numpy" in sys.modules:
        _seed_numpy(importlib.import_module("numpy.random"), number)


def seeded(number: int | None) -> Hook:
    """Make the hook that seeds each generator once, as soon as there is one; None: they start as always.

    A run and the trials of its advice start with one number, which `runs/run_capture.py` draws: a model that draws its
    weights, its inputs or a side of a branch would differ from run to run, whatever a trial changes.
    """

    @contextmanager
    def hook(_recorder: Recorder, when: When) -> Iterator[None]:
        if number is not None:
            for name, act in _SEEDING.items():
                when(name, partial(act, number=number))
        yield

    return hook


def _seed_python(python_random: ModuleType, number: int) -> None:
    python_random.seed(number)


def _seed_torch(torch: ModuleType, number: int) -> None:
    torch.default_generator.manual_seed(number)  # torch.manual_seed also prepares devices that are not used
    if torch.backends.cuda.is_built():
        torch.cuda.manual_seed_all(number)  # as soon as CUDA is initialized, which this does not do


def _seed_numpy(numpy_random: ModuleType, number: int) -> None:
    numpy_random.seed(number)


_SEEDING = {"random": _seed_python, "torch": _seed_torch, "numpy.random": _seed_numpy}
"""How to seed the generators of a module; `import numpy` alone makes none (numpy 2)."""


def repr_of_state(state: Any) -> str:
    """Write the state of a random generator of NumPy, so that two can be compared."""
    if isinstance(state, dict):
        return repr({name: repr_of_state(each) for name, each in state.items()})
    if hasattr(state, "tobytes"):
        return repr(state.tobytes())
    return repr(state)


def _cuda_states() -> list[Any]:
    """Return the states of the GPUs' generators; asking for them does not initialize CUDA."""
    import torch

    if torch.cuda.is_initialized():
        return list(torch.cuda.get_rng_state_all())
    return []
