"""Carry out `ctrace upgrade`: choose models and environments, ask before anything is installed, and show the answer."""

import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ctrace.cli.command_options import Screen
from ctrace.cli.console import say
from ctrace.cli.streams import EndedBySignal
from ctrace.inspector.errors import CtraceError, RunError, TargetError, did_you_mean
from ctrace.inspector.facts.outcome import FailurePhase
from ctrace.inspector.features.doors import require
from ctrace.inspector.features.upgrade.environment_runs import EnvironmentRuns, server_for
from ctrace.inspector.features.upgrade.environments import EnvironmentMaker, Requirement, UpgradePlan, parted
from ctrace.inspector.features.upgrade.upgrade_model import (
    CleanedEnvironments,
    EnvironmentFacts,
    ReasonKind,
    UpgradeChange,
    UpgradedModel,
    UpgradeDocument,
    UpgradeError,
    UpgradeSide,
    equal_of,
)
from ctrace.inspector.features.upgrade.upgrade_search import BothEnvironments, compared_model
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.processes.boot import Interpreter
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.child import dropped_output
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import resolve
from ctrace.reports import format as fmt

if TYPE_CHECKING:
    from ctrace.cli.progress import Progress
    from ctrace.inspector.facts.session import Session

_RUNS = 10_000
"""Runs of a search for reasons are kept until it is over."""
_CONDITIONS = ("worse", "any")
_NOT_REACHED = UpgradeError("before", str(FailurePhase.INTERRUPT), "ctrace ended before this model was compared")


class UpgradeRequest(Struct, frozen=True):
    """The command line."""

    words: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    yes: bool = False
    builds: bool = False
    fail_on: str | None = None
    allow: tuple[str, ...] = ()
    timeout: float | None = None
    keep: Callable[[UpgradeDocument], None] = lambda _document: None
    """Gets what is known after each model but the last one, and before the reasons of one are looked for."""

    @property
    def command(self) -> str:
        """The command that installs without asking."""
        pythons = [word for each in self.pythons for word in ("--python", each)]
        builds = ["--allow-build"] if self.builds else []
        return shlex.join(["ctrace", "upgrade", *self.words, *pythons, *builds, "--yes"])


class Model(Struct, frozen=True):
    """A model to compare."""

    name: str
    target: str
    options: Options


def upgraded(request: UpgradeRequest) -> tuple[UpgradeDocument, EndedBySignal | None]:
    """Compare models in two environments; return the answer, and the signal that ended the comparison early.

    Raises:
        CtraceError: the command line is wrong, or an environment cannot be made.
        EndedBySignal: before a model was compared.
    """
    from ctrace.cli.progress import progress

    require("compare", "ctrace upgrade")
    requirements, targets = parted(request.words)
    _check(request, requirements)
    models = list(_models(targets, request))
    with progress(is_program=False) as shown:
        before, after = _environments(request, requirements, shown)
        with scratch("upgrade") as folder, dropped_output() as sink, ExitStack() as open_servers:
            # Not the user's store, from which the runs of a search would push the user's own.
            store = Store(folder / "runs", _RUNS)

            def runs(name: str, interpreter: Interpreter) -> EnvironmentRuns:
                server = server_for(interpreter)
                open_servers.callback(server.close)
                return EnvironmentRuns(name, interpreter, store, request.timeout, shown.observe, sink, server)

            one, other = runs("before", before), runs("after", after)
            shown.say("looking at both environments")
            was, now = _facts(one), _facts(other)
            sides = _side(was, before), _side(now, after)
            notes = tuple(_notes(was, now, after))

            def answer() -> UpgradeDocument:
                known = [*done, *searched]
                rest = [UpgradedModel(each.name, error=_NOT_REACHED) for each in models[len(known) :]]
                found = (*known, *rest)
                unfinished = _unfinished(len(models), len(done), searched)
                document = UpgradeDocument(*sides, found, equal_of(found), notes=(*unfinished, *notes))
                return _judged(document, request)

            def keep(model: UpgradedModel) -> None:
                searched.append(model)
                _keep(answer(), request, shown)

            done: list[UpgradedModel] = []
            searched: list[UpgradedModel] = []
            both = BothEnvironments(one, other, was, now, _changes, shown.say, keep)
            try:
                for each in models:
                    done.append(_compared(each, both))
                    # `done` has this model now, with all its reasons.
                    searched.clear()
                    if len(done) < len(models):
                        _keep(answer(), request, shown)
            except (EndedBySignal, KeyboardInterrupt) as error:
                signaled = error if isinstance(error, EndedBySignal) else EndedBySignal(signal.SIGINT)
                # After a hangup nobody reads a screen; the file, if one was named, has what was compared.
                if not (done or searched) or signaled.name == "SIGHUP":
                    raise signaled from None
                return answer(), signaled
    return answer(), None


def _unfinished(count: int, done: int, searched: list[UpgradedModel]) -> Iterator[str]:
    """Say what an answer lacks whose call ended early."""
    if done < count:
        yield f"not finished: {done} of {fmt.count(count, 'model')} were compared"
    for each in searched:
        yield f"{each.name}: changed, but not all reasons were looked for"


def _keep(document: UpgradeDocument, request: UpgradeRequest, shown: "Progress") -> None:
    """Hand on what is known so far; a file that cannot be written now is written at the end, or is an error then."""
    try:
        request.keep(document)
    except RunError as error:
        with shown.stopped():
            say(f"ctrace: {error.what}: what was compared so far is not kept")


def _check(request: UpgradeRequest, requirements: list[Requirement]) -> None:
    """Refuse a command line that names no second environment, or two of them.

    Raises:
        TargetError: it does.
    """
    if request.fail_on is not None and request.fail_on not in _CONDITIONS:
        todo = did_you_mean(request.fail_on, _CONDITIONS, "choose worse or any")
        raise TargetError(f"--fail-on {request.fail_on}: there is no such condition", todo)
    known = [*_kinds(), *map(str, ReasonKind)]
    for each in request.allow:
        if each not in known:
            raise TargetError(f"--allow {each}: there is no such kind", did_you_mean(each, known))
    if requirements and request.pythons:
        raise TargetError("--python names an environment, and a requirement makes one", "choose one of them")
    if not requirements and not request.pythons:
        todo = "name a version or an environment: ctrace upgrade torch==2.15.0"
        raise TargetError("there is nothing to compare today's environment with", todo)
    if len(request.pythons) > 2:
        raise TargetError("--python was given more than twice", "name one or two environments")


def _kinds() -> list[str]:
    from ctrace.inspector.features.compare.changes import What

    return ["eager", "guard cost", *map(str, What)]


def _models(targets: list[str], request: UpgradeRequest) -> Iterator[Model]:
    """Yield the named models, or all of the policy.

    Raises:
        CtraceError: there is no policy, or a model is wrong.
    """
    if targets:
        for each in targets:
            resolve(each, has_inputs=bool(request.options.inputs))
            yield Model(each, each, request.options)
        return
    require("check", "ctrace upgrade without a model")
    from msgspec.structs import replace

    from ctrace.cli.gate.check_request import CheckRequest, policy_of
    from ctrace.inspector.features.check.jobs import jobs_of
    from ctrace.inspector.features.check.policy_model import CPU

    policy, root = policy_of(CheckRequest(options=request.options, timeout=request.timeout))
    jobs = jobs_of(policy, root)
    # Before anything is installed.
    for _, error in jobs.wrong:
        raise error
    for job in jobs.jobs:
        if job.key.target == CPU:  # other targets of the policy are GPUs that are not there
            # A check stops after Dynamo where it can, and an upgrade may change anything behind it.
            options = replace(job.options, trace_only=False, inductor_guards=True)
            yield Model(str(job.key), job.target, options)


def _environments(
    request: UpgradeRequest, requirements: list[Requirement], shown: "Progress"
) -> tuple[Interpreter, Interpreter]:
    """Return both environments; make the second one after a yes.

    Raises:
        CtraceError: it cannot be made.
    """
    from ctrace.cli.console import can_ask, says_yes

    today = Interpreter(sys.executable)
    maker = EnvironmentMaker(Store().root, builds=request.builds, say=shown.say)
    if request.pythons:
        found = [maker.supported(Path(each), may_install=request.yes) for each in request.pythons]
        if len(found) == 1:
            return (today, found[0])
        return (found[0], found[1])
    # What an earlier call has installed needs no second yes.
    if (made := maker.made(requirements)) is not None:
        return today, made
    if not request.yes and not can_ask():
        raise TargetError("nothing is installed without a yes, and there is no terminal to ask", request.command)
    plan = maker.plan(requirements)
    with shown.stopped():
        for line in plan_lines(plan):
            say(line)
        if not request.yes and not says_yes("ctrace: install it?"):
            raise TargetError("nothing was installed", request.command)
    return today, maker.make(plan)


def plan_lines(plan: UpgradePlan) -> list[str]:
    """Say what a plan fetches, from where, how many bytes and where to."""
    size = "sizes not known" if plan.bytes is None else fmt.memory(plan.bytes)
    names = fmt.listed([f"{each.name} {each.version}" for each in plan.packages], 12)
    return [
        f"ctrace: fetches {fmt.count(len(plan.packages), 'package')} ({size}): {names}",
        f"  from {', '.join(plan.hosts) or 'the index that uv is set to'}, into {plan.folder}",
        "  nothing else is written; ctrace upgrade --clean removes it",
    ]


def _facts(side: EnvironmentRuns) -> EnvironmentFacts:
    found = side.facts()
    if not found.torch:
        raise TargetError(f"the environment {side.name} has no torch", f"{side.interpreter.executable} needs it")
    return found


def _compared(model: Model, both: BothEnvironments) -> UpgradedModel:
    target = resolve(model.target, has_inputs=bool(model.options.inputs))
    # A model that cannot run does not end the comparison of the others.
    try:
        return compared_model(model.name, target, model.options, both)
    except CtraceError as error:
        return UpgradedModel(model.name, error=UpgradeError("before", "target", error.what))


def _changes(before: "Session", after: "Session") -> list[UpgradeChange]:
    """Compare two runs as `ctrace diff` does."""
    from ctrace.inspector.features.compare.compare_runs import compare

    return [
        UpgradeChange(str(each.what), str(each.how), each.where, each.was, each.now, each.detail, each.follows)
        for each in compare(before, after).changes
    ]


def _side(facts: EnvironmentFacts, interpreter: Interpreter) -> UpgradeSide:
    path = interpreter.first[0] if interpreter.first else interpreter.executable
    return UpgradeSide(facts.python, facts.torch, dict(sorted(facts.packages.items())), path)


def _notes(was: EnvironmentFacts, now: EnvironmentFacts, after: Interpreter) -> Iterator[str]:
    import os

    if after.first and was.packages == now.packages:
        yield "today's environment has these versions: nothing was installed"
    for name in ("PYTHONPATH", "PYTHONHOME"):
        if os.environ.get(name):
            yield f"{name} is set here, and was not handed on"
    if was.python.rpartition(".")[0] != now.python.rpartition(".")[0]:
        yield f"Python {was.python}, then {now.python}: packages of one are not tried in the other"


def _judged(document: UpgradeDocument, request: UpgradeRequest) -> UpgradeDocument:
    """Add the kinds of changes for which the command exits with 1."""
    from msgspec.structs import replace

    if request.fail_on is None:
        return document
    changes: Iterable[UpgradeChange] = (each for model in document.models for each in model.changes)
    failed = {
        each.what
        for each in changes
        if (each.worse or request.fail_on == "any") and not {each.what, str(each.reason.kind)} & {*request.allow}
    }
    # What fails before the upgrade, too, is not for the upgrade to answer for.
    broken = {"error" for each in document.models if each.error is not None and each.error.environment == "after"}
    return replace(document, failed_on=tuple(sorted(failed | broken)))


def cleaned(request: UpgradeRequest) -> CleanedEnvironments:
    """Remove the environments that ctrace made here."""
    if request.words or request.pythons:
        raise TargetError("--clean removes all environments, and takes no other word", "ctrace upgrade --clean")
    removed, kept = EnvironmentMaker(Store().root).clean()
    return CleanedEnvironments(tuple(removed), tuple(kept))


def show_cleaned(document: CleanedEnvironments, form: str, output: Path | None) -> None:
    """Show what was removed."""
    from ctrace.cli.show import Format, show_document
    from ctrace.reports.terminal.upgrade_screen import cleaned_screen

    def screen(found: CleanedEnvironments, _width: int) -> Screen:
        return cleaned_screen(found)

    show_document(document, output, json=form == Format.JSON, screen=screen)


def show_upgrade(
    document: UpgradeDocument,
    form: str,
    output: Path | None,
    sarif: Path | None,
    *,
    all_of_it: bool,
    is_said: bool = True,
) -> None:
    """Show the answer as a screen, as JSON or as Markdown, and write SARIF.

    Raises:
        RunError: a file cannot be written.
    """
    from ctrace.cli.console import write_report
    from ctrace.cli.show import Format, show_document

    if sarif is not None:
        from ctrace.reports.upgrade_reports import render_upgrade_sarif

        write_report(render_upgrade_sarif(document), sarif)
    if form == Format.MARKDOWN:
        from ctrace.reports.upgrade_reports import render_upgrade_markdown

        write_report(render_upgrade_markdown(document), output, is_said=is_said)
        return

    def screen(found: UpgradeDocument, width: int) -> Screen:
        from ctrace.reports.terminal.upgrade_screen import upgrade_screen

        return upgrade_screen(found, width, all_of_it=all_of_it)

    show_document(document, output, json=form == Format.JSON, screen=screen, is_said=is_said)
