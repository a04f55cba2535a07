"""Run the user's program as Python would: its own argv, `__main__` and import path, with ctrace out of sight."""

import builtins
import os
import re
import runpy
import sys
import threading
from collections.abc import Callable
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ctrace.inspector.capture.calls.replaced import replaced_text
from ctrace.inspector.capture.core.callers import without_our_frames
from ctrace.inspector.capture.core.exception_text import kind_and_message, traceback_text
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.facts.outcome import ENDED_WELL
from ctrace.inspector.processes.boot import displayed
from ctrace.inspector.runs.capture_request import CaptureRequest

_OF_GPUS = re.compile("Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available")
"""What torch says where it finds no GPU (cuda/__init__.py, and libc10_cuda, 2.11 to 2.15)."""


def wants_gpu(what: str) -> bool:
    """Whether an exception's text says that there is no GPU."""
    return _OF_GPUS.search(what) is not None


def run_program(request: CaptureRequest, preloaded: Preloaded) -> None:
    """Run a file, a folder with a `__main__.py`, or a module like `python -m`, until it and its threads end.

    Raises:
        BaseException: whatever the program raises.
    """
    typed = request.typed or request.path
    if typed is not None:
        named = [typed]
    else:
        named = ["-m", str(request.module)]
    sys.orig_argv[:] = [*displayed(sys.orig_argv), *named, *request.args]
    try:
        if typed is None:
            _run_module(str(request.module), request.args, preloaded)
        elif _is_file_of_code(typed):
            _run_file(typed, request.args, preloaded)
        else:
            _run_folder(typed, request.args, preloaded)
    finally:
        # Python does this next, before exit functions: non-daemon threads are part of the program.
        threading._shutdown()  # type: ignore[attr-defined]


def ending_of(run: Callable[[], None]) -> str:
    """Run a program; say how it ended, and print what Python prints then."""
    try:
        run()
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            return f"exit code {int(ended.code or 0)}"
        print(ended.code, file=sys.stderr)
        return "exit code 1"
    except Exception as error:
        trimmed = without_our_frames(error.__traceback__)
        print(traceback_text(error, trimmed), end="", file=sys.stderr, flush=True)
        return kind_and_message(error).splitlines()[0][:200]
    return ENDED_WELL


def _is_file_of_code(path: str) -> bool:
    """Whether Python runs a path as a file, not as a folder or an archive with a `__main__.py`."""
    import zipfile

    return not Path(path).is_dir() and not zipfile.is_zipfile(path)


def _run_file(typed: str, args: tuple[str, ...], preloaded: Preloaded) -> None:
    # Not runpy.run_path: it removes the module when the program ends, before exit functions have run.
    path = os.path.join(Path.cwd(), typed)  # noqa: PTH118 - as Python makes it absolute: `./` and `..` stay
    sys.argv = [typed, *args]
    first_on_path(Path(os.path.realpath(typed)).parent, preloaded)
    main = _fresh_main()
    loader: type[SourceFileLoader | SourcelessFileLoader] = SourceFileLoader
    if path.endswith(".pyc"):
        loader = SourcelessFileLoader
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader("__main__", path))
    try:
        exec(_code(path), main.__dict__)
    finally:  # as Python does, before exit functions and destructors
        main.__dict__.pop("__file__", None)
        main.__dict__.pop("__cached__", None)


def _code(path: str) -> CodeType:
    if path.endswith(".pyc"):
        code: Any = SourcelessFileLoader("__main__", path).get_code("__main__")
    else:
        # Bytes, so that `compile` follows the encoding that the file declares.
        code = compile(replaced_text(path) or Path(path).read_bytes(), path, "exec", dont_inherit=True)
    assert isinstance(code, CodeType)
    return code


def _run_module(name: str, args: tuple[str, ...], preloaded: Preloaded) -> None:
    sys.argv = ["-m", *args]  # runpy replaces "-m" with the module's file
    first_on_path(Path.cwd(), preloaded)
    _fresh_main()
    # Python calls this for -m (Modules/main.c, 3.11 to 3.13). Unlike run_module, it leaves `__main__` in place.
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _run_folder(typed: str, args: tuple[str, ...], preloaded: Preloaded) -> None:
    sys.argv = [typed, *args]
    path = os.path.join(Path.cwd(), typed)  # noqa: PTH118 - as above
    sys.path.insert(0, path)  # even with a safe path (python -P)
    preloaded.uncover(path)
    _fresh_main()
    runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]


def _fresh_main() -> ModuleType:
    """Install a `__main__` like the one that Python creates at startup."""
    main = ModuleType("__main__")
    main.__dict__.update(__loader__=BuiltinImporter, __annotations__={}, __builtins__=builtins)
    sys.modules["__main__"] = main
    return main


def first_on_path(folder: Path, preloaded: Preloaded) -> None:
    """Put `folder` first on the import path, where Python puts a program's folder."""
    if not sys.flags.safe_path:
        sys.path.insert(0, str(folder))
        preloaded.uncover(str(folder))
