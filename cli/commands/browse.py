"""`ctrace browse`: a run as a place to look around, in the terminal."""

from typing import TYPE_CHECKING

from ctrace.cli.run_request import Request, on_a_run

if TYPE_CHECKING:
    from textual.app import App

EXAMPLES = """\b
Examples:
  ctrace browse             the last run
  ctrace browse before      a saved run, by name
  ctrace browse model.py    run it, then browse
  ctrace browse trace.log   a log that TORCH_TRACE wrote
"""


@on_a_run
def browse(request: Request) -> None:
    """Browse a run in the terminal: source, graph and kernels side by side."""
    import asyncio
    import sys

    from ctrace.cli.run_request import session_of
    from ctrace.inspector.errors import SetupError, TargetError

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TargetError("ctrace browse needs a terminal", "in a script or pipe, use ctrace explain or ctrace report")
    try:
        from ctrace.reports.browsing import Browser
    except ModuleNotFoundError as error:
        # Any other module that is missing is a bug.
        if error.name is None or not error.name.startswith("textual"):
            raise
        what = "ctrace browse needs textual, which is not installed"
        raise SetupError(what, "pip install 'ctrace[browse]'") from None
    session, _ = session_of(request)
    browser = Browser(session, request.target or "")
    asyncio.run(_run(browser))
    # After SIGTERM; Textual itself only returns.
    if browser.return_code:
        raise SystemExit(browser.return_code)


async def _run(browser: "App[None]") -> None:
    """Run until the user quits, or until SIGTERM.

    An exception that a signal raises amid Textual's own steps may leave its thread running, and Python waits for that.
    """
    import asyncio
    import signal
    from contextlib import suppress

    with suppress(NotImplementedError):  # Windows
        ends = 128 + signal.SIGTERM
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: browser.exit(return_code=ends))
    await browser.run_async()
