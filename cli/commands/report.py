"""`ctrace report`: one HTML file of a run, to open in a browser and to send to a colleague."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli.run_request import FollowedMemory, Request, on_a_run

if TYPE_CHECKING:
    from ctrace.inspector.errors import Exit
    from ctrace.reports.escape import SafeText

EXAMPLES = """\b
Examples:
  ctrace report                        write the last run to report.html
  ctrace report before -o before.html  a saved run, by name
  ctrace report model.py --open        run it, and open the page
  ctrace report model.py --target h100 with the code for a GPU
  ctrace report model.py --accuracy    with a page of its numbers
  ctrace report model.py --memory      with a page of its memory
  ctrace report before after           what changed between two runs
  ctrace report logs/ --ranks          all ranks of a job
  ctrace report trace.log --force      replace report.html
"""

OutputFile = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Write the page to FILE; - is stdout.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Sass = Annotated[
    bool, typer.Option("--sass", help="Add the SASS of compiled kernels; disassembling takes up to a second for each.")
]
Ranks = Annotated[bool, typer.Option("--ranks", help="Compare the logs of all ranks in a folder.")]
Accuracy = Annotated[
    bool, typer.Option("--accuracy", help="Also compare each kernel of a new run with eager and float64.")
]
Memory = Annotated[
    bool, typer.Option("--memory", help="Also follow the memory of a step of a new run, as ctrace memory does.")
]
Try = Annotated[bool, typer.Option("--try", help="With --memory, also try what may lower the peak.")]
Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")]


@on_a_run
def report(
    request: Request,
    output: OutputFile = Path("report.html"),
    open_: Open = False,
    force: Force = False,
    sass: Sass = False,
    ranks: Ranks = False,
    accuracy: Accuracy = False,
    memory: Memory = False,
    try_options: Try = False,
) -> None:
    """Write a run, or what changed between two, as one HTML file that needs no network."""
    from ctrace.cli.console import check_output, write_report
    from ctrace.cli.run_request import followed_memory

    followed = followed_memory(request, memory=memory, tries_options=try_options)
    is_stdout = str(output) == "-"
    check_output(output)
    _check(output, is_stdout=is_stdout, open_=open_, force=force)
    code = None
    if ranks:
        page = _page_of_ranks(request)
    elif (second := _second_run(request)) is not None:
        page = _page_of_diff(str(request.target), second, request.timeout)
    else:
        page, code = _page_of_run(request, sass=sass, accuracy=accuracy, followed=followed)
    # Without --force, a file that came up during the capture stays, too.
    if is_stdout or force:
        write_report(page, output)
    else:
        _write_new(page, output)
    if open_:
        _open_page(output)
    # Last, since the page of a run that failed is worth writing and opening, too.
    if code is not None:
        raise typer.Exit(code)


def _page_of_run(
    request: Request, *, sass: bool, accuracy: bool, followed: FollowedMemory | None
) -> "tuple[SafeText, Exit | None]":
    """Write the page of a run, and return the exit code if the run is new."""
    from ctrace.cli.run_request import session_of
    from ctrace.cli.show import exit_code
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.features.doors import require
    from ctrace.reports.html.html_page import render_html

    if accuracy:
        require("accuracy", "--accuracy")
    session, is_new = session_of(request, check_advice=True, judge_numbers=accuracy, follow_memory=followed)
    if accuracy and not is_new and session.accuracy is None:
        what = "--accuracy needs a new run: kernels run, and are not read from a saved one"
        raise TargetError(what, "name the model: ctrace report model.py --accuracy")
    if followed is not None and not is_new and session.memory is None:
        what = "--memory needs a new run: tensors are followed while a model runs, and are not read from a saved one"
        raise TargetError(what, "name the model: ctrace report model.py --memory")
    page = render_html(session, "" if is_new else request.target or "", sass=sass)
    return page, exit_code(session) if is_new else None


def _second_run(request: Request) -> str | None:
    """Return the run to compare with: a saved run takes no arguments, so what follows it is another run.

    Raises:
        CtraceError: the first run cannot be read, or more than two are named.
    """
    from ctrace.cli.run_request import saved
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs.store import Store

    # Words behind a program are its arguments.
    if not request.args or saved(request.target, Store(), request.rank) is None:
        return None
    if len(request.args) > 1:
        raise TargetError(f"{len(request.args) + 1} runs are too many for one page", "name one or two runs")
    return request.args[0]


def _page_of_diff(before: str, after: str, timeout: float | None) -> "SafeText":
    from ctrace.cli.diffing import side
    from ctrace.inspector.features.compare.compare_runs import compare
    from ctrace.reports.html.comparison_page import render_diff_html

    one, other = side(before, timeout).session, side(after, timeout).session
    return render_diff_html((before, after), (one, other), compare(one, other))


def _page_of_ranks(request: Request) -> "SafeText":
    """Write the page of a folder of logs.

    Raises:
        CtraceError: it is no folder, or has no logs of ranks.
    """
    from ctrace.cli.progress import reading
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.features.compare.ranks_of_job import read_job
    from ctrace.inspector.runs.target import holds
    from ctrace.reports.html.comparison_page import render_ranks_html

    folder = Path(request.target or "")
    if request.target is None or not holds(folder.is_dir):
        named = request.target or "no folder is named"
        raise TargetError(f"--ranks needs a folder of logs: {named}", "name the folder that TORCH_TRACE wrote to")
    with reading("logs") as progress:
        return render_ranks_html(read_job(folder, None, progress), str(folder))


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


def _write_new(page: "SafeText", output: Path) -> None:
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
