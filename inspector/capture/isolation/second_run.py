"""The one way to run a kernel, an op or a graph part of the program a second time: on copies, with no state changed.

Only this module makes a `RepeatableLaunch`, and the stopwatch takes nothing else. So a hook cannot time a call on the
program's own arguments: there, the second run would overwrite results that the program is about to read.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.isolation.private_copies import CannotCopyError, PrivateCopies
from ctrace.inspector.capture.isolation.unnoticed import unnoticed

IN_CUDA_GRAPH = "it runs inside a CUDA graph"


class RepeatableLaunch(Struct, frozen=True):
    """Something to launch any number of times, which writes only to memory of ctrace."""

    run: Callable[[], Any]
    restore: Callable[[], None]
    """Resets what `run` writes to."""
    on_gpu: bool


class SecondRun(Struct, frozen=True):
    """The arguments of a second run: copies of those that the program passes."""

    copies: PrivateCopies

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return tuple(self.copies.args)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return dict(self.copies.kwargs)

    def launch(self, run: Callable[[], Any], written: Any) -> RepeatableLaunch:
        """Return a launch of `run`, which uses the copies, and writes those of `written`."""
        return RepeatableLaunch(run, self.copies.restoring(written), self.copies.on_gpu)


@contextmanager
def second_run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[SecondRun]:
    """Copy the arguments, and restore what the block changes.

    Dispatch modes of the program, such as counters, do not see the block.

    Raises:
        CannotCopyError: an argument cannot be copied, or nothing can run a second time now.
    """
    # Asked again here: between the start of a graph part and its kernel, a capture may have begun.
    why = why_not_now()
    if why:
        raise CannotCopyError(why)
    with _alone():
        yield SecondRun(PrivateCopies(args, kwargs))


def stored(args: list[Any]) -> list[Any]:
    """Copy arguments to the CPU, for a second run once the program is over; the result refers to none of them.

    Raises:
        CannotCopyError: an argument cannot be copied.
    """
    # Even a copy is work on the GPU, which modes and streams of the program must not see.
    with _alone():
        (copies,) = PrivateCopies((args,), {}, device="cpu").args
        return list(copies)


@contextmanager
def own_work() -> Iterator[Callable[[Callable[[], Any]], RepeatableLaunch]]:
    """Run ctrace's own work on the GPU; yield a function that makes a launch of it."""
    with _alone():
        yield lambda run: RepeatableLaunch(run, _nothing, on_gpu=True)


def why_not_now() -> str:
    """Return why nothing can run a second time at this moment, or "" if it can.

    In a captured stream, a launch becomes part of the program's graph instead of running. Under the profiler, it
    becomes part of the program's profile.
    """
    import torch

    # Without an initialized GPU, there is no stream that could be captured.
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return IN_CUDA_GRAPH
    if torch.autograd.profiler._is_profiler_enabled:
        return "the program was being profiled"
    return ""


@contextmanager
def _alone() -> Iterator[None]:
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    # Modes first: a counter of the program would see even the copies.
    with _disable_current_modes(), unnoticed(), torch.no_grad():
        yield


def _nothing() -> None:
    """Restore nothing: the launch writes to memory that only it reads."""
