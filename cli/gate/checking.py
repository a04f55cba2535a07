"""Run `ctrace check`: choose models, run them or read their logs, judge, and update the lock.

`checked` is a check, `started` writes the policy and the lock of a project that has none.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrace.cli.console import say, say_left, say_unsaved
from ctrace.cli.gate.check_request import CheckRequest, policy_of
from ctrace.cli.gate.check_suggestions import suggested
from ctrace.inspector.errors import CtraceError, LockError, PolicyError, TargetError
from ctrace.inspector.features.check.check_model import (
    CheckJob,
    CheckOutcome,
    FinishedJob,
    Lock,
    SeenJob,
)
from ctrace.inspector.features.check.jobs import Jobs, jobs_of, traced
from ctrace.inspector.features.check.judging import Judge, judged
from ctrace.inspector.features.check.lock_file import NAME as LOCK
from ctrace.inspector.features.check.lock_file import load_lock, write_lock, writing_lock
from ctrace.inspector.features.check.policy_file import NAMES as POLICIES
from ctrace.inspector.features.check.policy_file import load_policy
from ctrace.inspector.features.check.policy_model import CPU, CheckPolicy, Count, ModelRule, named_by
from ctrace.inspector.features.check.policy_starter import starter, workflow_path, workflow_text
from ctrace.inspector.features.check.pool import GUESS, run_jobs
from ctrace.inspector.features.check.ratchet import updated
from ctrace.inspector.features.check.reuse import Reuse, reuse_note
from ctrace.inspector.features.check.trust import reduced
from ctrace.inspector.features.doors import require
from ctrace.inspector.files.disk_errors import reason
from ctrace.inspector.files.writing import write_new
from ctrace.inspector.files.yaml_file import named
from ctrace.inspector.knowledge.releases import check_environment, torch_version
from ctrace.inspector.processes.engines import Engine, results_of
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.saving import Adds
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import Resolved

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session


def checked(request: CheckRequest, *, update: bool = False, only_improve: bool = False) -> CheckOutcome:
    """Check, and update the lock with `update`.

    Raises:
        CtraceError: the command line, the policy or the lock is wrong.
    """
    if request.from_trace is None and request.engine is not Engine.RAY:  # the workers of a cluster have torch
        check_environment()
    policy, root = policy_of(request)
    path = request.lock or root / LOCK
    # Before any model runs, since a lock that cannot be read is an error.
    lock = load_lock(path)
    check = _Check(request, policy, root, None if update else lock)
    check.run()
    if not update:
        return check.suggested(check.outcome(lock))
    return _update(check, path, only_improve=only_improve)


def _update(check: "_Check", path: Path, *, only_improve: bool) -> CheckOutcome:
    """Write the results to the current lock, which may have changed since the check began.

    Raises:
        LockError: it cannot be read.
        NotUpdatedError: it cannot be written.
    """
    with writing_lock(path, say) as lock:
        outcome = check.outcome(lock)
        new = updated(outcome, only_improve=only_improve)
        if new.sections == lock.sections:
            message = f"ctrace: {named(path)} is unchanged"
        else:
            try:
                write_lock(path, new)
            except LockError as error:
                raise NotUpdatedError(error, outcome) from None
            message = f"ctrace: wrote {named(path)}"
    say(message)
    # Once more against the new lock, in which nothing of it is a finding.
    return check.outcome(replace(new, file=str(path)))


class NotUpdatedError(LockError):
    """The lock could not be written and is unchanged; the check itself is complete."""

    def __init__(self, error: LockError, outcome: CheckOutcome) -> None:
        super().__init__(error.what, error.todo)
        self.outcome = outcome


def started(request: CheckRequest, *, github: bool = False) -> CheckOutcome:
    """Write a first policy for models, a lock with the current state, and with `github` the workflow that checks it.

    Raises:
        CtraceError: there is a policy already, or the command line is wrong; then nothing is written.
    """
    path = request.policy or Path(POLICIES[0])
    if path.exists():
        raise _policy_is_there(path)
    if not request.models:
        todo = 'name them, or a glob: ctrace check --init "models/*.py"'
        raise TargetError("--init needs models to check", todo)
    if not path.absolute().parent.is_dir():
        raise PolicyError(f"{path}: there is no folder {path.parent}", "make it, or name another file")
    check_environment()
    workflow = workflow_path(path) if github else None
    models = [named_by(each, path.parent).key for each in request.models]
    # Before any file is written.
    _refuse_wrong(models, request, path.parent)
    if workflow is not None:  # first: if it fails, there is no policy yet, and the user can try again
        _write_workflow(workflow, path)
    _write_policy(
        path,
        starter(
            models,
            request.options,
            request.targets,
            request.timeout,
            request.inductor_guards,
            request.accuracy,
            request.memory,
        ),
    )
    outcome = checked(CheckRequest(policy=request.policy, lock=request.lock, jobs=request.jobs), update=True)
    if line := _broken_already(outcome):
        say(line)
    return outcome


def _broken_already(outcome: CheckOutcome) -> str:
    """Say which models have graph breaks that the first lock accepts; empty if none has."""
    counts: dict[str, int] = {}
    for one in outcome.checked:
        breaks = one.state.counts.get(Count.BREAKS, 0) if one.state is not None else 0
        if breaks:
            counts[one.job.model] = max(breaks, counts.get(one.job.model, 0))
    names = [f"{name} ({number})" for name, number in sorted(counts.items(), key=lambda pair: -pair[1])]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    if names:
        return f"ctrace: already with graph breaks: {', '.join(names[:_MOST_NAMED])}{more}"
    return ""


_MOST_NAMED = 5
"""Models with graph breaks that `--init` names."""


def _write_workflow(workflow: Path, policy: Path) -> None:
    """Write the workflow beside a new policy.

    Raises:
        PolicyError: it cannot be written.
    """
    version = torch_version()
    assert version is not None, "check_environment refuses a machine without torch"
    try:
        workflow.parent.mkdir(parents=True, exist_ok=True)
        write_new(workflow, workflow_text(workflow, policy, version))
    except OSError as error:
        raise PolicyError(f"{named(workflow)} cannot be written: {reason(error)}", "leave out --github") from None
    say(f"ctrace: wrote {named(workflow)}; replace OWNER by the owner of your copy of ctrace, and set the repository")
    say("ctrace: variable TORCH_CPU_INDEX, as its comment says: the runner then installs torch without 2 GB of CUDA")


def _policy_is_there(path: Path) -> PolicyError:
    return PolicyError(f"{path} already exists", "edit it, or remove it to start over")


def _refuse_wrong(models: Sequence[str], request: CheckRequest, folder: Path) -> None:
    """Refuse models and options that a policy would reject.

    Raises:
        CtraceError: a model is missing, or an option is wrong.
    """
    policy = CheckPolicy(tuple(map(ModelRule, models)), {"base": request.options}, request.targets or (CPU,))
    for _, error in jobs_of(policy, folder).wrong:
        raise error


def _write_policy(path: Path, text: str) -> None:
    """Write a policy, and remove it again if it is invalid.

    Raises:
        CtraceError: it cannot be written, or a policy does not take an option.
    """
    try:
        write_new(path, text)
    except FileExistsError:
        raise _policy_is_there(path) from None
    except OSError as error:
        why = f"{named(path)} cannot be written: {reason(error)}"
        raise PolicyError(why, "name another file: --policy FILE") from None
    try:
        load_policy(path)
    except CtraceError:
        path.unlink()
        raise
    say(f"ctrace: wrote {named(path)}")


class _Check:
    """Runs the models, or reads their logs, once; can judge the results several times."""

    def __init__(self, request: CheckRequest, policy: CheckPolicy, root: Path, lock: Lock | None) -> None:
        """Without a lock, as for an update, advice on findings is not tried: the results are to be accepted."""
        self._request = request
        self._policy = policy
        self._root = root
        self._lock = lock
        self._jobs = Jobs()
        self._store = Store()
        self._seen: list[SeenJob] = []
        self._seconds = 0.0
        self._not_cached: tuple[str, ...] = ()

    def run(self) -> None:
        began = time.monotonic()
        if self._request.from_trace is not None:
            path, engine = self._request.from_trace, self._request.engine
            self._seen = list(traced(path, self._name(), self._policy, self._root, engine))
        else:
            self._jobs = jobs_of(self._policy, self._root, self._request.models)
            self._seen = list(self._each())
            say_unsaved(self._store)
        self._seconds = time.monotonic() - began

    def outcome(self, lock: Lock) -> CheckOutcome:
        """Judge the results against a lock."""
        outcome = judged(
            self._seen,
            self._policy,
            lock,
            # In UTC, so that what the policy allows ends at the same moment for all.
            datetime.now(UTC).date(),
            wrong=self._jobs.wrong,
            is_whole=self._is_whole(),
            seconds=self._seconds,
        )
        note = reuse_note({each.job.key: each.is_reused for each in self._seen})
        notes = (*([note] if note else []), *self._not_cached, *outcome.notes)
        return replace(outcome, command=self._request.command, notes=notes, reused=note)

    def suggested(self, outcome: CheckOutcome) -> CheckOutcome:
        """Add a proved repair to each finding at a site, if that was requested."""
        if self._request.suggest is None:
            return outcome

        began = time.monotonic()
        found = suggested(outcome, self._jobs.jobs, self._store, self._request.suggest)
        return replace(found, seconds=outcome.seconds + time.monotonic() - began)

    def _is_whole(self) -> bool:
        """Whether the check covers everything in the policy, with the policy's options."""
        request = self._request
        is_policy = not request.models and request.from_trace is None and request.gpu is None
        return is_policy and request.options == Options()

    def _each(self) -> Iterator[SeenJob]:
        from ctrace.cli.progress import many

        reuse = Reuse(self._store.root, self._root, self._policy.owned)
        # Numbers depend on what no answer shows, such as the machine's vector units and the C++ compiler.
        reusable = [each for each in self._jobs.jobs if self._request.cache and not (each.accuracy or each.memory)]
        reused = {job.key: found for job in reusable if (found := reuse.find(job))}
        yield from reused.values()
        jobs = [each for each in self._jobs.jobs if each.key not in reused]
        if any(each.accuracy for each in jobs):
            require("accuracy", "--accuracy")
        if any(each.memory for each in jobs):
            require("memory", "--memory")
        if self._request.engine is Engine.RAY:
            yield from self._on_ray(jobs)
            return
        left: list[FinishedJob] = []
        with many(len(jobs)) as shown:
            for ran in run_jobs(
                jobs,
                store=self._store,
                at_a_time=self._request.jobs,
                owned=self._policy.owned,
                observe=shown.observe,
                after=self._after_run,
                forks=self._request.forks,
            ):
                left.append(ran)
                one = reduced(ran, self._root)
                if not (ran.job.accuracy or ran.job.memory):
                    reuse.keep(ran, one)
                yield one
        self._not_cached = () if self._store.unsaved else reuse.notes  # that it is not saved says it already
        for ran in left:  # only now, because the status line is gone
            say_left(ran.left, str(ran.job.key))

    def _after_run(
        self, job: CheckJob, resolved: Resolved, child: ChildProcess
    ) -> "Callable[[Session, Adds], Session]":
        """Return what follows the run of a job: advice on its findings is tried, kernels and memory as requested."""
        steps: list[Callable[[Session, Adds], Session]] = []
        if self._lock is not None:
            steps.append(partial(self._with_advice, self._lock, job, resolved, child))
        if job.accuracy:
            from ctrace.inspector.features.accuracy.numeric_comparison import with_accuracy

            steps.append(
                with_accuracy(
                    resolved, job.options, always=True, timeout=job.timeout, is_wanted=lambda: child.is_wanted
                )
            )
        if job.memory:
            from ctrace.inspector.features.memory.memory_run import with_memory

            def observe() -> None:
                if not child.is_wanted:
                    raise TargetError("the check was interrupted", "run it again")

            steps.append(with_memory(resolved, job.options, timeout=job.timeout, observe=observe))

        def then(session: "Session", add: "Adds") -> "Session":
            for step in steps:
                session = step(session, add)
            return session

        return then

    def _with_advice(
        self, lock: Lock, job: CheckJob, resolved: Resolved, child: ChildProcess, session: "Session", add: Adds
    ) -> "Session":
        """Try the advice of a job that fails at a site, so that it is what `ctrace explain` says; others need none."""
        from ctrace.inspector.runs.trial_runner import with_trials

        judge = Judge(self._policy, lock, datetime.now(UTC).date(), {})
        found = judge.checked(reduced(FinishedJob(job, session), self._root)).findings
        if not any(each.site is not None for each in found):
            return session
        return with_trials(session, add, resolved, job.options, is_wanted=lambda: child.is_wanted, timeout=job.timeout)

    def _on_ray(self, jobs: Sequence[CheckJob]) -> Iterator[SeenJob]:
        """Run jobs on a cluster; the next check runs them again, as it cannot know what changed on the workers."""
        from ctrace.cli.progress import reading
        from ctrace.inspector.features.check.pool import run_here, surroundings

        at = surroundings(self._root, self._store, self._policy.owned, len(jobs))
        left = []
        with reading("models", done="checked") as progress:
            found = results_of(run_here, [(job, at) for job in jobs], Engine.RAY, is_large=True, memory=GUESS)
            for number, each in enumerate(found, 1):
                left.append(each)
                if progress is not None:
                    progress(number, len(jobs))
                yield each.seen
        for each in left:
            say_left(each.left, str(each.seen.job.key))

    def _name(self) -> str:
        """Return a trace's model name for the lock and the policy."""
        if self._request.models:
            return self._request.models[0]
        return "trace"
