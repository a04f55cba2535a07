"""Dump everything that a program can see of its Python; `test_plain_python.py` runs it with and without ctrace."""

import atexit
import builtins
import faulthandler
import gc
import json
import locale
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any


class Here:
    """A class of this file, to be pickled."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Here


def _answer(number: int) -> tuple[int, str, list[str], str, bool]:
    main = sys.modules["__main__"]
    return number * 2, __name__, sys.argv, str(getattr(main, "__file__", None)), sys.flags.safe_path


def _children() -> dict[str, Any]:
    found: dict[str, Any] = {}
    # Python itself cannot import objects pickled from a `__main__.py` elsewhere: its spawned workers always fail.
    is_importable = not str(sys.modules["__main__"].__file__).endswith("__main__.py")
    for method in ("fork", "spawn", "forkserver") if is_importable else ("fork",):
        with multiprocessing.get_context(method).Pool(1) as pool:
            found[method] = pool.map(_answer, [1, 2])
    code = "import os, sys, json; print(json.dumps([dict(os.environ), list(sys.path), list(sys.flags)]))"
    found["python"] = json.loads(subprocess.check_output([sys.executable, "-c", code]))
    return found


def _stream(stream: Any) -> Any:
    if stream is None:
        return None
    return {
        "encoding": stream.encoding,
        "errors": stream.errors,
        "lines": stream.line_buffering,
        "through": stream.write_through,
        "newlines": str(stream.newlines),
        "tty": stream.isatty(),
        "mode": stream.mode,
        "name": stream.name,
        "descriptor": stream.fileno(),
    }


def _signals() -> dict[str, str]:
    return {
        number.name: getattr(handler, "__name__", str(handler))
        for number in signal.Signals
        if (handler := signal.getsignal(number)) is not None
    }


def _main_module() -> dict[str, str]:
    main = sys.modules["__main__"]
    names = (
        "__file__",
        "__spec__",
        "__loader__",
        "__cached__",
        "__doc__",
        "__annotations__",
        "__package__",
        "__name__",
    )
    found = {name: str(getattr(main, name, "not there")).split(" at 0x")[0] for name in names}
    return {**found, "order": str(list(vars(main))[:9]), "is this": str(vars(main) is globals())}


def dump() -> dict[str, Any]:
    """Return everything as JSON data."""
    return {
        "sys.path": sys.path,
        "sys.argv": sys.argv,
        "sys.orig_argv": sys.orig_argv,
        "sys.flags": list(sys.flags),
        "sys._xoptions": dict(sys._xoptions),
        "sys.warnoptions": sys.warnoptions,
        "sys.executable": sys.executable,
        "sys.prefix": [sys.prefix, sys.exec_prefix, sys.base_prefix],
        "sys.dont_write_bytecode": sys.dont_write_bytecode,
        "sys.pycache_prefix": sys.pycache_prefix,
        "sys.path_hooks": [str(each).split(" at 0x")[0] for each in sys.path_hooks],
        "sys.meta_path": [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path],
        "hooks": [
            sys.excepthook is sys.__excepthook__,
            sys.unraisablehook is sys.__unraisablehook__,
            sys.displayhook is sys.__displayhook__,
            sys.breakpointhook is sys.__breakpointhook__,
            threading.excepthook is threading.__excepthook__,
        ],
        "tracing": [sys.gettrace(), sys.getprofile()],
        "last": [hasattr(sys, name) for name in ("last_type", "last_value", "ps1")],
        "recursion": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "int digits": sys.get_int_max_str_digits(),
        "__main__": _main_module(),
        "builtins": sorted(vars(builtins)),
        "environ": dict(os.environ),
        "cwd": str(Path.cwd()),
        "umask": [mask := os.umask(0), os.umask(mask)][0],
        "group": os.getpgrp(),
        "session": os.getsid(0),
        "signals": _signals(),
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "wakeup": signal.set_wakeup_fd(-1),
        "stdin": _stream(sys.stdin),
        "stdout": _stream(sys.stdout),
        "stderr": _stream(sys.stderr),
        "originals": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
        "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],  # noqa: PTH208
        "read": sys.stdin.read() if sys.stdin else None,
        "locale": [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(), sys.getfilesystemencoding()],
        "threads": [each.name for each in threading.enumerate()],
        "main thread": threading.current_thread() is threading.main_thread(),
        "warnings": [str(each) for each in warnings.filters],
        "faulthandler": faulthandler.is_enabled(),
        "gc": [gc.get_threshold(), gc.isenabled(), gc.get_debug(), len(gc.callbacks)],
        "logging": [logging.root.level, len(logging.root.handlers), logging.getLogger().manager.disable],
        "exit functions": atexit._ncallbacks(),
        "methods": multiprocessing.get_all_start_methods(),
        "method": multiprocessing.get_start_method(),
        "pickled": pickle.dumps(Here(), 0).decode(),
        "unpickled": pickle.loads(pickle.dumps(Here())) == Here(),
        "children": _children(),
        "modules": sorted(sys.modules),
    }


if __name__ == "__main__":
    with Path(os.environ["DUMP"]).open("w") as _file:
        json.dump(dump(), _file)
