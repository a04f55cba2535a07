"""`ctrace report`: one HTML file of a run, to open in a browser and to send to a colleague."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli.capturing import Request, on_a_run

if TYPE_CHECKING:
    from ctrace.reports.escape import Document

EXAMPLES = """\b
Examples:
  ctrace report                        write the last run to report.html
  ctrace report before -o before.html  a saved run, by name
  ctrace report model.py --open        run it, and open the page
  ctrace report model.py --target h100 with the code for a GPU
  ctrace report trace.log --force      replace report.html
"""

OutputFile = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Write the page to FILE; - is stdout.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Sass = Annotated[
    bool, typer.Option("--sass", help="Add the SASS of compiled kernels; disassembling takes up to a second for each.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")]


@on_a_run
def report(
    request: Request,
    output: OutputFile = Path("report.html"),
    open_: Open = False,
    force: Force = False,
    sass: Sass = False,
) -> None:
    """Write a run as one HTML file that needs no network."""
    from ctrace.cli.capturing import session_of
    from ctrace.cli.console import check_output, write_report
    from ctrace.cli.show import exit_code
    from ctrace.reports.html.page import render_html

    is_stdout = str(output) == "-"
    check_output(output)
    _check(output, is_stdout=is_stdout, open_=open_, force=force)
    session, is_new = session_of(request)
    page = render_html(session, "" if is_new else request.target or "", sass=sass)
    if is_stdout or force:
        write_report(page, output)
    else:
        _write_new(page, output)
    if open_:
        _open_page(output)
    if is_new:
        raise typer.Exit(exit_code(session))


def _check(output: Path, *, is_stdout: bool, open_: bool, force: bool) -> None:
    """Refuse impossible requests before a long capture.

    Raises:
        TargetError: the file exists, or there is no file to open.
    """
    from ctrace.inspector.errors import TargetError

    if is_stdout and open_:
        raise TargetError("--open needs a file, and -o - writes to stdout", "leave one out")
    if not is_stdout and not force and output.exists():
        raise _exists(output)


def _exists(output: Path) -> Exception:
    from ctrace.inspector.errors import TargetError

    return TargetError(f"{output} exists already", "name another file with -o, or replace it with --force")


def _write_new(page: "Document", output: Path) -> None:
    """Create the file whole or not at all; never replace one.

    Raises:
        CtraceError: it exists, or cannot be written.
    """
    from ctrace.cli.console import say
    from ctrace.inspector.errors import RunError
    from ctrace.inspector.files.disk_errors import reason
    from ctrace.inspector.files.writing import write_new

    try:
        write_new(output, page)
    except FileExistsError:
        raise _exists(output) from None
    except OSError as error:
        raise RunError(f"{output} cannot be written: {reason(error)}", "name another file with -o") from None
    say(f"Wrote {output}")


def _open_page(output: Path) -> None:
    """Open the page; without a browser, print its path."""
    import webbrowser

    from ctrace.cli.console import say

    path = output.resolve()
    try:
        is_open = webbrowser.open(path.as_uri())
    except (webbrowser.Error, OSError):
        is_open = False
    if not is_open:
        say(f"ctrace: no browser was found; open {path} yourself")
