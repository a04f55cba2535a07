"""Call a model in every scenario: once in eager, to see that it works and count its ops, then compiled, twice."""

import copy
import difflib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ctrace.inspector.capture.models import Call, Loaded
from ctrace.inspector.capture.ops import OpCounter, OpCounts, describe
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.errors import TargetError
from ctrace.inspector.order import Options

CALLS = 2
"""A second call shows what is compiled again although nothing changed."""


class EagerError(Exception):
    """The model raised without torch.compile; the cause is the user's exception."""


def run_scenarios(loaded: Loaded, options: Options, recorder: Recorder, ops: OpCounter) -> None:
    """Compile the model and call it in each scenario.

    Raises:
        TargetError: torch.compile knows no such backend or mode, or there is nothing to train.
        EagerError: the model fails without torch.compile already.
        BaseException: whatever the compiled model raises.
    """
    import torch

    _check_names(options)
    if options.train and isinstance(loaded.model, torch.nn.Module):
        loaded.model.train()
    eager = _Eager(loaded.model, options, recorder, ops)
    compiled = torch.compile(loaded.model, **_compile_arguments(options))
    for name, make in loaded.scenarios.items():
        call = make()
        in_eager = eager.count(call)
        left = None
        for index in range(CALLS):
            call = make() if index else call
            recorder.record("call", {"scenario": name, "index": index})
            # Only where nothing is compiled any more: compiling dispatches ops of its own.
            counting = ops.outside_graphs() if index == CALLS - 1 and in_eager else nullcontext()
            left = _run(compiled, call, options, counting)
        recorder.record("scenario", {"name": name, "calls": CALLS})
        if in_eager is not None:
            recorder.record("ops", {"scenario": name, **describe(in_eager, left)})


class _Eager:
    """Runs a copy of the model without torch.compile, so that counters and statistics stay as they are."""

    def __init__(self, model: Callable[..., Any], options: Options, recorder: Recorder, ops: OpCounter) -> None:
        self._options = options
        self._ops = ops
        try:
            self._model: Any = copy.deepcopy(model)
        except Exception as error:
            self._model = None
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            recorder.problem(f"coverage was not measured: the model cannot be copied for an eager run ({why})")

    def count(self, call: Call) -> OpCounts | None:
        """Count the aten ops that one call's forward dispatches; None: the model could not be copied."""
        if self._model is None:
            return None
        with _same_random_numbers():
            try:
                call = copy.deepcopy(call)
                with self._ops.everywhere() as counted:
                    outputs = self._model(*call.args, **call.kwargs)
                if self._options.train:
                    _backward(outputs)
            except TargetError:
                raise
            except Exception as error:
                raise EagerError from error
            return counted


def _run(
    model: Callable[..., Any], call: Call, options: Options, counting: AbstractContextManager[OpCounts | None]
) -> OpCounts | None:
    """Call the model, and count the ops of its forward in `counting`."""
    with counting as counts:
        outputs = model(*call.args, **call.kwargs)
    if options.train:
        _backward(outputs)
    return counts


def _backward(outputs: Any) -> None:
    import torch
    from torch.utils import _pytree

    leaves = [leaf for leaf in _pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not leaves:
        raise TargetError(
            "--train: no output of the model requires a gradient", "leave --train out, or thaw a parameter"
        )
    total = sum(leaf.sum() for leaf in leaves)
    total.backward()  # type: ignore[union-attr]


def _check_names(options: Options) -> None:
    if options.backend is not None:
        from torch._dynamo import list_backends

        _check_name("--backend", options.backend, [str(name) for name in list_backends(exclude_tags=None)])
    if options.mode is not None:
        from torch._inductor import list_mode_options

        _check_name("--mode", options.mode, ["default", *list_mode_options()])


def _check_name(option: str, name: str, known: list[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        todo = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
        raise TargetError(f"{option} {name}: torch.compile knows no such one", todo)


def _compile_arguments(options: Options) -> dict[str, Any]:
    arguments: dict[str, Any] = {"dynamic": options.dynamic, "fullgraph": options.fullgraph}
    if options.mode is not None:
        arguments["mode"] = options.mode
    if options.backend is not None:
        arguments["backend"] = options.backend
    return arguments


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Leave Python's and torch's generators as they were, so that the compiled run draws what a plain run would."""
    import random

    import torch

    state = random.getstate()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(state)
