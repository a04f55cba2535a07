"""Fold torch's choices, their times and the choice that it used into one finding for each operation."""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.autotuning import (
    Choice,
    ChoicesListed,
    ChoiceStatus,
    ChoicesTimed,
    ChoiceTaken,
    ChoiceTiming,
    KernelTuned,
    ListedChoice,
    SweepReported,
    TimedConfiguration,
    TunedKernel,
    TunedOperation,
)
from ctrace.inspector.log.collected_log import CollectedLog

_DOES_NOT_FIT = re.compile(r"(?i)OutOfResources|out of resource|OutOfMemory|out of memory|too many resources")
"""How Triton and CUDA say that a kernel needs more than the GPU has (Triton 3.6 and 3.7, runtime/errors.py)."""


class _Seen(Struct):
    listed: ChoicesListed
    timed: ChoicesTimed | None = None
    taken: ChoiceTaken | None = None


def tuned_of(raw: CollectedLog) -> tuple[TunedOperation, ...]:
    """Return each operation that torch had choices for, in the order of lowering.

    A run that builds nothing switches max_autotune off, so it does not show what torch would not try.

    A log that torch alone wrote names the best choices only; it is read where there is nothing better.
    """
    operations: dict[int, _Seen] = {}
    for event in raw.autotuning:
        match event:
            case ChoicesListed(number=number):
                operations[number] = _Seen(event)
            case ChoicesTimed(number=number) if number in operations:
                operations[number].timed = operations[number].timed or event
            case ChoiceTaken(number=number) if number in operations:
                operations[number].taken = event  # a fusion may use a choice and then be undone
    if operations:
        found = tuple(map(_tuned, operations.values()))
        # A run that builds nothing does not autotune, so it does not show what torch would not try.
        was_switched_off = raw.gpu is None and not raw.environment.get("built", False)
        if was_switched_off:
            return tuple(replace(each, is_on=None, untried=()) for each in found)
        return found
    return tuple(_reported(event.tuned for event in raw.autotuning if isinstance(event, SweepReported)))


def tuned_kernels_of(raw: CollectedLog) -> tuple[TunedKernel, ...]:
    """Return each kernel of which torch chose one of several configurations."""
    return tuple(_tuned_kernel(event) for event in raw.autotuning if isinstance(event, KernelTuned))


def _tuned_kernel(event: KernelTuned) -> TunedKernel:
    return TunedKernel(
        graph=event.id,
        stage=event.stage,
        kernel=event.kernel,
        configurations=_ranked(map(_configuration, event.configurations)),
        taken=event.taken,
        cache=event.cache,
        sizes=event.sizes,
        seconds=event.seconds,
    )


def _configuration(timed: TimedConfiguration) -> Choice:
    if timed.seconds is None:
        status = ChoiceStatus.FAILED_TO_RUN
    else:
        status = ChoiceStatus.TIMED
    return Choice(timed.name, "triton", status=status, seconds=timed.seconds, spread=timed.spread)


def _tuned(seen: _Seen) -> TunedOperation:
    listed, timed, taken = seen.listed, seen.timed, seen.taken
    timings = {}
    if timed is not None:
        timings = {each.name: each for each in timed.timings}
    choices = (_outcome(each, timings.get(each.name)) for each in listed.choices)
    tuned = TunedOperation(
        graph=listed.id,
        stage=listed.stage,
        op=listed.op,
        inputs=listed.inputs,
        choices=_ranked(choices),
        untried=listed.untried,
        lines=listed.lines,
        is_on=listed.is_on,
    )
    if taken is not None:
        tuned = replace(tuned, taken=taken.name, is_fused=taken.is_fused)
    if timed is None:
        return tuned
    return replace(
        tuned,
        is_swept=any(each.seconds is not None for each in timed.timings),
        is_cached=timed.is_cached,
        seconds=timed.seconds,
        compile_seconds=timed.compile_seconds,
        timing_seconds=timed.timing_seconds,
    )


def _outcome(listed: ListedChoice, timing: ChoiceTiming | None) -> Choice:
    choice = Choice(listed.name, listed.kind, listed.configuration)
    if timing is None:
        return choice
    return replace(choice, status=_status(timing), seconds=timing.seconds, spread=timing.spread, error=timing.error)


def _status(timing: ChoiceTiming) -> ChoiceStatus:
    if timing.seconds is not None:
        return ChoiceStatus.TIMED
    # Triton raises OutOfResources when it loads a kernel (triton/compiler/compiler.py), so one that is built may not
    # fit.
    if not timing.is_built or _DOES_NOT_FIT.search(timing.error):
        return status_of_failure(timing.error)
    if timing.has_run:
        return ChoiceStatus.NOT_TIMED
    return ChoiceStatus.FAILED_TO_RUN


def status_of_failure(error: str) -> ChoiceStatus:
    """Say whether a choice that was not built is too large for the GPU, or does not compile."""
    if _DOES_NOT_FIT.search(error):
        return ChoiceStatus.DOES_NOT_FIT
    return ChoiceStatus.FAILED_TO_COMPILE


def _ranked(choices: Iterable[Choice]) -> tuple[Choice, ...]:
    """Put the fastest first, and those without a time last, in torch's order."""
    return tuple(sorted(choices, key=lambda each: (each.seconds is None, each.seconds or 0.0)))


def _reported(reports: Iterable[TunedOperation]) -> Iterator[TunedOperation]:
    """Join each sweep with what failed to compile before it."""
    failed: tuple[Choice, ...] = ()
    for each in reports:
        if each.is_swept:
            yield replace(each, choices=(*_ranked(each.choices), *failed))
            failed = ()
            continue
        failed = tuple(replace(choice, status=status_of_failure(choice.error)) for choice in each.choices)
