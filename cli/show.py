"""Show a Session in the requested format."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar, assert_never

import typer

from ctrace.cli.command_options import Screen
from ctrace.cli.console import check_output, write_report
from ctrace.cli.run_request import Request, run_of, session_of
from ctrace.inspector.errors import Exit, TargetError
from ctrace.inspector.facts.session import Session, Verdict

D = TypeVar("D")


class Format(StrEnum):
    """A format in which to show a Session."""

    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"


def shown_format(*, json: bool, markdown: bool) -> Format:
    """Choose the format.

    Raises:
        TargetError: both are set.
    """
    if json and markdown:
        raise TargetError("--json and --markdown exclude each other", "choose one")
    if json:
        return Format.JSON
    if markdown:
        return Format.MARKDOWN
    return Format.TERMINAL


def show(
    session: Session,
    form: Format,
    output: Path | None,
    run: str | None = "",
    *,
    on_stderr: bool = False,
    verbose: bool = False,
) -> None:
    """Write the report to `output`, to stdout, or (for `run`, whose stdout is the program's) to stderr.

    `run` is what other commands take for the run: nothing for the last one; None: it is not saved.

    Raises:
        RunError: the file cannot be written.
    """
    from ctrace.inspector.diagnosis.explain_document import explain_document

    # The short screen shows nothing of the rest, which takes most of the time.
    document = explain_document(session, whole=verbose or form is not Format.TERMINAL)
    match form:
        case Format.JSON:
            from ctrace.reports.json.printer import render

            write_report(render(document), output)
        case Format.MARKDOWN:
            from ctrace.reports.markdown import render_markdown

            write_report(render_markdown(document), output)
        case Format.TERMINAL:
            from ctrace.reports.terminal.explain_screen import explain_screen

            screen = partial(explain_screen, document, verbose=verbose, run=run)
            show_screen(screen, output, on_stderr=on_stderr)
        case _:
            assert_never(form)


def session_text(session: Session, *, verbose: bool = False) -> str:
    """Return the screen of `ctrace explain` for a Session that is not saved, as plain text: in Python and notebooks."""
    import io

    from rich.console import Console

    from ctrace.cli.console import PLAIN_WIDTH
    from ctrace.inspector.diagnosis.explain_document import explain_document
    from ctrace.reports.terminal.explain_screen import explain_screen
    from ctrace.reports.terminal.widgets import drawn

    # In a notebook, rich would show the text as a result of the cell, and write nothing.
    console = Console(file=io.StringIO(), width=PLAIN_WIDTH, emoji=False, force_jupyter=False, color_system=None)
    document = explain_document(session, whole=verbose)
    text = str(drawn(explain_screen(document, PLAIN_WIDTH, verbose=verbose, run=None), console)).rstrip("\n")
    # Parts of the screen that leave something out name the command that shows it.
    if "see ctrace " in text:
        return f"{text}\n{_COMMANDS_NEED_A_RUN}"
    return text


_COMMANDS_NEED_A_RUN = "Commands show saved runs: put the model in a file, and run ctrace explain FILE first."


def show_screen(
    screen: Callable[[int], Screen], output: Path | None, *, on_stderr: bool = False, is_said: bool = True
) -> None:
    """Print a screen, made for a width, on a console or into a file.

    Raises:
        RunError: the file cannot be written.
    """
    from ctrace.cli.console import PLAIN_WIDTH, console
    from ctrace.reports.terminal.widgets import drawn, render

    if output is None or str(output) == "-":
        # `-o -` asks for stdout in any case.
        shown = console(stderr=on_stderr and output is None)
        render(screen(shown.width), shown)
        return
    import io

    from rich.console import Console

    text = drawn(screen(PLAIN_WIDTH), Console(file=io.StringIO(), width=PLAIN_WIDTH, emoji=False))
    write_report(text, output, is_said=is_said)


def show_answer(
    request: Request,
    output: Path | None,
    *,
    json: bool,
    document: Callable[[Session], D],
    screen: Callable[[D, int], Screen],
    has_advice: bool = False,
    is_led: bool = True,
    complete: Callable[[Session], Session] = lambda session: session,
) -> None:
    """Read or capture the selected run, and show a view's Document of it as JSON or, below the verdict, as a screen.

    A new run sets the exit code. A screen that `is_led` has the verdict above it whether or not the run is incomplete.
    If the view `has_advice`, a new run checks it, so that it is what `ctrace explain` says. `complete` adds to a
    Session what only this view needs.

    Raises:
        CtraceError: the command line, the target or the run is wrong, or the file cannot be written.
    """
    check_output(output)
    session, is_new = session_of(request, check_advice=has_advice)
    session = complete(session)
    # A new run is the last one, which other commands read without a name.
    run = "" if is_new else run_of(request)

    def below_verdict(answer: D, width: int) -> Screen:
        from ctrace.inspector.session.summary import run_answer
        from ctrace.reports.terminal.widgets import compile_only_note, led, led_by_verdict, of_other_run

        yield from compile_only_note(session.compile_time.use)
        lead = led if is_led else led_by_verdict
        shown = lead(run_answer(session), screen(answer, width))
        yield from of_other_run(run, shown) if run else shown

    show_document(document(session), output, json=json, screen=below_verdict)
    if is_new:
        raise typer.Exit(exit_code(session))


def show_document(
    document: D, output: Path | None, *, json: bool, screen: Callable[[D, int], Screen], is_said: bool = True
) -> None:
    """Print a Document as JSON or as a screen, which know nothing else.

    Raises:
        RunError: the file cannot be written.
    """
    if json:
        from ctrace.reports.json.printer import render

        write_report(render(document), output, is_said=is_said)
    else:
        show_screen(lambda width: screen(document, width), output, is_said=is_said)


def exit_code(session: Session) -> Exit:
    """Return the exit code of a command that ran the user's program."""
    is_incomplete = session.verdict is Verdict.INCOMPLETE
    if session.failure is not None or is_incomplete:
        return Exit.PROGRAM
    return Exit.DONE
