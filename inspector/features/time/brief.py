"""Compare compiled with eager once after a `--build` run, with few rounds, for one line of its report."""

import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.compile_time import Speed
from ctrace.inspector.features.time.measuring import Plan, measured
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration
from ctrace.inspector.features.time.timing_request import configurations
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.saving import Adds
from ctrace.inspector.runs.target import ModelTarget, Resolved

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

_ROUNDS = 9
"""The fewest odd number of rounds whose interval has 99% confidence."""
_LEAST_SECONDS = 60.0
_MOST_SECONDS = 300.0


def with_speed(
    resolved: Resolved, options: Options, say: Callable[[str], None]
) -> "Callable[[Session, Adds], Session]":
    """Return a function that measures a model after its run, and adds the result to the log and the session."""

    def then(session: "Session", add: Adds) -> "Session":
        began = time.monotonic()
        say("comparing with eager")
        found = replace(_speed(session, resolved, options), cost=time.monotonic() - began)
        add(found)
        return replace(session, speed=found)

    return then


def _speed(session: "Session", resolved: Resolved, options: Options) -> Speed:
    if not isinstance(resolved, ModelTarget):
        return Speed(why="a program calls torch.compile itself; name the model in it")
    if session.failure is not None or session.cut_off:
        return Speed(why="the run did not finish")
    if not session.graphs:
        return Speed(why="nothing was compiled")
    limit = min(_LEAST_SECONDS + 2 * (session.time.total or 0.0), _MOST_SECONDS)
    try:
        chosen = configurations(None, None, (), mode=options.mode, backend=options.backend)
        plain = replace(options, build=False, provoke=False)
        plan = Plan(resolved, plain, chosen, rounds=_ROUNDS, timeout=limit, brief=True)
        devnull = subprocess.DEVNULL
        found = next(iter(measured(plan, lambda _configuration, _event: None, stdout=devnull, stderr=devnull)))
    except CtraceError as error:
        return Speed(why=error.what)
    return speed_of(found)


def speed_of(found: MeasuredConfiguration) -> Speed:
    """Return the comparison of a measurement; or why there is none."""
    part = found.first
    if part is None or part.speedup is None or part.eager is None or part.compiled is None:
        return Speed(why=_why_not(found))
    ratio = part.speedup.ratio
    return Speed(
        verdict=str(part.speedup.verdict),
        scenario=part.scenario,
        part=part.part,
        eager=part.eager.median,
        compiled=part.compiled.median,
        ratio=ratio.median,
        low=ratio.low,
        high=ratio.high,
        rounds=ratio.rounds,
    )


def _why_not(found: MeasuredConfiguration) -> str:
    if found.failures:
        failure = found.failures[0]
        first = next((line for line in failure.message.splitlines() if line.strip()), "")
        side = {"eager": "eager", "run": "the compiled model"}.get(failure.phase, "the model file")
        return f"{side} failed: {failure.type}: {first}"
    if found.stopped:
        return f"the measurement was stopped: {found.stopped}"
    if any(part.unclean for part in found.parts):
        return "each round compiled something"
    return "no round was measured"
