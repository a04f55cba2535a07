"""The Python API: `with ctrace.trace() as t: ...` and `ctrace.explain(fn, *args)`; both produce a Session."""

import linecache
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.facts.session import Session, Target
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.log.reader import Broken, LogEntry, read
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.settings import settings_at
from ctrace.inspector.session.build import build as build_session


class Trace:
    """The result of a `trace()` block."""

    def __init__(self) -> None:
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The session, available after the block ends.

        Raises:
            RuntimeError: the block is still running.
        """
        if self._session is None:
            msg = "the trace() block is still running; its session is available after the block ends"
            raise RuntimeError(msg)
        return self._session


@contextmanager
def trace(*, build: bool = False) -> Iterator[Trace]:
    """Record what torch.compile does in this block.

    A function that was compiled before the block keeps its compiled code and does not appear. By default, kernels are
    emitted but not built, and code compiled in the block runs eagerly; after the block, torch compiles it fully. With
    `build`, torch.compile runs unchanged.

    Raises:
        SettingsError: `[tool.ctrace]` in pyproject.toml is wrong.
    """
    # Here, so that `import ctrace.inspector.api` does not load the capture, which a reader of sessions needs not.
    from ctrace.inspector.capture.inprocess import capturing_here

    # Before anything is patched, so that wrong settings leave torch as it was.
    owned = settings_at(Path.cwd()).owned
    traced = Trace()
    began = time.perf_counter()
    with _temporary_log() as log:
        try:
            with capturing_here(log, build=build, owned=owned):
                yield traced
        finally:
            # Also after an exception, for `pytest.raises` around the block; and before the log is deleted.
            traced._session = build_session(_entries(log), seconds=time.perf_counter() - began)


def explain(function: Callable[..., Any], *args: Any, build: bool = False, **kwargs: Any) -> Session:
    """Compile a function or module, call it twice with these arguments, and report what torch.compile did.

    Raises:
        Exception: whatever the function raises.
        SettingsError: `[tool.ctrace]` in pyproject.toml is wrong.
    """
    from ctrace.inspector.capture.calls.ways import Call
    from ctrace.inspector.capture.inprocess import call_compiled

    began = time.perf_counter()
    with _temporary_log() as log:
        call_compiled(log, function, Call(args, kwargs), build=build, owned=settings_at(Path.cwd()).owned)
        return build_session(_entries(log), _target(function), seconds=time.perf_counter() - began)


def observe(
    function: Callable[..., Any],
    inputs: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    options: Options,
    calls: int = 2,
    owned: tuple[str, ...] = (),
) -> Session:
    """Compile a function or module from a clean state in this process and call it, to check it.

    `inputs` is a tuple of arguments, one tensor, a dict of keyword arguments, or a list of these. The function runs
    `calls` times with each. All code that Dynamo has compiled is dropped before and after the calls.

    Raises:
        TargetError: the inputs or options are wrong, or the model is compiled already.
        Exception: whatever the function raises, without torch.compile or with it.
    """
    from ctrace.inspector.capture.comparing.eager import EagerError
    from ctrace.inspector.capture.core.callers import without_our_frames
    from ctrace.inspector.capture.inprocess import call_afresh, ways_of

    __tracebackhide__ = True  # pytest hides this frame and shows the user's
    began = time.perf_counter()
    failed: BaseException | None = None
    with _temporary_log() as log:
        try:
            call_afresh(log, function, ways_of(inputs, kwargs or {}), options, calls=calls, owned=owned)
        except EagerError as error:
            failed = error.__cause__
        session = build_session(_entries(log), _target(function), seconds=time.perf_counter() - began)
    if failed is not None:  # raised outside of the `except` block, so that the error keeps its original cause
        raise failed.with_traceback(without_our_frames(failed.__traceback__))
    return session


def _target(function: Callable[..., Any]) -> Target:
    return Target(name=getattr(function, "__name__", type(function).__name__))


def _entries(log: Path) -> Iterator[LogEntry | Broken]:
    """Read a log of this process; cells of a notebook are named by their numbers, as `In[3]`."""
    cells = _cells()
    for entry in read(log):
        # Only in IPython: a search of each record's text would cost everybody else time.
        if cells and isinstance(entry, LogEntry):
            yield replace(entry, data=_renamed(entry.data, cells), payload=_renamed(entry.payload, cells))
        else:
            yield entry


def _cells() -> dict[str, str]:
    """Return the names of IPython's cells, keyed by their files, which are temporary names; outside of IPython, none.

    `format_code_name` names them in tracebacks, too (IPython/core/compilerop.py, 8 and 9).
    """
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    if shell is None:
        return {}
    named = {file: shell.compile.format_code_name(file) for file in tuple(linecache.cache)}
    return {file: found[1] for file, found in named.items() if found is not None}


def _renamed(data: Any, names: Mapping[str, str]) -> Any:
    """Replace names of files in all text of a record."""
    if isinstance(data, str):
        for file, name in names.items():
            data = data.replace(file, name)
        return data
    if isinstance(data, dict):
        return {_renamed(key, names): _renamed(value, names) for key, value in data.items()}
    if isinstance(data, list):
        return [_renamed(each, names) for each in data]
    return data


@contextmanager
def _temporary_log() -> Iterator[Path]:
    with scratch() as folder:
        yield folder / "trace.log"
