"""`ctrace repro`: cut a model to the least code that still shows a finding.

The steps (`reproduced`): find the run and the finding, reduce, and write the result.
"""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from ctrace.cli import command_options as opt
from ctrace.cli.streams import EndedBySignal
from ctrace.inspector.errors import CtraceError, Exit, RunError, TargetError

if TYPE_CHECKING:
    from ctrace.inspector.facts.accuracy_facts import Accuracy
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.features.accuracy.accuracy_request import Drafts
    from ctrace.inspector.features.fix.reduction.saved_reproducers import Reproducer
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.target import Resolved

EXAMPLES = """\b
Examples:
  ctrace repro                           reproduce the first finding of the last run
  ctrace repro model.py:26               reproduce the finding at that line
  ctrace repro model.py -o repro.py      run the model first, and write the program to a file
  ctrace repro model.py b3f21a --issue   print the text of an issue
  ctrace repro model.py --culprit        the kernel that ctrace accuracy names
  ctrace repro --budget 5m
"""

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[TARGET]",
        help="A file, file.py:name or pkg.mod:name, or a finding of the last run: its id, or file.py:12.",
    ),
]
Site = Annotated[
    str | None,
    typer.Argument(metavar="[SITE]", help="A finding of the target: its id in ctrace explain, or file.py:12."),
]
BudgetText = Annotated[
    str, typer.Option("--budget", metavar="TIME", help="Stop after this time, such as 60s or 5m, with the best so far.")
]
Issue = Annotated[bool, typer.Option("--issue", help="Print an issue as Markdown: program, output and versions.")]
Culprit = Annotated[
    bool,
    typer.Option(
        "--culprit",
        help="Reproduce the kernel that ctrace accuracy names: by default the worst, or the one at SITE.",
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the program, the issue or the report to FILE."),
]


def repro(
    target: Target = None,
    site: Site = None,
    culprit: Culprit = False,
    budget: BudgetText = "60s",
    issue: Issue = False,
    json: opt.Json = False,
    output: OutputFile = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    provoke: opt.Provoke = False,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    timeout: opt.Timeout = None,
) -> None:
    """Cut a model to the least code that still shows a finding, as a program without ctrace.

    Each step of the reduction is tried, and keeps the finding at its line. The result goes to stdout.
    """
    from ctrace.cli.command_options import seconds_of
    from ctrace.cli.console import check_output
    from ctrace.inspector.runs.capture_request import Options

    check_output(output)
    options = Options(tuple(inputs or ()), tuple(vary or ()), provoke, train, mode, dynamic)
    request = ReproRequest(
        target=target,
        site=site,
        options=options,
        budget=seconds_of(budget),
        timeout=timeout,
        issue=issue,
        json=json,
        output=output,
        culprit=culprit,
    )
    raise typer.Exit(reproduced(request))


_SITE = re.compile(r"(?P<file>.+\.py):(?P<line>\d+)")


class ReproRequest(Struct, frozen=True):
    """A command line of `ctrace repro`."""

    target: str | None
    site: str | None
    options: "Options"
    budget: float | None = None
    timeout: float | None = None
    issue: bool = False
    json: bool = False
    output: Path | None = None
    culprit: bool = False


def reproduced(request: ReproRequest) -> Exit:
    """Make a reproducer, and show or write it; return the exit code.

    Raises:
        CtraceError: the command line or the target is wrong, or nothing shows the finding.
    """
    from ctrace.cli.console import say
    from ctrace.cli.progress import progress
    from ctrace.inspector.diagnosis.root_causes import root_causes
    from ctrace.inspector.facts.outcome import FailurePhase
    from ctrace.inspector.features.fix.reduction.finding import at_the_same_line, chosen, sought
    from ctrace.inspector.features.fix.reduction.reproducing import Reproduction
    from ctrace.inspector.features.fix.repairs.trial_runs import SearchBudget
    from ctrace.reports.format import one_line

    if request.issue and request.json:
        raise TargetError("--issue and --json exclude each other", "choose one")
    if request.culprit:
        return _of_culprit(request)
    session, resolved, options, site = _found(request)
    failure = session.failure
    if failure is not None and (failure.is_cut or failure.phase in (FailurePhase.LOAD, FailurePhase.EAGER)):
        text = one_line(f"{failure.type}: {failure.message}", 200)
        say(f"ctrace: nothing to reproduce: the target itself failed: {text}")
        return Exit.PROGRAM
    causes = root_causes(session)
    cause = chosen(causes, site)
    # A line may have several findings, an id is that of one.
    if site is not None and site != cause.id and (others := at_the_same_line(cause, causes)):
        named = ", ".join(each.id for each in others)
        say(f"ctrace: {one_line(site, 100)} has {len(others) + 1} findings; this is {cause.id}, name another: {named}")
    with progress(is_program=False) as shown, _interruptible():
        search = Reproduction(
            session, sought(cause, session), resolved, options, SearchBudget(request.budget), say=shown.say
        )
        made = search.run()
    _save(made)
    _show(request, made)
    if made.interrupted:
        return Exit.PROGRAM
    if made.verified:
        return Exit.DONE
    return Exit.UNTRUSTED


_WRONG = "the compiled result is wrong"
"""The message of the assertion in the program of a wrong kernel."""
_LEAST_SECONDS = 240.0
"""A fresh process may take this long: it imports torch, and compiles."""


def _of_culprit(request: ReproRequest) -> Exit:
    """Write the kernel that `ctrace accuracy` calls wrong as a program, and try each form until one shows it.

    Raises:
        CtraceError: the target cannot be compared, or no kernel of it is wrong.
    """
    from ctrace.cli.console import say
    from ctrace.cli.progress import progress
    from ctrace.inspector.features.doors import require

    require("accuracy", "--culprit")
    from ctrace.inspector.features.accuracy.numeric_comparison import drafted
    from ctrace.reports.format import one_line

    began = time.monotonic()
    resolved, options, site = _target_of_culprit(request)
    with progress(is_program=False) as shown:
        shown.say("comparing kernels")
        found = drafted(resolved, options, site, request.timeout, lambda: shown.observe(None))
        if found.culprit is None:
            raise _no_kernel(found.accuracy, site)
        if found.no_program:
            what = f"{found.culprit.reason or found.culprit.name}: {found.no_program}"
            raise TargetError(what, found.culprit.remedy or "change it where ctrace accuracy says")
        if not found.drafts:
            what = f"{found.culprit.name}: its operations cannot be written as a program of plain PyTorch"
            raise TargetError(what, "report it with the text of ctrace accuracy")
        seconds = _LEAST_SECONDS if request.budget is None else max(request.budget, _LEAST_SECONDS)
        made = _first_shown(found, began, seconds, shown.say)
    _save(made)
    _show(request, made)
    if not made.verified:
        # A traceback ends with the error.
        last = made.output.strip().rpartition("\n")[2]
        say(f"ctrace: the last form wrote: {one_line(last, 200)}" if last else "ctrace: the last form ran out of time")
    if made.verified:
        return Exit.DONE
    return Exit.UNTRUSTED


def _target_of_culprit(request: ReproRequest) -> "tuple[Resolved, Options, str]":
    """Return what to compare: the target, or that of the last run; and the site."""
    from ctrace.inspector.runs.rerun import refuse_foreign, request_of, resolved_of
    from ctrace.inspector.runs.store import Store
    from ctrace.inspector.runs.target import resolve

    target, site = request.target, request.site or ""
    match = _SITE.fullmatch(target or "")
    # `model.py:26` is a target and a site in one.
    if match is not None and not site:
        target, site = match["file"], f"{Path(match['file']).name}:{match['line']}"
    if target is not None:
        return resolve(target, (), has_inputs=bool(request.options.inputs)), request.options, site
    run = Store().load()
    saved = request_of(run)
    refuse_foreign(run, saved, "")
    return resolved_of(saved), saved.options, site


def _no_kernel(found: "Accuracy", site: str) -> TargetError:
    others = [f"{Path(each.file or '').name}:{each.line}" for each in found.culprits if each.line is not None]
    if site and others:
        return TargetError(f"{site}: no kernel is wrong there", f"there are: {', '.join(dict.fromkeys(others))}")
    if found.culprits:
        what = f"what is wrong is no kernel: {found.culprits[0].name}"
        return TargetError(what, "report it with the text of ctrace accuracy")
    why = f": {found.not_compared[0].why}" if found.equal is None and found.not_compared else ""
    return TargetError(f"no kernel is wrong{why}", "ctrace accuracy shows what was compared")


def _first_shown(found: "Drafts", began: float, seconds: float, say: "Callable[[str], None]") -> "Reproducer":
    """Run the programs one after the other, each in a fresh process, until one shows the culprit."""
    from ctrace.inspector.facts.diagnosis import Finding
    from ctrace.inspector.facts.session import Environment
    from ctrace.inspector.features.fix.reduction.finding import Sought, shape_of
    from ctrace.inspector.features.fix.reduction.reproducing import verified
    from ctrace.inspector.features.fix.reduction.saved_reproducers import Reproducer, written
    from ctrace.inspector.findings.culprits import culprit_sentence

    culprit = found.culprit
    assert culprit is not None
    sought = Sought(
        id=f"culprit-{culprit.name}"[:_LONGEST_ID],
        what=Finding.DANGER,
        words=f"the wrong result of {', '.join(culprit.ops[:_MOST_OPS])}",
        ids=("AssertionError",),
        shape=shape_of(_WRONG),
        file=culprit.file or "",
        line=culprit.line or 0,
        function=culprit.function or "",
        title=culprit_sentence(culprit),
    )
    environment = Environment(torch=found.torch, python=found.python, device=found.accuracy.device)
    made = None
    for number, draft in enumerate(found.drafts, 1):
        say(f"running {draft.what}")
        text, _ = written(draft.text, (), sought, environment)
        ran = verified(text, sought, (), seconds)
        made = Reproducer(
            sought=sought,
            text=text,
            line=None,
            form="an assertion compares with eager and float64",
            start=draft.what,
            environment=environment,
            lines=_lines_of(text),
            lines_before=_lines_of(found.drafts[-1].text),
            tries=number,
            seconds=time.monotonic() - began,
            verified=ran.shows,
            output=ran.output,
            is_complete=True,
        )
        if ran.shows:
            break
    assert made is not None
    return made


def _lines_of(text: str) -> int:
    return sum(bool(each.strip()) for each in text.splitlines())


# Chosen, as is the next one: they name the result in one line, and a fused kernel may have dozens of ops.
_MOST_OPS = 4
_LONGEST_ID = 100


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a reduction with the best so far; elsewhere, it ends the command."""
    before = signal.getsignal(signal.SIGINT)
    # nohup ignores it, and None is a handler not set by Python, which cannot be restored.
    if before in (signal.SIG_IGN, None):
        yield
        return
    # The command's own handler raises EndedBySignal, for which the reduction would end without its best so far.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise EndedBySignal(signal.SIGINT) from None
    finally:
        signal.signal(signal.SIGINT, before)


def _found(request: ReproRequest) -> "tuple[Session, Resolved, Options, str | None]":
    """Return the run, how to run its target again, and the site: of the last run, or of a target that runs now."""
    if request.site is None:
        last = _of_last_run(request.target, has_options=request.options != type(request.options)())
        if last is not None:
            return *last, request.target
    target, site = str(request.target), request.site
    match = _SITE.fullmatch(target)
    if site is None and match is not None and Path(match["file"]).is_file():
        target, site = match["file"], f"{Path(match['file']).name}:{match['line']}"
    session, resolved = _captured(request, target)
    return session, resolved, request.options, site


def _captured(request: ReproRequest, target: str) -> "tuple[Session, Resolved]":
    from ctrace.cli.run_request import captured
    from ctrace.inspector.runs.store import Store
    from ctrace.inspector.runs.target import resolve

    resolved = resolve(target, (), has_inputs=bool(request.options.inputs))
    return captured(resolved, request.options, request.timeout, Store()), resolved


def _of_last_run(site: str | None, *, has_options: bool) -> "tuple[Session, Resolved, Options] | None":
    """Return the last run if it has the site; None: the text names something else.

    Raises:
        CtraceError: the last run is meant, and there is none, it has no such finding, or it cannot be run again.
    """
    from ctrace.inspector.diagnosis.root_causes import root_causes
    from ctrace.inspector.features.fix.reduction.finding import chosen
    from ctrace.inspector.runs.load import load
    from ctrace.inspector.runs.rerun import refuse_foreign, request_of, resolved_of
    from ctrace.inspector.runs.store import Store

    is_meant = site is None or _is_id(site)
    if has_options and is_meant:
        raise TargetError("options such as --input need a target", "name it: ctrace repro model.py")
    try:
        run = Store().load()
        session = load(run)
        cause = chosen(root_causes(session), site)
    except CtraceError:
        # The text can mean nothing else, so what is wrong with the last run is the error.
        if is_meant:
            raise
        return None
    # The text may be a place of the last run, or a target: other options or another file make it a target.
    if not is_meant and (has_options or _has_changed(cause.file, session)):
        return None
    if _has_changed(cause.file, session):
        raise RunError(f"{cause.file} has changed since the last run", "name the target: ctrace repro model.py")
    try:
        request = request_of(run)
        refuse_foreign(run, request, "")
    except RunError as error:
        raise RunError(error.what, "name the target: ctrace repro model.py") from None
    return session, resolved_of(request), request.options


def _has_changed(file: str | None, session: "Session") -> bool:
    """Whether a file differs from the text that ran; False: that text is not known."""
    text = session.listings.get(file or "")
    if text is None:
        return False
    try:
        return Path(str(file)).read_text(encoding="utf-8") != text
    except (OSError, UnicodeDecodeError):
        return True


def _is_id(text: str) -> bool:
    """Whether a text looks like a finding's id, not like a file or module."""
    return not Path(text).exists() and not any(letter in text for letter in ":./")


def _save(made: "Reproducer") -> None:
    """Keep the program for `ctrace fix --report`; that it cannot be kept is no reason to fail."""
    from ctrace.cli.console import say
    from ctrace.inspector.features.fix.reduction.saved_reproducers import save
    from ctrace.inspector.files.disk_errors import reason
    from ctrace.inspector.runs.store import Store

    try:
        save(Store().root, made)
    except OSError as error:
        say(f"ctrace: the program is not kept for ctrace fix --report: {reason(error)}")


def _show(request: ReproRequest, made: "Reproducer") -> None:
    from ctrace.cli.console import say, write_report
    from ctrace.reports.reproducer import claim, render_issue, render_program

    if request.json:
        from ctrace.reports.json.printer import render

        write_report(render(made), request.output)
        return
    write_report(render_issue(made) if request.issue else render_program(made), request.output)
    # On stderr, since stdout has the program.
    say(f"ctrace: {claim(made)}")
