"""Capture inside a running process, for notebooks and tests: `capturing_here` records, `call_compiled` calls.

The inputs of such a capture are one call, or several with different inputs (`ways_of`).
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from ctrace.inspector.capture.calls.model_files import Loaded
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.capture_hooks import capturing
from ctrace.inspector.capture.comparing.eager import EagerError
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.op_counts import OpCounter
from ctrace.inspector.capture.scenario_runs import CALLS, run_scenarios
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.run_events import Ended
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.runs.capture_request import Options


@contextmanager
def capturing_here(
    log: Path, *, build: bool, ops: OpCounter | None = None, owned: tuple[str, ...] = ()
) -> Iterator[Recorder]:
    """Record the block into `log`.

    Without `build`, graphs compiled in the block run eagerly. Their cache entries are dropped at the end, so that the
    process compiles them for real when it needs them.
    """
    codes: list[CodeType] = []
    # The codes inside: entries that the block makes, and no others, are dropped.
    with capturing(log, build=build, ops=ops, owned=owned) as recorder, _seen_codes(codes):
        try:
            yield recorder
            recorder.postponed.refuse("the process goes on after the capture")
        except Exception:
            recorder.add(Ended())  # the exception ends the block but not the process, so the log is complete
            raise
        finally:
            if not build:
                with recorder.watching("the removal of cache entries without built kernels"):
                    _drop_entries(codes)


def call_compiled(
    log: Path, function: Callable[..., Any], call: Call, *, build: bool, owned: tuple[str, ...] = ()
) -> None:
    """Compile a function or module, call it twice, and record both calls into `log`.

    Raises:
        Exception: whatever the function raises, compiled or not.
    """
    try:
        _run(log, function, {"base": Way(lambda: call, ScenarioKind.BASE)}, Options(build=build), owned, CALLS)
    except EagerError as error:
        # The function's own error, as a caller of it would get.
        raise (error.__cause__ or error) from None


def call_afresh(
    log: Path,
    function: Callable[..., Any],
    ways: Mapping[str, Way],
    options: Options,
    *,
    calls: int = CALLS,
    owned: tuple[str, ...] = (),
) -> None:
    """Compile a function or module with an empty cache, and call it `calls` times in each scenario.

    Reset Dynamo before and after; restore the modules' modes and the parameters' gradients.

    Raises:
        TargetError: it is already compiled, or there is nothing to train.
        EagerError: it fails without torch.compile.
        Exception: whatever it raises when compiled.
    """
    import torch

    # Before the reset, which would drop what the process has compiled.
    _refuse_compiled(function)
    torch._dynamo.reset()
    try:
        with _put_back(function):
            _run(log, function, ways, options, owned, calls)
    finally:
        # Again, so that the program compiles for itself, without ctrace's hooks in its code.
        torch._dynamo.reset()


def _run(
    log: Path,
    function: Callable[..., Any],
    ways: Mapping[str, Way],
    options: Options,
    owned: tuple[str, ...],
    calls: int,
) -> None:
    ops = OpCounter()
    with capturing_here(log, build=options.build, ops=ops, owned=owned) as recorder:
        run_scenarios(Loaded(function, dict(ways)), options, recorder, ops, calls=calls)


def _refuse_compiled(function: Any) -> None:
    """Refuse a compiled function: the eager call for the comparison would compile, too.

    Such a function refers to the original (2.11 to 2.13, _dynamo/eval_frame.py); `Module.compile` keeps the compiled
    call in the module (nn/modules/module.py).
    """
    is_made = "_torchdynamo_orig_callable" in getattr(function, "__dict__", {})
    if is_made or getattr(function, "_compiled_call_impl", None) is not None:
        raise TargetError("the model is already compiled", "pass the original model: ctrace compiles it")


@contextmanager
def _put_back(function: Any) -> Iterator[None]:
    """Restore the modes of modules and the gradients of parameters."""
    import torch

    modules = []
    if isinstance(function, torch.nn.Module):
        modules = list(function.modules())
    # One by one, since `train` would set modules that the program froze on purpose.
    modes = [module.training for module in modules]
    parameters = []
    if isinstance(function, torch.nn.Module):
        parameters = list(function.parameters())
    gradients = [parameter.grad for parameter in parameters]
    try:
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient


@contextmanager
def _seen_codes(codes: list[CodeType]) -> Iterator[None]:
    """Collect the code objects that get a new cache entry in the block, once per entry."""
    from torch._dynamo.convert_frame import register_bytecode_hook

    handle = register_bytecode_hook(lambda code, _new: codes.append(code))
    try:
        yield
    finally:
        handle.remove()


def _drop_entries(codes: list[CodeType]) -> None:
    """Invalidate the newest entries of each code object.

    Torch does the same when a guarded object dies (2.13, _dynamo/guards.py:4981).
    """
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list
    from torch._dynamo.guards import DeletedGuardManagerWrapper

    for code in set(codes):
        # Torch may move an entry that was hit to the front, so the order of the list is not that of age.
        by_age = sorted(_debug_get_cache_entry_list(code), key=_age, reverse=True)
        # As many as the block made: the code may have older entries, which the program needs.
        for entry in by_age[: codes.count(code)]:
            state = entry.guard_manager.extra_state
            if state is not None:  # else it is already invalid
                state.invalidate(entry, DeletedGuardManagerWrapper("ctrace only emitted this graph"))


def _age(entry: Any) -> int:
    return int(entry.compile_id.frame_compile_id)


def ways_of(inputs: Any, kwargs: Mapping[str, Any]) -> dict[str, Way]:
    """Make scenarios from a tuple of arguments, one tensor, a dict of keyword arguments, or a list of these.

    Raises:
        TargetError: the inputs have another type, or the list is empty.
    """
    if isinstance(inputs, list):
        several = inputs
    else:
        several = [inputs]
    if not several:
        raise TargetError(
            "the list of inputs is empty", "pass a tuple of arguments, or a list with one tuple for each call"
        )
    calls = [_call(each, kwargs) for each in several]
    kinds = [ScenarioKind.BASE] + [ScenarioKind.GIVEN] * len(calls)
    names = ["base"] + [f"inputs {number}" for number in range(2, len(calls) + 1)]
    return {
        name: Way(functools.partial(_copied_call, call), kind)
        for name, call, kind in zip(names, calls, kinds, strict=False)
    }


def _copied_call(call: Call) -> Call:
    # The mapping is new in each call, and the values are the caller's own, as in a plain call.
    return Call(call.args, dict(call.kwargs))


def _call(inputs: Any, kwargs: Mapping[str, Any]) -> Call:
    import torch

    # A tensor first: it is one argument, although it can be iterated like a tuple of them.
    if isinstance(inputs, torch.Tensor):
        return Call((inputs,), {**kwargs})
    if isinstance(inputs, tuple):
        return Call(inputs, {**kwargs})
    if isinstance(inputs, Mapping):
        return Call((), {**inputs, **kwargs})
    todo = "pass a tuple of arguments, one tensor, a dict of keyword arguments, or a list of these for several calls"
    raise TargetError(f"inputs have type {type(inputs).__name__}", todo)
