"""Show runs in notebooks: the page of a run as the result of a cell, and the `%%ctrace` magic.

A page lies in a sandboxed frame without an origin: its scripts can neither read the notebook nor reach the server.
"""

import html
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

HEIGHT = 680
"""The height of a page in pixels; it scrolls inside."""
_FORMATS = ("text/html", "text/plain")
_USAGE = "%%ctrace [--build] [--text]"


def session_html(session: "Session") -> str:
    """Return the page of a run in a frame, for an output cell."""
    from ctrace.reports.html.html_page import render_html

    page = html.escape(render_html(session), quote=True)
    style = f"width: 100%; height: {HEIGHT}px; border: 1px solid #8888; border-radius: 8px"
    return f'<iframe title="ctrace" sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def show_in_notebooks() -> None:
    """Let IPython show a Session as a page; outside of IPython, do nothing."""
    shell = _shell()
    if shell is not None:
        _register(shell)


def load(shell: Any) -> None:
    """Register the display of sessions and the `%%ctrace` magic; `%load_ext ctrace` calls this."""
    _register(shell)
    shell.register_magic_function(lambda line, cell: _magic(shell, line, cell), "cell", "ctrace")


def _shell() -> Any:
    """Return IPython's shell; None: this is a plain Python."""
    module = sys.modules.get("IPython")
    if module is None:
        return None
    return module.get_ipython()


def _register(shell: Any) -> None:
    from ctrace.cli.show import session_text

    name = ("ctrace.inspector.facts.session", "Session")
    page, text = (shell.display_formatter.formatters[each] for each in _FORMATS)
    # By name, so that nothing is imported for a session that may not come.
    page.for_type_by_name(*name, session_html)
    text.for_type_by_name(*name, lambda session, printer, _cycle: printer.text(session_text(session)))


def _magic(shell: Any, line: str, cell: str) -> None:
    """Run the cell, and show what torch.compile did in it; an error in the cell is shown as always."""
    from ctrace.cli.console import complain
    from ctrace.cli.show import session_text
    from ctrace.inspector.api import trace
    from ctrace.inspector.errors import CtraceError

    words = line.split()
    unknown = [word for word in words if word not in ("--build", "--text")]
    if unknown:
        complain(f"{unknown[0]} is no option of the magic", f"write: {_USAGE}")
        return
    try:
        with trace(build="--build" in words) as traced:
            _run(shell, cell)
    except CtraceError as error:
        complain(error.what, error.todo)
        return
    if "--text" in words:
        print(session_text(traced.session))
        return
    from IPython import display  # the magic runs in IPython

    display.display(traced.session)  # type: ignore[no-untyped-call]


def _run(shell: Any, cell: str) -> None:
    """Run a cell's code so that its places have the cell's number, and the line numbers that the notebook shows."""
    # A comment in place of the magic's line keeps line numbers; another magic must stay first.
    text = cell if cell.startswith("%%") else f"# %%ctrace\n{cell}"
    file = shell.compile.get_code_name(text, shell.transform_cell(text), shell.execution_count)
    # IPython has stored the cell with its magic already.
    shell.run_cell(text, store_history=False)
    # IPython 9.18 counts the cell before it runs, so the code in it gets the next number
    # (IPython/core/interactiveshell.py).
    getattr(shell.compile, "_filename_map", {})[file] = shell.displayhook.prompt_count
