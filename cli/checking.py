"""What `ctrace check` does: which models, run or read, judged, and written down."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ctrace.cli.console import say
from ctrace.inspector.errors import PolicyError, TargetError
from ctrace.inspector.gate.crew import run_jobs
from ctrace.inspector.gate.jobs import Jobs, jobs_of
from ctrace.inspector.gate.lockfile import load_lock, write_lock
from ctrace.inspector.gate.model import Lock, Outcome, Seen
from ctrace.inspector.gate.outcome import judged
from ctrace.inspector.gate.policy import Policy
from ctrace.inspector.gate.policyfile import find_policy, load_policy
from ctrace.inspector.gate.ratchet import updated
from ctrace.inspector.gate.starter import starter
from ctrace.inspector.gate.traces import traced
from ctrace.inspector.gate.trust import seen
from ctrace.inspector.order import Options
from ctrace.inspector.store import Store

LOCK = "ctrace.lock"
POLICY = "ctrace.yaml"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of the command line that says what is checked."""

    models: tuple[str, ...] = ()
    policy: Path | None = None
    lock: Path | None = None
    options: Options = field(default_factory=Options)
    gpu: str | None = None
    timeout: float | None = None
    jobs: int | None = None
    from_trace: Path | None = None


def checked(wanted: Wanted, *, update: bool = False, only_improve: bool = False) -> Outcome:
    """Check, and write the lock if that is asked for.

    Raises:
        CtraceError: the command line, the policy or the lock is wrong.
    """
    policy, root = _policy(wanted)
    path = wanted.lock or root / LOCK
    lock = load_lock(path)
    check = _Check(wanted, policy, root)
    check.run()
    outcome = check.outcome(lock)
    if not update:
        return outcome
    new = updated(outcome, only_improve=only_improve)
    if new.sections == lock.sections:
        say(f"ctrace: {path} stays as it is")
    else:
        write_lock(path, new)
        say(f"ctrace: wrote {path}")
    return check.outcome(replace(new, file=str(path)))


def started(wanted: Wanted) -> Outcome:
    """Write a first policy for models, and a lock with today's state.

    Raises:
        CtraceError: there is a policy already, or the command line is wrong.
    """
    path = wanted.policy or Path(POLICY)
    if path.exists():
        raise PolicyError(f"{path} is there already", "change it, or remove it to begin anew")
    if not wanted.models:
        todo = 'name them, or a glob: ctrace check --init "models/*.py"'
        raise TargetError("--init needs models to check", todo)
    path.write_text(starter(wanted.models), encoding="utf-8")
    say(f"ctrace: wrote {path}")
    return checked(replace(wanted, models=(), policy=path), update=True)


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
            self._seen = list(self._each())
        self._seconds = time.monotonic() - began

    def outcome(self, lock: Lock) -> Outcome:
        """Judge what was seen against a lock."""
        return judged(
            self._seen,
            self._policy,
            lock,
            datetime.now(UTC).date(),
            wrong=self._jobs.wrong,
            is_whole=self._is_whole(),
            seconds=self._seconds,
        )

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


def _policy(wanted: Wanted) -> tuple[Policy, Path]:
    """Read the policy, and let the command line come over it; also give the folder that its paths are relative to.

    Raises:
        CtraceError: it is wrong, or there is neither a policy nor a model.
    """
    path = wanted.policy or find_policy(Path.cwd())
    if path is None and not wanted.models and wanted.from_trace is None:
        todo = 'name a model, or write a policy: ctrace check --init "models/*.py"'
        raise PolicyError(f"there is no {POLICY} here or above", todo)
    policy = load_policy(path) if path is not None else Policy()
    if wanted.options != Options():
        models = tuple(replace(each, scenarios=()) for each in policy.models)
        policy = replace(policy, scenarios={_named(wanted.options): wanted.options}, models=models)
    if wanted.gpu is not None:
        targets = tuple(map(str.strip, wanted.gpu.split(",")))
        policy = replace(policy, targets=targets, models=tuple(replace(each, targets=()) for each in policy.models))
    if wanted.timeout is not None:
        policy = replace(policy, timeout=wanted.timeout)
    return policy, (path.parent if path is not None else Path()).absolute()


def _named(options: Options) -> str:
    """Name a way to call models by the options that say it, so that the lock tells it from the policy's."""
    words = [f"--vary {each}" for each in options.vary] + [f"--input {each}" for each in options.inputs]
    words += [f"--{name}" for name in ("provoke", "train") if getattr(options, name)]
    words += [f"--mode {options.mode}"] if options.mode else []
    words += [] if options.dynamic is None else ["--dynamic" if options.dynamic else "--no-dynamic"]
    return " ".join(words)
