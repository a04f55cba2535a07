"""`ctrace fix`: find repairs, prove each in a copy, and apply those that the user wants.

The steps (`fixed`): run the target, search for repairs, show them, and write them where the user asks.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from ctrace.cli import command_options as opt
from ctrace.inspector.errors import CtraceError, Exit, RunError, TargetError, did_you_mean

if TYPE_CHECKING:
    from ctrace.inspector.features.fix.repairs.earlier_proof import EarlierProof
    from ctrace.inspector.features.fix.repairs.fixing import RepairChoice
    from ctrace.inspector.features.fix.repairs.repair_result import Fixes
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.store import Store

EXAMPLES = """\b
Examples:
  ctrace fix model.py                    try repairs, prove them, change nothing
  ctrace fix model.py --diff             print the patch of all proved repairs
  ctrace fix model.py -o fix.patch       write it to a file
  ctrace fix model.py --apply            change the files
  ctrace fix --undo                      take the last change back
  ctrace fix model.py --only tensor_branch --finding model.py:26
  ctrace fix model.py --accept output_guard   answer yes to its question
  ctrace fix model.py --budget 120s --json
"""

Target = Annotated[
    str | None, typer.Argument(help="A file, file.py:name or pkg.mod:name: a model, or a program that compiles one.")
]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")]
Apply = Annotated[bool, typer.Option("--apply", help="Write the proved repairs into the files.")]
Undo = Annotated[bool, typer.Option("--undo", help="Undo the last --apply.")]
Force = Annotated[bool, typer.Option("--force", help="With --apply, also change files that are not committed to git.")]
Diff = Annotated[bool, typer.Option("--diff", help="Print the patch of the proved repairs, nothing else.")]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Try only this repair; repeatable.")]
FindingName = Annotated[
    str | None, typer.Option("--finding", metavar="ID", help="Repair only this finding: its id, or file.py:12.")
]
Accept = Annotated[
    list[str] | None,
    typer.Option("--accept", metavar="NAME", help="Answer yes to this repair's question; repeatable."),
]
Inference = Annotated[
    bool, typer.Option("--inference", help="Prove repairs for calls without gradients: do not compare gradients.")
]
BudgetText = Annotated[
    str | None, typer.Option("--budget", metavar="TIME", help="Stop after this time, such as 120s or 5m.")
]
FailOnUnfixed = Annotated[bool, typer.Option("--fail-on-unfixed", help="Exit 1 if a finding has no proved repair.")]
Report = Annotated[
    bool, typer.Option("--report", help="Print the text of an issue for findings in packages that you do not own.")
]
NoBuild = Annotated[bool, typer.Option("--no-build", help="Build no kernels for the last proof.")]
OutputFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the patch, or with --json the report, to FILE."),
]


def fix(
    target: Target = None,
    args: Arguments = None,
    apply: Apply = False,
    undo: Undo = False,
    force: Force = False,
    diff: Diff = False,
    only: Only = None,
    finding: FindingName = None,
    accept: Accept = None,
    inference: Inference = False,
    budget: BudgetText = None,
    report: Report = False,
    fail_on_unfixed: FailOnUnfixed = False,
    no_build: NoBuild = False,
    json: opt.Json = False,
    output: OutputFile = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    provoke: opt.Provoke = False,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    timeout: opt.Timeout = None,
    fake: opt.NoFake = False,
) -> None:
    """Try repairs of a model's findings in a copy, and offer those that are proved.

    A program runs whole for each try.
    """
    opt.refuse_fake("fix", "a repair is proved by comparing values", fake=fake)
    from ctrace.cli.command_options import seconds_of
    from ctrace.cli.console import check_output
    from ctrace.inspector.features.fix.repairs.fixing import RepairChoice
    from ctrace.inspector.runs.capture_request import Options

    if undo:
        undone(target)
        return
    check_output(output)
    options = Options(tuple(inputs or ()), tuple(vary or ()), provoke, train, mode, dynamic)
    # The screen names repairs that are tried together `a+b`, which may be copied from there.
    names, accepted = (tuple(name for each in words or () for name in each.split("+")) for words in (only, accept))
    choice = RepairChoice(names, finding or "", accepted, inference, build=not no_build)
    request = FixRequest(
        target=target,
        args=tuple(args or ()),
        options=options,
        choice=choice,
        budget=seconds_of(budget),
        timeout=timeout,
        apply=apply,
        force=force,
        diff=diff,
        json=json,
        report=report,
        output=output,
        fail_on_unfixed=fail_on_unfixed,
    )
    refuse(request)
    raise typer.Exit(fixed(request))


# Chosen: a try runs the model as the first capture did, and a machine may be a few times as busy; at least a minute,
# since a capture of a second says little about the next one.
_TIMES_AS_LONG = 5.0
_LEAST_LIMIT = 60.0


class FixRequest(Struct, frozen=True):
    """A command line of `ctrace fix`."""

    target: str | None
    args: tuple[str, ...]
    options: "Options"
    choice: "RepairChoice"
    budget: float | None = None
    timeout: float | None = None
    apply: bool = False
    force: bool = False
    diff: bool = False
    json: bool = False
    report: bool = False
    output: Path | None = None
    fail_on_unfixed: bool = False


def refuse(request: FixRequest) -> None:
    """Refuse options that do not fit together, and names that do not exist.

    Raises:
        TargetError: one does not fit.
    """
    from ctrace.inspector.diagnosis.rules import RULES
    from ctrace.inspector.features.fix.repairs.configuration import all_settings
    from ctrace.inspector.features.fix.repairs.fixing import MONKEYPATCH
    from ctrace.inspector.features.fix.repairs.source import all_repairs

    if request.target is None:
        raise TargetError("ctrace fix needs a target: it runs the model again", "name one: ctrace fix model.py")
    forms = [
        name
        for name, is_set in (("--json", request.json), ("--diff", request.diff), ("--report", request.report))
        if is_set
    ]
    if len(forms) > 1:
        raise TargetError(f"{' and '.join(forms)} exclude each other", "choose one")
    known = sorted(
        {
            *(each.name for each in all_repairs()),
            *(each.name for each in all_settings()),
            *(rule.__name__ for rule in RULES),
            MONKEYPATCH,
        }
    )
    for option, names in (("--only", request.choice.names), ("--accept", request.choice.accepted)):
        for name in names:
            if name not in known:
                todo = did_you_mean(name, known, f"there are: {', '.join(known[:12])} ...")
                raise TargetError(f"{option} {name}: there is no such repair", todo)


def fixed(request: FixRequest) -> Exit:
    """Run the target, search for repairs, and show or write them; return the exit code.

    Raises:
        CtraceError: the command line or the target is wrong, or a file cannot be written.
    """
    from ctrace.cli.console import say
    from ctrace.cli.show import exit_code
    from ctrace.inspector.facts.outcome import FailurePhase
    from ctrace.inspector.features.fix.repairs.earlier_proof import EarlierProof
    from ctrace.inspector.runs.store import Store

    store = Store()
    proved_for = [request.args, request.choice, request.budget, request.timeout]
    earlier = EarlierProof(store.root, str(request.target), request.options, proved_for)
    # Without --apply, the user asks what there is now.
    fixes = (earlier.find() if request.apply else None) or _searched(request, store, earlier)
    if fixes.interrupted:
        _show(request, fixes)
        return Exit.PROGRAM
    written: tuple[str, ...] = ()
    if request.apply:
        try:
            # A generator: the files are written here, and what it says comes below the screen.
            written = tuple(_apply(request, fixes, store.root))
        except CtraceError:
            # The proof took minutes, and is worth a look even if nothing can be written.
            _show(request, fixes, applies=False)
            raise
    _show(request, fixes, applies=request.apply)
    for line in written:
        say(line)
    failure = fixes.session.failure
    # A run that the budget cut off is no failure of the program.
    if failure is not None and not (fixes.budget_spent and failure.phase is FailurePhase.TIMEOUT):
        return exit_code(fixes.session)
    unfixed = [each for each in fixes.findings if not each.expected and not fixes.is_fixed(each.id)]
    if request.fail_on_unfixed and unfixed:
        return Exit.WORSE
    return Exit.DONE


def _options_of(request: FixRequest) -> str:
    """Return the options that decide what is repaired, as words of a command line."""
    from ctrace.cli.command_options import words_of

    choice = request.choice
    words = words_of(request.options)
    words += [word for name in choice.names for word in ("--only", name)]
    words += ["--finding", choice.finding] if choice.finding else []
    words += [word for name in choice.accepted for word in ("--accept", name)]
    words += ["--inference"] if choice.inference else []
    return shlex.join(words)


def _searched(request: FixRequest, store: "Store", earlier: "EarlierProof") -> "Fixes":
    """Run the target and search for repairs; keep what is proved for a later `--apply`."""
    from ctrace.cli.console import say
    from ctrace.cli.progress import progress
    from ctrace.cli.run_request import captured
    from ctrace.inspector.diagnosis.root_causes import root_causes
    from ctrace.inspector.facts.outcome import FailurePhase
    from ctrace.inspector.features.fix.repairs.applying import refuse_dirty
    from ctrace.inspector.features.fix.repairs.fixing import Fixing
    from ctrace.inspector.features.fix.repairs.repair_result import Fixes
    from ctrace.inspector.features.fix.repairs.trial_runs import Evidence, Runner, SearchBudget
    from ctrace.inspector.runs.child import ChildProcess
    from ctrace.inspector.runs.target import resolve

    budget = SearchBudget(request.budget)
    resolved = resolve(str(request.target), request.args, has_inputs=bool(request.options.inputs))
    # A proof that is kept holds as long as the files are the same that this run has read.
    child = ChildProcess(has_terminal=True, records_files=True)
    session = captured(resolved, request.options, budget.within(request.timeout), store, child=child)
    if session.failure is not None and session.failure.phase is FailurePhase.INTERRUPT:
        return Fixes(session, (), interrupted=True)
    if budget.is_spent:
        return Fixes(session, root_causes(session), budget=request.budget, budget_spent=True)
    limit = max(_LEAST_LIMIT, _TIMES_AS_LONG * (session.time.total or 0.0))
    target = str(resolved.path.resolve()) if resolved.path is not None else None
    with (
        progress(is_program=False) as shown,
        # With the run's seed, so that equal programs draw equal numbers.
        Runner(resolved, request.options, limit, budget, seed=session.environment.seed) as runner,
    ):
        search = Fixing(session, runner, budget, target=target, choice=request.choice, say=shown.say)
        if request.apply and not request.force:
            # Before the search, which may take minutes.
            refuse_dirty(search.files_to_change())
        fixes = search.run()
        evidence = [Evidence(session, child.observed, (store.root,)), *filter(None, [runner.evidence])]
    # What is applied changes the files that a proof is kept for.
    why = "" if request.apply else earlier.keep(fixes, evidence)
    if why:
        say(f"ctrace: --apply will prove it again: {why}")
    return fixes


def _show(request: FixRequest, fixes: "Fixes", *, applies: bool = False) -> None:
    """Show what was found; `applies` says that the files are written."""
    from ctrace.cli.console import write_report
    from ctrace.cli.show import show_screen

    if request.json:
        from ctrace.reports.json.printer import render

        write_report(render(fixes), request.output)
        return
    if request.output is not None or request.diff:
        _show_patch(request, fixes)
        # -o alone writes the patch beside the screen.
        if request.diff:
            return
    if request.report:
        _show_issues(request, fixes)
        return
    from ctrace.reports.terminal.fix_screen import fix_screen

    show_screen(
        lambda width: fix_screen(
            fixes, width, target=str(request.target), options=_options_of(request), applies=applies
        ),
        None,
    )


def _show_issues(request: FixRequest, fixes: "Fixes") -> None:
    """Write issues for the authors of packages, with the reproducers that `ctrace repro` has made."""
    from ctrace.cli.console import say, write_report
    from ctrace.inspector.features.fix.reduction.saved_reproducers import saved
    from ctrace.inspector.runs.store import Store
    from ctrace.reports.reproducer import library_findings, render_issues

    ids = [each.id for each in library_findings(fixes)]
    reproducers = saved(Store().root, ids)
    write_report(render_issues(fixes, reproducers), None)
    for each in ids:
        if each not in reproducers:
            say(f"ctrace: for a program that shows it: ctrace repro {request.target} {each}")


def _show_patch(request: FixRequest, fixes: "Fixes") -> None:
    """Write the patch to the user's file exactly, or to stdout with hidden letters escaped.

    Raises:
        RunError: the file cannot be written.
    """
    from ctrace.cli.console import say, write_report
    from ctrace.inspector.features.fix.repairs.repair_result import chosen
    from ctrace.inspector.files.disk_errors import reason
    from ctrace.inspector.files.writing import write_output
    from ctrace.reports.escape import patch_text

    found = chosen(fixes)
    text = found.patch if found is not None else ""
    if request.output is None or str(request.output) == "-":
        write_report(patch_text(text), None)
        return
    if not text:
        say(f"ctrace: {request.output} not written: no proved repair changes a file")
        return
    try:
        # Without escapes, with which the patch would not apply.
        write_output(request.output, text)
    except OSError as error:
        raise RunError(f"{request.output} cannot be written: {reason(error)}", "name another file with -o") from None
    say(f"Wrote {request.output}")


def _apply(request: FixRequest, fixes: "Fixes", root: Path) -> Iterator[str]:
    """Write the proved repairs, and yield what was done.

    Raises:
        CtraceError: a file has uncommitted changes, has changed since the proof, or cannot be written.
    """
    from ctrace.inspector.features.fix.repairs.applying import apply, refuse_dirty
    from ctrace.inspector.features.fix.repairs.repair_result import base_of, chosen

    combined = chosen(fixes)
    if combined is None or not combined.files:
        yield "ctrace: nothing to apply: no proved repair changes a file"
        return
    # An earlier proof comes without the search, which asks this at its beginning.
    if not request.force:
        refuse_dirty(each.file for each in combined.files)
    cwd = str(fixes.session.environment.cwd or Path.cwd())
    names = [each.name for each in combined.steps]
    patch = apply(root, names, base_of(fixes), combined.files, cwd)
    yield from (f"Changed {os.path.relpath(each.file)}" for each in combined.files)
    yield from (f"Not written, because no file holds it: {how}" for how in combined.how)
    yield f"Reverse patch: {os.path.relpath(patch)}. To take it back: ctrace fix --undo"


def undone(target: str | None) -> None:
    """Take the last applied repair back.

    Raises:
        CtraceError: there is none, or a file has changed since.
    """
    from ctrace.cli.console import say
    from ctrace.inspector.features.fix.repairs.applying import undo
    from ctrace.inspector.runs.store import Store

    if target is not None:
        raise TargetError("--undo takes no target", "it takes back the last applied repair: ctrace fix --undo")
    applied = undo(Store().root)
    for each in applied.files:
        say(f"Restored {os.path.relpath(each.file)}")
