"""What `ctrace check` does: which models, run or read, judged, and written down."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ctrace.cli.console import say
from ctrace.cli.signals import ending_in_order
from ctrace.cli.wanted import Wanted, policy_of
from ctrace.inspector.errors import CtraceError, PolicyError, TargetError
from ctrace.inspector.files import write_output
from ctrace.inspector.gate.crew import run_jobs
from ctrace.inspector.gate.files import named_by
from ctrace.inspector.gate.jobs import Jobs, jobs_of
from ctrace.inspector.gate.lockfile import NAME as LOCK
from ctrace.inspector.gate.lockfile import load_lock, write_lock
from ctrace.inspector.gate.model import Lock
from ctrace.inspector.gate.outcome import judged
from ctrace.inspector.gate.policy import CPU, ModelRule, Policy
from ctrace.inspector.gate.policyfile import NAMES as POLICIES
from ctrace.inspector.gate.policyfile import load_policy
from ctrace.inspector.gate.ratchet import updated
from ctrace.inspector.gate.starter import starter
from ctrace.inspector.gate.traces import traced
from ctrace.inspector.gate.trust import seen
from ctrace.inspector.gate.verdict import Outcome, Seen
from ctrace.inspector.gate.yamlnodes import named
from ctrace.inspector.order import Options
from ctrace.inspector.store import Store


def checked(wanted: Wanted, *, update: bool = False, only_improve: bool = False) -> Outcome:
    """Check, and write the lock if that is asked for.

    Raises:
        CtraceError: the command line, the policy or the lock is wrong.
    """
    policy, root = policy_of(wanted)
    path = wanted.lock or root / LOCK
    lock = load_lock(path)
    check = _Check(wanted, policy, root)
    check.run()
    outcome = check.outcome(lock)
    if not update:
        return outcome
    new = updated(outcome, only_improve=only_improve)
    if new.sections == lock.sections:
        say(f"ctrace: {named(path)} stays as it is")
    else:
        write_lock(path, new)
        say(f"ctrace: wrote {named(path)}")
    return check.outcome(replace(new, file=str(path)))


def started(wanted: Wanted) -> Outcome:
    """Write a first policy for models, and a lock with today's state.

    Raises:
        CtraceError: there is a policy already, or the command line is wrong; then nothing is written.
    """
    path = wanted.policy or Path(POLICIES[0])
    if path.exists():
        raise PolicyError(f"{path} is there already", "change it, or remove it to begin anew")
    if not wanted.models:
        todo = 'name them, or a glob: ctrace check --init "models/*.py"'
        raise TargetError("--init needs models to check", todo)
    if not path.absolute().parent.is_dir():
        raise PolicyError(f"{path}: there is no folder {path.parent}", "make it, or name another file")
    models = [named_by(each, path.parent).key for each in wanted.models]
    _refuse_wrong(models, wanted, path.parent)
    _write_policy(path, starter(models, wanted.options, wanted.targets, wanted.timeout))
    return checked(Wanted(policy=wanted.policy, lock=wanted.lock, jobs=wanted.jobs), update=True)


def _refuse_wrong(models: Sequence[str], wanted: Wanted, folder: Path) -> None:
    """Refuse what a policy would be refused for.

    Raises:
        CtraceError: a model is not there, or an option is wrong.
    """
    asked = Policy(tuple(map(ModelRule, models)), {"base": wanted.options}, wanted.targets or (CPU,))
    for _, error in jobs_of(asked, folder).wrong:
        raise error


def _write_policy(path: Path, text: str) -> None:
    """Write a policy, and take it away again if it is none.

    Raises:
        CtraceError: it cannot be written, or an option is one that no policy takes.
    """
    try:
        write_output(path, text)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PolicyError(f"{named(path)} cannot be written: {why}", "name another file: --policy FILE") from None
    try:
        load_policy(path)
    except CtraceError:
        path.unlink()
        raise
    say(f"ctrace: wrote {named(path)}")


class _Check:
    """Runs or reads what is checked once, and judges it, perhaps twice."""

    def __init__(self, wanted: Wanted, policy: Policy, root: Path) -> None:
        self._wanted = wanted
        self._policy = policy
        self._root = root
        self._jobs = Jobs()
        self._seen: list[Seen] = []
        self._seconds = 0.0

    def run(self) -> None:
        began = time.monotonic()
        if self._wanted.from_trace is not None:
            self._seen = [seen(ran, self._root) for ran in traced(self._wanted.from_trace, self._name(), self._policy)]
        else:
            self._jobs = jobs_of(self._policy, self._root, self._wanted.models)
            with ending_in_order():
                self._seen = list(self._each())
        self._seconds = time.monotonic() - began

    def outcome(self, lock: Lock) -> Outcome:
        """Judge what was seen against a lock."""
        outcome = judged(
            self._seen,
            self._policy,
            lock,
            datetime.now(UTC).date(),
            wrong=self._jobs.wrong,
            is_whole=self._is_whole(),
            seconds=self._seconds,
        )
        return replace(outcome, command=self._wanted.command)

    def _is_whole(self) -> bool:
        """Whether all that the policy names is checked, as it says."""
        asked = self._wanted
        return not asked.models and asked.from_trace is None and asked.gpu is None and asked.options == Options()

    def _each(self) -> Iterator[Seen]:
        from ctrace.cli.progress import many

        with many(len(self._jobs.jobs)) as shown:
            for ran in run_jobs(
                self._jobs.jobs,
                store=Store(),
                at_a_time=self._wanted.jobs,
                owned=self._policy.owned,
                observe=shown.observe,
            ):
                yield seen(ran, self._root)

    def _name(self) -> str:
        """Name what a trace is of, for the lock and the policy."""
        return self._wanted.models[0] if self._wanted.models else "trace"
