"""The steps of `ctrace fix`: run the target, search for repairs, show them, and write them where the user asks."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ctrace.inspector.errors import CtraceError, Exit, RunError, TargetError, did_you_mean

if TYPE_CHECKING:
    from ctrace.inspector.features.fix.repairs.earlier_proof import EarlierProof
    from ctrace.inspector.features.fix.repairs.fixing import RepairChoice
    from ctrace.inspector.features.fix.repairs.repair_result import Fixes
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.store import Store

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
    fixes = (earlier.find() if request.apply else None) or _searched(request, store, earlier)
    if fixes.interrupted:
        _show(request, fixes)
        return Exit.PROGRAM
    written: tuple[str, ...] = ()
    if request.apply:
        try:
            written = tuple(_apply(request, fixes, store.root))
        except CtraceError:
            _show(request, fixes, applies=False)
            raise
    _show(request, fixes, applies=request.apply)
    for line in written:
        say(line)
    failure = fixes.session.failure
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
    from ctrace.cli.view_run import captured
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
        Runner(resolved, request.options, limit, budget, seed=session.environment.seed) as runner,
    ):
        search = Fixing(session, runner, budget, target=target, choice=request.choice, say=shown.say)
        if request.apply and not request.force:
            refuse_dirty(search.files_to_change())
        fixes = search.run()
        evidence = [Evidence(session, child.observed, (store.root,)), *filter(None, [runner.evidence])]
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
    from ctrace.reports.escape import patch_document

    found = chosen(fixes)
    text = found.patch if found is not None else ""
    if request.output is None or str(request.output) == "-":
        write_report(patch_document(text), None)
        return
    if not text:
        say(f"ctrace: {request.output} not written: no proved repair changes a file")
        return
    try:
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
