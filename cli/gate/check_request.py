"""The command line of `ctrace check`, and the policy with its overrides."""

import shlex
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.cli.command_options import words_of
from ctrace.inspector.errors import PolicyError, TargetError
from ctrace.inspector.features.check.policy_file import NAMES, find_policy, load_policy, target_name
from ctrace.inspector.features.check.policy_model import CheckPolicy
from ctrace.inspector.files.writing import working_folder
from ctrace.inspector.processes.engines import Engine
from ctrace.inspector.runs.capture_request import Options

_NO_GUARDS = "--no-inductor-guards"


class CheckRequest(Struct, frozen=True):
    """The part of the command line that selects what to check."""

    models: tuple[str, ...] = ()
    policy: Path | None = None
    lock: Path | None = None
    options: Options = field(default_factory=Options)
    gpu: str | None = None
    """Names of targets, separated by commas."""
    timeout: float | None = None
    jobs: int | None = None
    from_trace: Path | None = None
    inductor_guards: bool = True
    cache: bool = True
    """Whether unchanged models reuse the last check's results."""
    forks: bool = True
    """Whether models may run in forks of one process that has imported torch."""
    engine: Engine = Engine.PROCESSES
    """Where models run, or logs are read."""
    suggest: float | None = None
    """Seconds to look for proved repairs of findings; None: do not look."""

    accuracy: bool = False
    """Whether to compare the kernels of all models with eager, whatever the policy says."""
    memory: bool = False
    """Whether to follow the memory of a step of all models, whatever the policy says."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets in a lock.

        Raises:
            TargetError: there is no such GPU.
        """
        names = map(str.strip, self.gpu.split(",")) if self.gpu is not None else ()
        # Two spellings of a GPU are one target.
        return tuple(dict.fromkeys(target_name(each, Path()) for each in names))

    @property
    def command(self) -> str:
        """The command that repeats this check, such as `ctrace check model.py --train`."""
        values = {
            "--policy": self.policy,
            "--lock": self.lock,
            "--target": self.gpu,
            "--timeout": self.timeout,
            "--from-trace": self.from_trace,
        }
        others = [word for name, value in values.items() if value is not None for word in (name, str(value))]
        flags = [_NO_GUARDS] * (not self.inductor_guards) + ["--accuracy"] * self.accuracy + ["--memory"] * self.memory
        return shlex.join(["ctrace", "check", *self.models, *words_of(self.options), *flags, *others])

    def refuse(self, *, init: bool) -> None:
        """Refuse incompatible options.

        Raises:
            TargetError: an option for runs goes with --from-trace.
        """
        if self.suggest is not None and init:
            raise TargetError("--suggest looks for repairs of new findings, and --init has none", "leave out --suggest")
        if self.engine is Engine.RAY and self.jobs is not None:
            raise TargetError(
                "--jobs limits the models on this machine; Ray decides itself", "leave out --jobs or --on"
            )
        if self.engine is Engine.RAY and self.memory:
            raise TargetError("--memory follows models on this machine", "leave out --memory or --on")
        if self.engine is Engine.RAY and self.accuracy:
            raise TargetError("--accuracy compares kernels on this machine", "leave out --accuracy or --on")
        if self.from_trace is None:
            return
        of_runs = (
            ["--init"] * init
            + [_NO_GUARDS] * (not self.inductor_guards)
            + words_of(self.options)[:1]
            + ["--target"] * (self.gpu is not None)
            + ["--accuracy"] * self.accuracy
            + ["--memory"] * self.memory
            + ["--suggest"] * (self.suggest is not None)
        )
        if of_runs:
            what = f"{of_runs[0]} is for models that run, but --from-trace runs nothing"
            raise TargetError(what, f"leave out {of_runs[0]} or --from-trace")
        if len(self.models) > 1:
            what = f"--from-trace checks one model, but the command names {len(self.models)}"
            raise TargetError(what, "name the model of the logs")


def policy_of(request: CheckRequest) -> tuple[CheckPolicy, Path]:
    """Return the policy with the command line's overrides, and the folder to which its paths are relative.

    Raises:
        CtraceError: the policy is wrong, or there is neither a policy nor a model.
    """
    path = request.policy or find_policy(working_folder())
    if path is None and not request.models and request.from_trace is None:
        todo = 'name a model, or write a policy: ctrace check --init "models/*.py"'
        raise PolicyError(f"there is no {NAMES[0]} here or above", todo)
    policy = load_policy(path) if path is not None else CheckPolicy()
    if request.options != Options():
        # What a model says itself would go before the command line, here and below.
        models = tuple(replace(each, scenarios=()) for each in policy.models)
        policy = replace(policy, scenarios={" ".join(words_of(request.options)): request.options}, models=models)
    if targets := request.targets:
        models = tuple(replace(each, targets=()) for each in policy.models)
        policy = replace(policy, targets=targets, models=models)
    if request.timeout is not None:
        policy = replace(policy, timeout=request.timeout)
    if not request.inductor_guards:
        policy = replace(policy, inductor_guards=False)
    if request.accuracy:
        models = tuple(replace(each, accuracy=None) for each in policy.models)
        policy = replace(policy, accuracy=True, models=models)
    if request.memory:
        models = tuple(replace(each, memory=None) for each in policy.models)
        policy = replace(policy, memory=True, models=models)
    return policy, (path.parent if path is not None else Path()).absolute()
