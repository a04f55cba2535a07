"""Run the command line, as `ctrace` and as `python -m ctrace`."""

import signal
import sys


def main() -> None:
    """Run the command line; never returns."""
    if sys.version_info < (3, 11):  # noqa: UP036 - pip refuses to install into it, but a checkout starts here
        found = ".".join(map(str, sys.version_info[:2]))
        print(f"ctrace: Python {found} is too old; ctrace needs 3.11 or newer", file=sys.stderr)
        print("  make an environment with a newer one: python3.11 -m venv .venv", file=sys.stderr)
        sys.exit(2)
    # Ctrl-C ends the imports, and what Python does at exit, without a traceback; commands handle it themselves.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ctrace.cli.main import app

    app(prog_name="ctrace")


if __name__ == "__main__":
    # `-m` puts the working directory first on the path: nothing there may stand in for a module that ctrace imports.
    if not sys.flags.safe_path:
        del sys.path[0]
    main()
