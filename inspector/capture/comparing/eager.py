"""Run a copy of the model without torch.compile and without side effects."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.call_tensors import tensors
from ctrace.inspector.capture.calls.calling import CallResults, called, stop_in
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic
from ctrace.inspector.capture.comparing.snapshots import copy_of, taken
from ctrace.inspector.capture.comparing.state_copies import Copier, copied
from ctrace.inspector.capture.comparing.world import A_TENSOR, World
from ctrace.inspector.capture.core import counters
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.op_counts import OpCounts
from ctrace.inspector.capture.isolation.private_copies import free_memory
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.errors import TargetError, telling_line
from ctrace.inspector.facts.run_events import EagerCall
from ctrace.inspector.processes.machine import memory

_TIMES = 3
"""How many times a tensor's memory is needed: for the tensor, its gradient, and what is computed from it."""
_GROWN = 32 << 20
"""How much memory may stay after an eager call, in bytes, before a search for garbage, which takes about 0.3 s."""
_NOT_COMPARED = "coverage was not measured, and results were not compared with eager"
_NO_RESULTS = CallResults(None, [], [])
Around = Callable[[], AbstractContextManager[Any]]


class EagerError(Exception):
    """The model raised without torch.compile; the cause is the user's exception."""


class _NeedsCompilingError(Exception):
    """A function that the model compiles would take too much memory in eager."""


class Traces(Struct):
    """What an eager call left behind, until the checkpoint was restored."""

    drawn: tuple[str, ...] = ()
    """The random generators that it used: the program's own by path, the global ones as `torch` or `numpy.random`."""
    switched: frozenset[str] = frozenset()
    """The switches of torch and Python that it set."""
    remembered: tuple[str, ...] = ()
    """The caches of functions that grew."""
    lost: tuple[str, ...] = ()
    """What it changed and nothing could restore."""


class EagerRun(Struct, frozen=True):
    """The results of an eager call, what it left behind, and the seconds that it took."""

    results: CallResults
    counts: OpCounts | None
    traces: Traces
    seconds: float

    @property
    def random(self) -> bool:
        """Whether the call drew random numbers from torch."""
        return "torch" in self.traces.drawn


@contextmanager
def _forced() -> Iterator[None]:
    """Keep the model itself from compiling anything; what needs to be compiled raises.

    That is flex_attention, which otherwise makes the whole matrix of scores, and warns of it (2.11 to 2.15,
    nn/attention/flex_attention.py).
    """
    import torch

    with ExitStack() as active:
        # The stance that ignores every `torch.compile` (2.13, torch/compiler/__init__.py), also one that the model
        # makes within the call.
        active.enter_context(torch.compiler.set_stance("force_eager"))
        flex: Any = sys.modules.get("torch.nn.attention.flex_attention")
        if hasattr(flex, "_warn_once"):
            warn = flex._warn_once

            def refuse(*args: Any, **kwargs: Any) -> None:
                if "flex_attention_performance" in (*args, *kwargs.values()):
                    raise _NeedsCompilingError("flex_attention")
                warn(*args, **kwargs)

            active.enter_context(patched(flex, "_warn_once", refuse))
        yield


class Eager:
    """Calls copies of a model's current state, each call inside the context `around`."""

    def __init__(
        self,
        model: Any,
        recorder: Recorder,
        *,
        train: bool,
        around: Around = nullcontext,
        keeps_results: bool = True,
    ) -> None:
        self._model = model
        self._keeps_results = keeps_results
        """Whether results have values to compare with."""
        self._recorder = recorder
        self._train = train
        self._around = around
        self._copier: Copier | None = Copier()
        self._has_copied = False
        self._kept: list[Any] | None = None
        self._forces_eager = around is nullcontext  # `around` chooses for itself
        """Whether functions that the model itself compiles run eagerly, too."""
        self.why_not = ""
        """Why `run` last returned None."""

    def run(
        self,
        call: Call,
        way: Way,
        world: World,
        counting: Callable[[], AbstractContextManager[OpCounts | None]] = nullcontext,
        arithmetic: WatchedArithmetic | None = None,
    ) -> EagerRun | None:
        """Call a copy with copies of the arguments, and restore the world.

        Functions that the model itself passes to torch.compile run eagerly, too. Where they cannot, torch compiles them
        as it would without ctrace, and the log says that this belongs to the eager call: `torch.cond`, whose branches
        use parameters, fails in autograd then (2.13, _higher_order_ops/cond.py).

        Return None if the model cannot be copied, or if it raises only as a copy or only on the CPU in place of a GPU.

        Args:
            counting: makes a block that counts the ops of the call.
            arithmetic: the arithmetic to compute with, or None for the model's own.

        Raises:
            TargetError: no output requires a gradient.
            EagerError: the model raises, or cannot be computed with that arithmetic.
        """
        failed: Exception | None = None
        before = _resident()
        for setting in self._settings(arithmetic):
            try:
                with setting():
                    run = self._run(call, way, world, counting, arithmetic)
            except TargetError:
                raise
            except Exception as error:
                failed = error
                # The value is missing in any setting.
                if stop_in(error) is not None:
                    break
            else:
                # Learned by the first call that succeeds: afterwards, the way that works is tried at once.
                self._forces_eager = setting is _forced
                # Modules are parts of reference cycles, so that a large copy would still be there in the compiled call.
                # A program that turned the collector off manages without it.
                if gc.isenabled() and _resident() - before >= _GROWN:
                    gc.collect()
                return run
        if (arithmetic is not None and arithmetic.is_other) or stop_in(failed) is not None:
            raise EagerError from failed
        # Not inside the except block: the exception that the model raises would get this one as its context.
        assert failed is not None
        try:
            with unnoticed(), self._marked():
                self._blame(failed, way)
        finally:
            self._put_back(world, Traces())
        return None

    def _settings(self, arithmetic: WatchedArithmetic | None) -> tuple[Around, ...]:
        """Return what to try, one after the other; an arithmetic records what it computes, so it is tried once."""
        if not self._forces_eager:
            return (self._marked,)
        if arithmetic is None:
            return (_forced, self._marked)
        return (_forced,)

    @contextmanager
    def _marked(self) -> Iterator[None]:
        """Record where the eager call begins and ends: what is compiled there is not part of the compiled model."""
        self._recorder.add(EagerCall(ends=False))
        try:
            with counters.kept():
                yield
        finally:
            self._recorder.add(EagerCall(ends=True))

    def _run(
        self,
        call: Call,
        way: Way,
        world: World,
        counting: Callable[[], AbstractContextManager[OpCounts | None]],
        arithmetic: WatchedArithmetic | None,
    ) -> EagerRun | None:
        model = self._copy()
        if model is None:
            return None
        arguments = copied(call)
        if arithmetic is not None:
            model, arguments = arithmetic.model(model), arithmetic.call(arguments)
        if self._kept is not None:
            self._kept.append((model, arguments))
        return self._called(model, arguments, way, world, counting(), arithmetic)

    def _called(
        self,
        model: Any,
        call: Call,
        way: Way,
        world: World,
        counting: AbstractContextManager[OpCounts | None],
        arithmetic: WatchedArithmetic | None,
    ) -> EagerRun:
        traces = Traces()
        try:
            with unnoticed() as random:
                try:
                    began = time.perf_counter()
                    with self._around(), arithmetic.active() if arithmetic is not None else nullcontext():
                        results, counts = called(model, call, way, train=self._train, counting=counting)
                    seconds = time.perf_counter() - began
                    if self._keeps_results:
                        kept = taken(results)
                    else:
                        kept = _NO_RESULTS
                    return EagerRun(kept, counts, traces, seconds)
                finally:
                    # Before the generators are put back.
                    traces.drawn = random.moved()
        finally:
            self._put_back(world, traces)

    @contextmanager
    def keeping_copies(self) -> Iterator[None]:
        """Keep the copies of the model and its arguments in the block, so that no later one gets their addresses."""
        self._kept = []
        try:
            yield
        finally:
            self._kept = None

    def run_itself(self, call: Call, way: Way, world: World, inputs: World) -> EagerRun | None:
        """Call the model itself with the arguments of the compiled call, which a copy may differ from.

        A copy has no object in common with the program: not a marker that code compares by identity, not a hook that
        refers to the model, not an id.

        Args:
            world: the state to restore before and after.
            inputs: the arguments' state to restore before and after.

        Return None if the model's parameters or the arguments cannot be restored.

        Raises:
            EagerError: the model raises.
        """
        if world.restore() or inputs.restore():
            return None
        kept = _Kept(self._model, call)
        try:
            with (_forced if self._forces_eager else self._marked)():
                run = self._called(self._model, call, way, world, nullcontext(), None)
        except Exception as error:
            raise EagerError from error
        finally:
            # The model itself was called, so its parameters are restored even if the call failed.
            kept.restore()
            lost = inputs.restore()
        if lost or run.traces.lost:
            return None
        return run

    def _blame(self, error: Exception, way: Way) -> None:
        """Raise if the original model raises, too; otherwise, record why the results were not compared.

        Raises:
            EagerError: the original model raises, too.
        """
        why = telling_line(kind_and_message(error))
        if self._around is not nullcontext:
            self.why_not = "the model was not called in eager on the CPU in place of the GPU"
            self._recorder.problem(f"{self.why_not}, so its results were not compared ({why})")
            return
        try:
            # With new arguments: the first ones may be what failed halfway.
            called(self._model, way.make(), way, train=self._train)
        except Exception as itself:
            raise EagerError from itself
        # Copies of this model tell nothing about it, so no further call is compared.
        self._copier = None
        self.why_not = "a copy of the model raises, and the model itself does not"
        self._recorder.problem(f"{_NOT_COMPARED}: {self.why_not} ({why})")

    def has_room(self, call: Call) -> bool:
        """Whether float64 copies of the model and its arguments fit into memory."""
        import torch

        state = []
        if isinstance(self._model, torch.nn.Module):
            state = [*self._model.parameters(), *self._model.buffers()]
        needed = _TIMES * 8 * sum(each.numel() for each in (*state, *tensors(call)))
        on_gpu = any(each.is_cuda for each in (*state, *tensors(call)))
        return bool(needed <= (free_memory() if on_gpu else memory()))

    def _copy(self) -> Any:
        if self._copier is None:
            return None
        try:
            copy = self._copier.copy(self._model)
        except Exception as error:
            self._copier = None
            why = telling_line(kind_and_message(error))
            self.why_not = "the model cannot be copied for an eager run"
            self._recorder.problem(f"{self._missing()}: {self.why_not} ({why})")
            return None
        self._has_copied = True
        return copy

    def _missing(self) -> str:
        """Return which measurements are missing without a copy; earlier calls may have measured the coverage."""
        if self._has_copied:
            return "coverage of later calls was not measured, and their results were not compared with eager"
        return "coverage was not measured, and results were not compared with eager"

    def _put_back(self, world: World, traces: Traces) -> None:
        traces.lost = ("what the call changed",)  # unless the next lines get to the end
        with self._recorder.watching("what an eager call changed"):
            traces.drawn += world.drawn()
            traces.switched = frozenset(world.switched())
            traces.remembered = world.remembered()
            traces.lost = world.restore()
            if A_TENSOR in traces.lost:
                self._recorder.problem("an eager call changed a tensor that is too large to restore")


class _Kept:
    """The parameters and gradients of a model and its arguments, to restore after a call of the model itself."""

    def __init__(self, model: Any, call: Call) -> None:
        import torch

        parameters = []
        if isinstance(model, torch.nn.Module):
            parameters = list(model.parameters())
        # An inference tensor has no version, and cannot be written outside of inference mode.
        self._values = [(each, each._version, copy_of(each)) for each in parameters if not each.is_inference()]
        self._gradients = [(each, each.grad) for each in (*parameters, *tensors(call)) if each.is_leaf]

    def restore(self) -> None:
        """Restore what has changed."""
        import torch

        with torch.no_grad():
            for parameter, version, value in self._values:
                if parameter._version != version:
                    parameter.copy_(value)
            for leaf, gradient in self._gradients:
                leaf.grad = gradient


def _resident() -> int:
    """Return the resident memory of this process in bytes; 0 where the system does not tell, as on macOS."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123 - called for each call
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
