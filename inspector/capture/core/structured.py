"""Record torch's structured trace: what TORCH_TRACE would write (torch/_logging/_internal.py, 2.11 to 2.13)."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog, kept


class _Handler(logging.Handler):
    """Copies the records of `torch.__trace` into ctrace's log."""

    def __init__(self, log: TraceLog, root: Path) -> None:
        super().__init__(logging.DEBUG)
        self._log = log
        self._root = f"{root}/"

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if metadata is None:
            return
        if "inductor_output_code" in metadata:
            metadata = {**metadata, "inductor_output_code": _with_stage(metadata["inductor_output_code"])}
        source = record.pathname.removeprefix(self._root)
        self._log.write(metadata, getattr(record, "payload", None), source, record.lineno)


class _Added:
    """Adds a handler to a logger; while it is attached, the logger's only other handlers are torch's.

    Pytest adds its handlers to all loggers that do not propagate (9.2, _pytest/logging.py), and would show each record.
    """

    def __init__(self, logger: logging.Logger, handler: logging.Handler) -> None:
        self._logger = logger
        self._aside = [each for each in logger.handlers if not type(each).__module__.startswith("torch.")]
        for each in self._aside:
            logger.removeHandler(each)
        self._kept = kept(logger, handler)
        self._kept.__enter__()

    def remove(self) -> None:
        self._kept.__exit__(None, None, None)
        for each in self._aside:
            self._logger.addHandler(each)


def _with_stage(data: Any) -> Any:
    """Add the graph part that emitted code belongs to, which torch does not record; V.graph still has the graph."""
    from torch._inductor.virtualized import V

    part = {}
    # Outside of a graph, `V.graph` is a handler without attributes (_inductor/virtualized.py, `NullHandler`).
    if hasattr(V.graph, "is_backward"):
        part = {"stage": current_stage()}
    if isinstance(data, dict):
        return {**data, **part}
    return part


@contextmanager
def structured(recorder: Recorder, when: When) -> Iterator[None]:
    """Record torch's structured trace from the first event on."""
    added: list[_Added] = []

    def install(torch: ModuleType) -> None:
        from torch._logging import _internal
        from torch._logging.structured import INTERN_TABLE

        # Torch writes file names as numbers, and each number's name once per process; repeat those written before.

        for name, number in INTERN_TABLE.items():
            recorder.log.write({"str": [name, number]}, None, "ctrace", 0)
        handler = _Handler(recorder.log, Path(torch.__file__ or "").resolve().parent.parent)
        # Torch asks `trace_log.handlers` before it makes an entry, and logging asks the level.
        _internal.trace_log.setLevel(logging.DEBUG)
        added.append(_Added(_internal.trace_log, handler))

    when("torch", install)
    try:
        yield
    finally:
        for each in added:
            each.remove()
