"""ctrace from Python: `with ctrace.trace() as t: ...` and `ctrace.explain(fn, *args)`; both give a Session."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ctrace.inspector.build import build as build_session
from ctrace.inspector.model import Session, Target
from ctrace.inspector.reader import read
from ctrace.inspector.settings import settings_at


class Trace:
    """What a `trace()` block showed."""

    def __init__(self) -> None:
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The session; it is there when the block has ended.

        Raises:
            RuntimeError: the block is still running.
        """
        if self._session is None:
            msg = "the trace() block is still running; its session is there when it has ended"
            raise RuntimeError(msg)
        return self._session


@contextmanager
def trace(*, build: bool = False) -> Iterator[Trace]:
    """Record what torch.compile does in this block.

    Functions that were compiled before the block keep their compiled code and show nothing. By default kernels are
    emitted and not built, and what the block compiles runs eagerly; torch compiles it for real after the block. With
    `build`, torch.compile does all it ever does.

    Raises:
        SettingsError: `[tool.ctrace]` in pyproject.toml is wrong.
    """
    from ctrace.inspector.capture.inprocess import capturing_here

    owned = settings_at(Path.cwd()).owned
    traced = Trace()
    began = time.perf_counter()
    with _temporary_log() as log:
        try:
            with capturing_here(log, build=build, owned=owned):
                yield traced
        finally:
            traced._session = build_session(read(log), seconds=time.perf_counter() - began)


def explain(function: Callable[..., Any], *args: Any, build: bool = False, **kwargs: Any) -> Session:
    """Compile a function or module, call it twice with these arguments, and say what torch.compile did.

    Raises:
        Exception: whatever the function raises.
        SettingsError: `[tool.ctrace]` in pyproject.toml is wrong.
    """
    from ctrace.inspector.capture.inprocess import call_compiled
    from ctrace.inspector.capture.ways import Call

    began = time.perf_counter()
    target = Target(name=getattr(function, "__name__", type(function).__name__))
    with _temporary_log() as log:
        call_compiled(log, function, Call(args, kwargs), build=build, owned=settings_at(Path.cwd()).owned)
        return build_session(read(log), target, seconds=time.perf_counter() - began)


@contextmanager
def _temporary_log() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ctrace-") as folder:
        yield Path(folder) / "trace.log"
