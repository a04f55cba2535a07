"""The jobs of a check: the captures that a policy asks for, or logs that were written elsewhere.

`jobs_of` expands a policy to one capture for each model, scenario and target. `traced` turns logs of TORCH_TRACE into
jobs, one for each rank or process.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError, PolicyError, RunError, TargetError, did_you_mean
from ctrace.inspector.features.check.check_model import TRACE, CheckJob, FinishedJob, JobKey, SeenJob
from ctrace.inspector.features.check.policy_model import (
    CPU,
    CheckPolicy,
    Count,
    Limits,
    ModelRule,
    Named,
    expanded,
    named_by,
)
from ctrace.inspector.features.check.trust import reduced
from ctrace.inspector.log.files import one_file, rank_of, rotation_note
from ctrace.inspector.log.folders import LogFile, absolute, logs_in
from ctrace.inspector.processes.engines import Engine, results_of
from ctrace.inspector.runs.capture_request import Options, is_inductor
from ctrace.inspector.runs.load import load_log
from ctrace.inspector.runs.options import check_options
from ctrace.inspector.runs.target import resolve

_OF_CODE = {Count.KERNELS, Count.SPILLS, Count.MISSED_BYTES, Count.CUDA_GRAPH_SKIPS}
"""Counts that ctrace can only take from generated code."""

Wrong = tuple[JobKey, CtraceError]


class Jobs(Struct, frozen=True):
    """The jobs of a check, and the jobs that cannot run, in the policy's order; the files of a glob are sorted."""

    jobs: tuple[CheckJob, ...] = ()
    wrong: tuple[Wrong, ...] = ()


def jobs_of(policy: CheckPolicy, root: Path, paths: Sequence[str] = ()) -> Jobs:
    """Return the jobs for a policy in the folder `root`: for all its models, or only for the models in `paths`.

    `paths` are relative to the working directory. A model that the policy does not name gets the policy's defaults.
    """
    ruled: dict[str, tuple[Named, ModelRule]] = {}
    wrong: list[Wrong] = []
    for rule in policy.models:
        found = _of_rule(rule, root, wrong)
        ruled |= {each.key: (each, rule) for each in found}
    if paths:
        # What is wrong with other entries of the policy does not concern a check of these models.
        wrong.clear()
        ruled = _selected(paths, ruled, root, wrong)
    jobs: list[CheckJob] = []
    for named, rule in ruled.values():
        _cross(policy, rule, named, jobs, wrong)
    return Jobs(tuple(jobs), tuple(wrong))


def _of_rule(rule: ModelRule, root: Path, wrong: list[Wrong]) -> list[Named]:
    try:
        return expanded(rule.models, root)
    except CtraceError as error:
        wrong.append((JobKey(rule.models), error))
        return []


def _selected(
    paths: Sequence[str], ruled: dict[str, tuple[Named, ModelRule]], root: Path, wrong: list[Wrong]
) -> dict[str, tuple[Named, ModelRule]]:
    chosen: dict[str, tuple[Named, ModelRule]] = {}
    for text in paths:
        for each in _of_rule(ModelRule(text), Path(), wrong):
            fitting = {key: known for key, known in ruled.items() if each.names(known[0])}
            own = replace(named_by(each.target, root), by_chance=each.by_chance)
            chosen |= fitting or {own.key: (own, ModelRule(text))}
    # In the policy's order, with the models that it does not name at the end.
    return {**{key: known for key, known in ruled.items() if key in chosen}, **chosen}


def _cross(policy: CheckPolicy, rule: ModelRule, named: Named, jobs: list[CheckJob], wrong: list[Wrong]) -> None:
    """Add the jobs of one model; a model that cannot run counts once, not once for each scenario."""
    limits = rule.limits.over(policy.limits)
    if rule.timeout is None:
        timeout = policy.timeout
    else:
        timeout = rule.timeout
    if rule.accuracy is None:
        accuracy = policy.accuracy
    else:
        accuracy = rule.accuracy
    if rule.memory is None:
        memory = policy.memory
    else:
        memory = rule.memory
    found = []
    try:
        for scenario, options in _scenarios(policy, rule):
            for target in rule.targets or policy.targets:
                needed = _needed_options(options, target, limits, policy)
                # Before any job runs: a wrong option must not show after minutes of captures.
                check_options(resolve(named.target, has_inputs=bool(needed.inputs)), needed)
                key = JobKey(named.key, scenario, target)
                # A GPU that is not there has no numbers, and neither has a model without weights.
                compares = accuracy and target == CPU and not needed.fake
                found.append(CheckJob(key, named.target, needed, limits, timeout, compares, memory and target == CPU))
    except CtraceError as error:
        # A glob such as models/*.py also matches files of helpers.
        if not (named.by_chance and isinstance(error, TargetError)):
            wrong.append((JobKey(named.key), error))
        return
    jobs.extend(found)


def _scenarios(policy: CheckPolicy, rule: ModelRule) -> Iterator[tuple[str, Options]]:
    for name in rule.scenarios or policy.scenarios:
        if name not in policy.scenarios:
            todo = did_you_mean(name, policy.scenarios, f"there are: {', '.join(policy.scenarios) or 'none'}")
            raise PolicyError(f"{_where(policy, rule)}: the policy has no scenario {name}", todo)
        yield name, policy.scenarios[name]


def _where(policy: CheckPolicy, rule: ModelRule) -> str:
    file = "the policy"
    if policy.file is not None:
        file = os.path.relpath(policy.file)
    if rule.line:
        return f"{file}:{rule.line}"
    return file


def _needed_options(options: Options, target: str, limits: Limits, policy: CheckPolicy) -> Options:
    """Reduce options to what the limits need; keep an explicit backend and `build`.

    If all of Inductor runs, the capture records Inductor's guards in any case, whatever the policy says.
    """
    gpu = None
    if target != CPU:
        gpu = target
    needs_code = gpu is not None or not _OF_CODE.isdisjoint(limits.most)
    # Another backend is the user's: to stop before it would be another compile.
    trace_only = not needs_code and not options.build and is_inductor(options.backend)
    inductor_guards = policy.inductor_guards or not trace_only
    return replace(options, gpu=gpu, trace_only=trace_only, inductor_guards=inductor_guards)


_PARALLEL_BYTES = 32 << 20
"""Below this total size, one process reads the logs faster than a second process starts."""


def traced(
    path: Path, name: str, policy: CheckPolicy, root: Path, engine: Engine = Engine.PROCESSES
) -> Iterator[SeenJob]:
    """Read each log as one job. In the lock, all of them share the key `name`, because ranks run the same program.

    Raises:
        RunError: there is no log, or Ray cannot start.
        SetupError: Ray is not installed.
    """
    logs = _logs(path)
    if not logs:
        raise RunError(f"{path} has no trace log", "name the TORCH_TRACE folder, or one of its logs")
    known = JobKey(name, target=TRACE)
    calls = []
    for log, label in zip(logs, labels(each.rank for each in logs), strict=True):
        if label:
            key = JobKey(name, label, TRACE)
        else:
            key = known
        job = CheckJob(key, str(log.path), Options(), policy.limits, known_as=known)
        # A worker may run in another folder.
        calls.append((job, absolute(log), root.absolute()))
    yield from results_of(_read, calls, engine, is_large=sum(log.bytes for log in logs) > _PARALLEL_BYTES)


def _logs(path: Path) -> list[LogFile]:
    """List the logs of a folder, and what has the name of one and is no file, which is reported."""
    if path.is_dir():
        found = logs_in(path)
        others = [each.path for each in found.skipped if each.is_log]
        others += [each for each in sorted(path.glob("*.log")) if os.path.isdir(each)]  # noqa: PTH112 - never raises
        return [*found.logs, *(LogFile(each, None, 0) for each in others)]
    if path.exists():
        return [LogFile(path, rank_of(path), path.stat().st_size)]
    return []


def labels(ranks: Iterable[int | None]) -> list[str]:
    """Name each log by its rank, and by a number if its rank is not unique or not known; a single log without a rank
    needs no name.
    """
    names = ["process" if rank is None else f"rank {rank}" for rank in ranks]
    if names == ["process"]:
        return [""]
    numbers: dict[str, int] = {}
    found = []
    for name in names:
        numbers[name] = numbers.get(name, 0) + 1
        found.append(name if names.count(name) == 1 else f"{name} #{numbers[name]}")
    return found


def _read(job: CheckJob, log: LogFile, root: Path) -> SeenJob:
    try:
        with one_file(log.path, log.parts) as path:
            found = reduced(FinishedJob(job, load_log(path)), root)
    # One log that cannot be read is a finding of its job, and ends no check.
    except RunError as error:
        return reduced(FinishedJob(job, error=error), root)
    if found.state is None or not log.parts:
        return found
    return replace(found, state=replace(found.state, notes=(*found.state.notes, rotation_note(log.parts))))
