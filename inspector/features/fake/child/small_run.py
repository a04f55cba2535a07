"""Run a model once at a small size with real values, and keep what its program asked of them.

A model file offers that with `def small()`, which returns a model and its inputs. What the small model answers at a
line (`.item()`, a branch, `nonzero`) is what the large one goes on with there: each answer is recorded as assumed.
"""

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fake.child.asked_values import AskedValues, SmallAnswers
from ctrace.inspector.features.fake.child.storageless_mode import KnownValues, found_size

_NAME = "small"
_CALLS = 2
"""Calls of the small model, as many as each scenario has: a later call may ask for other values."""


def run_small(module: ModuleType, asked: AskedValues, values: KnownValues, recorder: Recorder) -> None:
    """Call what the file's `small` makes, and let its answers serve; without `small`, do nothing.

    Raises:
        TargetError: `small` is no function that returns a model and its inputs.
    """
    make = getattr(module, _NAME, None)
    if make is None:
        return
    if not callable(make):
        raise TargetError(f"{_NAME} has type {type(make).__name__}", "write def small(): return model, inputs")
    try:
        asked.small = _answers(make, asked, values)
    except TargetError:
        raise
    except Exception as error:  # the model file's own code
        first = next(iter(str(error).splitlines()), "")
        recorder.problem(f"{_NAME}() raises {type(error).__name__}: {first}; no value comes from a small run")


def _answers(make: Callable[[], Any], asked: AskedValues, values: KnownValues) -> SmallAnswers:
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    answers = SmallAnswers()
    before, values.keeps_random = values.keeps_random, True  # its weights and inputs are drawn
    try:
        # The small run must leave the program's random numbers as they are; it runs on the CPU only.
        with _disable_current_modes(), torch.random.fork_rng(devices=()), torch.no_grad():
            torch.manual_seed(0)  # the same answers in each run, so that two reports can be compared
            model, inputs = _model_and_inputs(make())
            args, kwargs = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
            if not isinstance(args, tuple | list):
                args = (args,)
            # The small run answers questions of eager code, and compiling a second model would only take time.
            with torch.compiler.set_stance("force_eager"):
                for _ in range(_CALLS):
                    answers.begin()
                    with _mode(asked, answers):
                        model(*args, **kwargs)
    finally:
        values.keeps_random = before
    return answers


def _model_and_inputs(made: Any) -> tuple[Any, Any]:
    if not isinstance(made, tuple | list) or len(made) != 2 or not callable(made[0]):
        todo = "return a model and what inputs() returns for it: return Net(width=64), (torch.rand(2, 64),)"
        raise TargetError(f"{_NAME}() returns {type(made).__name__}, not a model and its inputs", todo)
    return made[0], made[1]


def _mode(asked: AskedValues, answers: SmallAnswers) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Answering(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            found = _asked_of(func, args, kwargs or {}, result)
            if found is not None:
                answers.add(asked.spot(), found)
            return result

    return Answering()


def _asked_of(func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> bool | float | None:
    """Return the value or the number of elements that an op asks of the values of its arguments; None: neither."""
    torch = sys.modules["torch"]
    tags = getattr(func, "tags", ())
    if torch.Tag.data_dependent_output in tags and isinstance(result, bool | int | float):
        return result
    if torch.Tag.dynamic_output_shape in tags:
        return found_size(func, args, kwargs, result)
    return None
