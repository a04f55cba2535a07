"""Run the user's program as Python would have: its own argv, `__main__`, import path, and nothing of ours in sight."""

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ctrace.inspector.order import Order


def run_program(order: Order) -> None:
    """Run a file, or a module as `python -m` does, until it ends.

    Raises:
        BaseException: whatever the program raises.
    """
    if order.path is not None:
        _run_file(Path(order.path), order.args)
    else:
        sys.argv = ["-m", *order.args]  # runpy replaces the first by the module's file
        first_on_path(Path.cwd())
        runpy.run_module(str(order.module), run_name="__main__", alter_sys=True)


def _run_file(path: Path, args: tuple[str, ...]) -> None:
    # Not runpy.run_path: it takes the module away when the program ends, before exit functions are done with it.
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(path.absolute()), __builtins__=__builtins__, __cached__=None)
    sys.argv = [str(path), *args]
    first_on_path(path.resolve().parent)
    sys.modules["__main__"] = main
    code: Any = compile(path.read_bytes(), str(path.absolute()), "exec", dont_inherit=True)
    exec(code, main.__dict__)


def first_on_path(folder: Path) -> None:
    """Put `folder` where Python puts a program's: in the place of the '' that we were started with."""
    if not sys.flags.safe_path:
        sys.path[0] = str(folder)
