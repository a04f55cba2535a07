"""`ctrace serve`: the runs of a folder in a browser."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """\b
Examples:
  ctrace serve                     the runs of this folder
  ctrace serve shared/.ctrace      the runs of another folder
  ctrace serve --port 0 --open     on a free port, in the browser
  ctrace serve --host 0.0.0.0      for other machines, with a token
"""

Folder = Annotated[
    Path | None,
    typer.Argument(metavar="DIR", help="A folder of runs. Default: .ctrace, or the folder that CTRACE_DIR names."),
]
Host = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS", help="Listen on ADDRESS. Other than 127.0.0.1, all requests need a token."
    ),
]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="Listen on port N; 0: a free one.")]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="TEXT", envvar="CTRACE_TOKEN", help="Require this token. Default: a random one."),
]
Open = Annotated[bool, typer.Option("--open", help="Open the list in a browser.")]
# Who can reach the port can try tokens: a shorter one would be found by trying.
_SHORTEST = 8


def serve(
    folder: Folder = None, host: Host = "127.0.0.1", port: Port = 8764, token: Token = None, open_: Open = False
) -> None:
    """Show the runs of a folder in a browser: list, open and compare them."""
    from ctrace.cli.console import say
    from ctrace.inspector.errors import SetupError

    try:
        from ctrace.cli.report_server import LOOPBACK, listening
        from ctrace.cli.report_server import serve as serve_runs
    except ModuleNotFoundError as error:
        # A module of ctrace that is missing is a bug.
        if error.name is None or error.name.startswith("ctrace"):
            raise
        what = f"ctrace serve needs {error.name.partition('.')[0]}, which is not installed"
        raise SetupError(what, "pip install 'ctrace[serve]'") from None
    root = _folder(folder)
    # Only this machine reaches the loopback addresses; elsewhere, anybody who does could read the runs.
    token = _token(token, is_local=host in LOOPBACK)
    # Before the browser opens, which would find nothing there.
    sock = listening(host, port)
    # In a URL, an IPv6 address stands in brackets.
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{sock.getsockname()[1]}/{f'?token={token}' if token else ''}"
    say(f"Serving the runs in {root} at {address}  (Ctrl-C stops)")
    if open_:
        _open(address)
    serve_runs(root, host, sock, token)


def _folder(folder: Path | None) -> Path:
    """Return the folder of runs.

    Raises:
        TargetError: it does not exist, or is a run itself.
    """
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs.store import Store
    from ctrace.inspector.runs.target import holds

    root = Store(folder).root
    inner = root / ".ctrace"
    if holds((root / "run.json").is_file):
        raise TargetError(f"{root} is one run", f"serve the folder around it, or write its page: ctrace report {root}")
    # The folder of a project is as good as the folder of its runs.
    if folder is not None and holds(inner.is_dir):
        return inner
    if not holds(root.is_dir):
        todo = "name a folder of runs" if folder is not None else "make a run: ctrace explain model.py"
        raise TargetError(f"there is no folder {root}", todo)
    return root


def _token(token: str | None, *, is_local: bool) -> str | None:
    """Return the token that requests need; None: they come from this machine only, and none was requested.

    Raises:
        TargetError: it is too short, or cannot be part of a URL.
    """
    import secrets

    from ctrace.inspector.errors import TargetError

    if token is None:
        if is_local:
            return None
        return secrets.token_urlsafe(24)
    if len(token) < _SHORTEST or not all(
        letter.isascii() and (letter.isalnum() or letter in "-_.~") for letter in token
    ):
        what = f"--token needs at least {_SHORTEST} letters, digits, or -_.~"
        raise TargetError(what, "leave it out: ctrace makes one")
    return token


def _open(address: str) -> None:
    import webbrowser

    from ctrace.cli.console import say

    try:
        is_open = webbrowser.open(address)
    except (webbrowser.Error, OSError):
        is_open = False
    if not is_open:
        say(f"ctrace: no browser was found; open {address} yourself")
