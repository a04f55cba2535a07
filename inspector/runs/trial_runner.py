"""Check the advice on a run: rerun the model with the advice applied, and record the counts."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import MOST_TRIALS, trials
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.findings import CauseKind
from ctrace.inspector.facts.outcome import FailurePhase
from ctrace.inspector.facts.run_events import ProblemMet
from ctrace.inspector.facts.session import Problem
from ctrace.inspector.facts.trial import UNCHANGED, Trial, Tried
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.runs.capture_request import Options, is_inductor
from ctrace.inspector.runs.child import ChildProcess, dropped_output
from ctrace.inspector.runs.fork_client import ForkServer
from ctrace.inspector.runs.launch import NOT_PASSED_ON
from ctrace.inspector.runs.run_capture import capture
from ctrace.inspector.runs.saving import Adds
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import ModelTarget, Resolved

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

INTERRUPTED = "advice not checked: interrupted"
CALLS = 10
"""The calls of a trial, through all scenarios: what two calls save, the eighth may lose again at the limit."""
_OF_SIZES = frozenset((CauseKind.SIZE, CauseKind.RANGE, CauseKind.DUCK_SHAPE, CauseKind.STRIDE))
# A trial of a quick model imports torch as well, which takes most of its time on a busy machine.
_LEAST_SECONDS = 60.0
_TIMES_AS_LONG = 3.0
"""The time limit of a trial, as a multiple of the run's time, in case the trial hangs."""


class _InterruptedError(Exception):
    """Ctrl-C was pressed during a trial; the run itself is complete, and reports still show it."""


def _can_be_tried(resolved: Resolved, options: Options) -> bool:
    """Whether rerunning the target is safe and comparable: a model file on this machine's device.

    A program may write files or train for hours, and trials do not cover code for another GPU.
    """
    is_plain = options.gpu is None and not options.fullgraph and not options.fast
    return isinstance(resolved, ModelTarget) and is_plain


def _may_help(session: "Session") -> bool:
    """Whether a change of the model may help: either nothing failed, or it failed only with torch.compile."""
    failed_otherwise = session.failure is not None and session.failure.phase is not FailurePhase.RUN
    return not failed_otherwise and not session.cut_off


def with_trials(
    session: "Session",
    add: Adds,
    resolved: Resolved,
    options: Options,
    *,
    say: Callable[[str], None] = lambda _text: None,
    is_wanted: Callable[[], bool] = lambda: True,
    timeout: float | None = None,
) -> "Session":
    """Try the advice on a session that was just captured, record the outcome in its log, and return the new session.

    A session whose target cannot be tried, such as a program, is returned unchanged, and so is one that failed without
    torch.compile. Up to four more runs check the advice, each of at most `timeout` seconds; they end once another
    thread says that nobody waits for them with `is_wanted`.
    """
    if not _can_be_tried(resolved, options) or not _may_help(session):
        return session
    # Another backend adds no guard of Inductor's, which could fill a cache that is not full in the user's run.
    lowers = is_inductor(options.backend) and not has_settled_guards(session)
    limit = max(_LEAST_SECONDS, _TIMES_AS_LONG * (session.time.total or 0.0))
    limit = limit if timeout is None else min(limit, timeout)  # no further run takes longer than the user allows one
    done: list[Tried] = []

    def ended(_event: object) -> None:
        if not is_wanted():
            raise _InterruptedError

    def attempt(trial: Trial, through_backend: bool) -> "Session":
        more = trial == UNCHANGED or any(each.trial == UNCHANGED for each in done)  # the run of more calls comes on top
        say(f"checking advice, run {len(done) + 1} of at most {MOST_TRIALS + more}")
        # Without kernels: trials compare what Dynamo counts, and only guards of Inductor's can change that.
        trial_options = replace(
            options, trace_only=not through_backend, inductor_guards=lowers, build=False, guard_cost=False
        )
        trial_options = trial_options if trial.dynamic is None else replace(trial_options, dynamic=trial.dynamic)
        with scratch() as folder, dropped_output() as sink:
            found = capture(
                resolved,
                trial_options,
                store=Store(folder),
                timeout=limit,
                stdout=sink,
                stderr=sink,
                observe=ended,
                child=ChildProcess(server=server),
                trial=trial,
                calls=CALLS,
                # Half of the limit, so that a slow model ends with fewer calls and not with a timeout.
                seconds=limit / 2,
                seed=session.environment.seed,
            )
        if found.failure is not None and found.failure.phase is FailurePhase.INTERRUPT:
            raise _InterruptedError
        return found

    problems = session.problems
    # One server for all trials: each would import torch first, which takes most of its time.
    server = ForkServer({name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON})
    try:
        for each in trials(session, attempt):
            done.append(each)
            add(each)
    except (_InterruptedError, KeyboardInterrupt):
        problems = (*problems, Problem(INTERRUPTED))
        add(ProblemMet(INTERRUPTED))
    except CtraceError as error:
        problems = (*problems, Problem(f"advice not checked: {error.what}"))
        add(ProblemMet(problems[-1].what))
    finally:
        server.close()
    return replace(session, trials=tuple(done), problems=problems)


def has_settled_guards(session: "Session") -> bool:
    """Whether Inductor compiled graphs with symbolic sizes and added no guard, so that Dynamo alone decides what
    recompiles.

    Each function that recompiled for a size must have such a graph: another function may ask Inductor another question.
    """
    sized = {each.compilation for each in session.recompiles if any(cause.kind in _OF_SIZES for cause in each.causes)}
    late = session.late_guards
    return bool(late) and not any(late.values()) and sized <= late.keys()
