"""Carry out a proof request on a loaded model, and write what it saw."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import json

from ctrace.inspector.capture.calls.models import Loaded
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.facts.trial import Observed, ProofRequest
from ctrace.inspector.features.fix.child.models import ModelObserver
from ctrace.inspector.features.fix.child.programs import ProgramObserver
from ctrace.inspector.files.writing import write_text


def observe_model(loaded: Loaded, request: ProofRequest, *, train: bool) -> None:
    """Observe all calls of a model, and write the result."""
    _use_one_thread()
    observer = ModelObserver(loaded, request, train=train)
    with _without_guard_times():
        entries = [each.entry for each in observer.observe()]
    rounding = observer.rounding
    found = Observed(
        tuple(entries),
        observer.watch.result(),
        observer.probed,
        rounding=() if rounding is None else tuple(rounding.unexplained),
        compared=0 if rounding is None else rounding.compared,
        left_out=observer.left_out,
        uncopied=observer.uncopied,
        times=observer.times,
    )
    write(found, request)


def observe_program(program: Callable[[], None], request: ProofRequest) -> None:
    """Run a program, observe the calls of what it compiles, and write the result."""
    _use_one_thread()
    write(ProgramObserver(request).run(program), request)


def _use_one_thread() -> None:
    """Compute in one thread: sums then have one order, and small calls do not wait for other threads."""
    import torch

    torch.set_num_threads(1)


@contextmanager
def _without_guard_times() -> Iterator[None]:
    """Let Dynamo compile without timing its guards: it empties the caches for that, a third of a small compilation.

    The time is only for its metrics (CheckFunctionManager.__init__, _dynamo/guards.py, 2.13), which no proof reads.
    """
    from torch._dynamo import guards

    if not hasattr(guards, "profile_guard_manager"):  # another version of torch
        yield
        return
    with patched(guards, "profile_guard_manager", lambda *_: 0.0):
        yield


def write(found: Observed, request: ProofRequest) -> None:
    """Write the result as JSON, whole or not at all."""
    write_text(Path(request.result), json.encode(found).decode())
