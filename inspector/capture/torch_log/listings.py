"""The source text of files that Dynamo compiled code from, or broke graphs in, as it was when it ran.

A saved run shows the user's lines also when the file has changed since.
"""

import linecache
import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType

from ctrace.inspector.capture.core.callers import folder_of_torch
from ctrace.inspector.capture.core.kept_logging import kept
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.own import INSPECTOR

_FRAME = re.compile(r'^ +File "(.+)", line \d+, in ', re.MULTILINE)
_BREAK = "dynamo_graph_break_reason"
_OURS = f"{INSPECTOR}/"
_LONGEST = 400_000
"""Characters; a longer file was generated, and nobody reads it."""


@contextmanager
def listings(recorder: Recorder, when: When) -> Iterator[None]:
    """Record the text of each such file once, at the end; torch's files and ours are left out."""
    files: dict[str, None] = {}
    with ExitStack() as hooks:
        when("torch._dynamo", lambda _dynamo: _watch(files, hooks))
        try:
            yield
        finally:
            with recorder.watching("source text"):
                for file in files:
                    _record(recorder, file)


def _watch(files: dict[str, None], hooks: ExitStack) -> None:
    from torch._dynamo.convert_frame import register_bytecode_hook
    from torch._logging._internal import trace_log

    def compiled(code: CodeType, new_code: CodeType) -> None:
        del new_code
        files[code.co_filename] = None

    hooks.callback(register_bytecode_hook(compiled).remove)
    hooks.enter_context(kept(trace_log, _Breaks(files)))


class _Breaks(logging.Handler):
    """Notes the files of the user's traceback in each report of a graph break."""

    def __init__(self, files: dict[str, None]) -> None:
        super().__init__(logging.DEBUG)
        self._files = files

    def emit(self, record: logging.LogRecord) -> None:
        artifact = (getattr(record, "metadata", None) or {}).get("artifact", {})
        if artifact.get("name") == _BREAK:
            text = (getattr(record, "payload", None) or "").partition("\nTraceback ")[0]
            self._files.update(dict.fromkeys(_FRAME.findall(text)))


def _record(recorder: Recorder, file: str) -> None:
    if file.startswith((folder_of_torch(), _OURS, "<frozen ", "<string>", "<eval_with_key>")):
        return
    text = "".join(linecache.getlines(file))
    if text and len(text) <= _LONGEST:
        recorder.record("listing", {"file": file, "text": text})
