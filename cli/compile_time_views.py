"""What `ctrace time --compile` does between the command line and the report."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ctrace.cli.command_options import Screen
from ctrace.cli.run_request import Request
from ctrace.inspector.errors import CtraceError, RunError, TargetError

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session


def check_together(measuring: Mapping[str, object], showing: Mapping[str, object], *, compile_: bool) -> None:
    """Refuse options of measuring with --compile, and options of --compile without it.

    Raises:
        TargetError: two options exclude each other, or one needs --compile.
    """
    if compile_ and (wrong := next((name for name, value in measuring.items() if value), None)):
        todo = f"remove one: {wrong} is about calls, --compile about compiling"
        raise TargetError(f"--compile and {wrong} exclude each other", todo)
    if not compile_ and (lonely := next((name for name, value in showing.items() if value), None)):
        raise TargetError(f"{lonely} needs --compile", "add --compile")


def show_compile_time(
    request: Request, output: Path | None, perfetto: Path | None, *, json: bool, all_of_it: bool
) -> None:
    """Read or capture the selected run, and show where its compile time goes; a new run sets the exit code.

    Raises:
        CtraceError: the command line, the target or the run is wrong, or a file cannot be written.
    """
    from ctrace.cli.console import check_output
    from ctrace.cli.run_request import session_of
    from ctrace.cli.show import exit_code, show_document
    from ctrace.inspector.findings.compile_time_view import CompileDocument, compile_document

    check_output(output)
    # Before a long capture, as for the report.
    if perfetto is not None:
        naming_perfetto(lambda: check_output(perfetto))
    session, is_new = session_of(request)
    # A saved run has looked up the caches that it was captured with.
    if request.options["caches"] == "user" and not is_new:
        raise TargetError("--user-caches needs a new run, but this command reads a saved one", "name a model file")
    if perfetto is not None:
        _write_trace(session, perfetto)

    def screen(document: CompileDocument, width: int) -> Screen:
        from ctrace.inspector.session.summary import run_answer
        from ctrace.reports.terminal.compile_time_screen import compile_time_screen
        from ctrace.reports.terminal.widgets import led_by_verdict

        return led_by_verdict(run_answer(session), compile_time_screen(document, width, all_of_it=all_of_it))

    show_document(compile_document(session), output, json=json, screen=screen)
    if is_new:
        raise typer.Exit(exit_code(session))


def _write_trace(session: "Session", perfetto: Path) -> None:
    """Write the trace.

    Raises:
        RunError: the run has no steps, or the file cannot be written.
    """
    from ctrace.cli.console import write_report
    from ctrace.inspector.findings.compile_time_view import seconds
    from ctrace.reports.perfetto import render_perfetto

    if seconds(session.compile_time) is None:
        what = f"no trace for {perfetto}: nothing was compiled in this run, or its log has no times"
        raise RunError(what, "compile something: ctrace time --compile model.py")
    naming_perfetto(lambda: write_report(render_perfetto(session), perfetto))


def naming_perfetto(action: Callable[[], None]) -> None:
    """Add the name of the option to errors about its file."""
    try:
        action()
    except CtraceError as error:
        # Of the same type, which decides the exit code.
        raise type(error)(error.what, "name another file with --perfetto") from None
