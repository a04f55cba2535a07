"""The object behind the pytest fixture `ctrace`."""

import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import replace

from ctrace.inspector.features.check.check_model import (
    CheckJob,
    CheckOutcome,
    FindingKind,
    FinishedJob,
    GateFinding,
    JobKey,
    Lock,
    SeenJob,
)
from ctrace.inspector.features.check.policy_model import CheckPolicy, Count, Limits
from ctrace.inspector.runs.capture_request import Options

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.features.check.ratchet import LockOfTests

CALLS = 2
"""How often to call with the same inputs: the second call shows recompilations without a change."""


class Checks:
    """Checks models in one test."""

    def __init__(self, node: str, lock: "LockOfTests", root: Path, *, update: bool) -> None:
        self._node = node
        self._lock = lock
        self._root = root
        self._update = update
        self._unnamed = 0
        self._keys: set[str] = set()

    def check(
        self,
        model: Callable[..., Any],
        inputs: Any = (),
        *,
        kwargs: Mapping[str, Any] | None = None,
        graph_breaks: int | None = None,
        skipped: int | None = None,
        recompiles: int | None = None,
        graphs: int | None = None,
        coverage: float | None = None,
        calls: int = CALLS,
        train: bool = False,
        dynamic: bool | None = None,
        name: str | None = None,
    ) -> "Session":
        """Compile a model, call it, and fail the test if torch.compile leaves too much of it out.

        `inputs` are a tuple of arguments, one tensor or a dict of keywords; or a list of these, to call the model with
        several inputs and see recompilations for new shapes. Each is passed `calls` times to the compiled model and, on
        a copy, to the eager one. Graphs run as Dynamo captured them; those with symbolic sizes are lowered too, for the
        guards that Inductor adds. `kwargs` go with every call. With `train`, the backward runs too.

        The numbers are limits: most places with graph breaks (each for your code, libraries and torch), most functions
        that run eagerly, most recompilations after warm-up, most graphs, and the least percentage of ops in graphs.
        If you set any, the limits for breaks, eager functions and recompilations that you leave out are 0. If you set
        none, the lock decides: no more than when `pytest --ctrace-update` last ran.

        Dynamo is reset before and after (`torch._dynamo.reset()`), so tests do not affect each other. A model that
        raises in eager raises here, with its own traceback.

        Returns:
            The session, for further checks: `session.breaks`, `session.recompiles`, `session.graphs`.

        Raises:
            pytest.fail.Exception: the check fails, nothing was compiled, or the call of `check` is wrong.
        """
        # pytest leaves out such frames, so that a failure shows the line of the test.
        __tracebackhide__ = True
        limits = _limits(graph_breaks, skipped, recompiles, graphs, coverage)
        key = JobKey(self._key(name))
        session, seconds = self._observed(model, inputs, kwargs, Options(train=train, dynamic=dynamic), calls)
        is_by_lock = limits == Limits()
        job = CheckJob(key, "", Options(), limits)
        problem = self._problem(_seen(FinishedJob(job, session, seconds=seconds), self._root), is_by_lock=is_by_lock)
        if problem:
            _fail(problem)
        return session

    def _key(self, name: str | None) -> str:
        """Name a check by its test, then `#2` and so on, or `#name`."""
        __tracebackhide__ = True
        if name is None:
            self._unnamed += 1
            key = self._node
            if self._unnamed > 1:
                key = f"{self._node}#{self._unnamed}"
        else:
            key = f"{self._node}#{name}"
        if key in self._keys:  # also a name such as "2" beside the second check without a name
            own = key.removeprefix(f"{self._node}#")
            _fail(f"this test already has a check named {own}\n→ give each check its own name")
        self._keys.add(key)
        return key

    def _observed(
        self, model: Callable[..., Any], inputs: Any, kwargs: Mapping[str, Any] | None, options: Options, calls: int
    ) -> "tuple[Session, float]":
        from ctrace.inspector.api import observe
        from ctrace.inspector.errors import CtraceError
        from ctrace.inspector.runs.settings import settings_at

        __tracebackhide__ = True
        began = time.monotonic()
        if calls < CALLS:
            _fail(f"calls={calls} is too few\n→ use {CALLS} or more: the second call shows recompilations")
        wrong = ""
        try:
            traced = replace(options, trace_only=True)
            session = observe(model, inputs, kwargs, options=traced, calls=calls, owned=settings_at(self._root).owned)
        except CtraceError as error:
            wrong = f"{error.what}\n→ {error.todo}"
        if wrong:  # outside of the handler, or pytest would show the error as the cause
            _fail(wrong)
        return session, time.monotonic() - began

    def _problem(self, seen: SeenJob, *, is_by_lock: bool) -> str:
        """Return why the check fails; empty if it passes."""
        from ctrace.inspector.errors import CtraceError, Exit
        from ctrace.reports.gate.failuretext import failure_text

        try:
            outcome = self._outcome(seen, is_by_lock=is_by_lock)
        except CtraceError as error:
            return f"{error.what}\n→ {error.todo}"
        if outcome.exit is Exit.DONE:
            return ""
        return failure_text(outcome, shutil.get_terminal_size().columns, is_by_lock=is_by_lock)

    def _outcome(self, seen: SeenJob, *, is_by_lock: bool) -> CheckOutcome:
        """Judge a check; with `--ctrace-update`, record its result instead, if the result can be trusted."""
        from ctrace.inspector.features.check.judging import judged
        from ctrace.inspector.features.check.ratchet import updated

        today = datetime.now(UTC).date()
        # Never whole: models of other tests are not gone because this test does not check them.
        if not is_by_lock:
            return judged([seen], CheckPolicy(), Lock(), today, is_whole=False)
        if self._update:
            alone = judged([seen], CheckPolicy(), Lock(), today, is_whole=False)
            now = updated(alone)
            self._lock.keep(now)
            # Without a section, the result cannot be trusted, and what is wrong is in `alone`.
            if now.sections:
                return judged([seen], CheckPolicy(), now, today, is_whole=False)
            return alone
        outcome = judged([seen], CheckPolicy(), self._lock.lock, today, is_whole=False)
        if seen.job.key not in self._lock.lock.sections.get(outcome.torch, {}):
            self._lock.unknown.add(str(seen.job.key))
        return replace(outcome, findings=tuple(map(_for_pytest, outcome.findings)))


def _limits(
    graph_breaks: int | None, skipped: int | None, recompiles: int | None, graphs: int | None, coverage: float | None
) -> Limits:
    most = {
        **dict.fromkeys((Count.BREAKS, Count.LIBRARY_BREAKS, Count.TORCH_BREAKS), graph_breaks),
        Count.SKIPPED: skipped,
        Count.RECOMPILES: recompiles,
        Count.GRAPHS: graphs,
    }
    return Limits({count: number for count, number in most.items() if number is not None}, coverage)


def _seen(ran: FinishedJob, root: Path) -> SeenJob:
    from ctrace.inspector.features.check.trust import reduced

    return reduced(ran, root)


def _for_pytest(finding: GateFinding) -> GateFinding:
    """Return the finding with pytest's advice; `ctrace check --update` does not update tests."""
    if finding.kind is not FindingKind.NO_SECTION:
        return finding
    return replace(finding, todo="run pytest --ctrace-update with it, and commit the lock")


def _fail(text: str) -> NoReturn:
    import pytest

    __tracebackhide__ = True
    # A traceback would end in ctrace, and the text has the line of the model.
    pytest.fail(text, pytrace=False)
