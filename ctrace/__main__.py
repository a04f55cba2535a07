"""Run the command line as `python -m ctrace`."""

import sys

if __name__ == "__main__":
    # `-m` puts the working directory first on the path: nothing there may stand in for a module that ctrace imports.
    if not sys.flags.safe_path:
        del sys.path[0]
    from ctrace.cli.main import app

    app(prog_name="ctrace")
