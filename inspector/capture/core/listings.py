"""Record the source text of files with compiled code, graph breaks, or code that failed to compile.

A saved run can then show the user's lines even if the file has changed since.
"""

import linecache
import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType

from ctrace.inspector.capture.core.callers import GRAPH_FILE, folder_of_torch
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import kept
from ctrace.inspector.facts.run_events import Listing
from ctrace.inspector.install_folders import INSPECTOR

_FRAME = re.compile(r'^ +File "(.+)", line \d+, in ', re.MULTILINE)
_BREAK = "dynamo_graph_break_reason"
_FAILED = ("co_filename", "fail_user_frame_filename")
"""The files of a compilation that failed, in torch's metrics (_dynamo/utils.py:CompilationMetrics, 2.13)."""
_OURS = f"{INSPECTOR}/"
_LONGEST = 1_000_000
"""Characters, of some 20,000 lines; advice reads a listing once for each rule, in 0.1 s at that length."""


@contextmanager
def listings(recorder: Recorder, when: When) -> Iterator[None]:
    """At the end, record the text of each such file once, without torch's and ctrace's files."""
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

    # Only names are kept while the program runs; the text is read at the end.
    hooks.callback(register_bytecode_hook(compiled).remove)
    hooks.enter_context(kept(trace_log, _Reports(files)))


class _Reports(logging.Handler):
    """Collects the files in the user's traceback of each graph break report, and those of a compilation that failed."""

    def __init__(self, files: dict[str, None]) -> None:
        super().__init__(logging.DEBUG)
        self._files = files

    def emit(self, record: logging.LogRecord) -> None:
        about = getattr(record, "metadata", None) or {}
        artifact, metrics = about.get("artifact", {}), about.get("compilation_metrics", {})
        if metrics.get("fail_type"):
            self._files.update(dict.fromkeys(file for name in _FAILED if (file := metrics.get(name))))
        if artifact.get("name") == _BREAK:
            # Behind it stands torch's own traceback, whose files are not the user's.
            text = (getattr(record, "payload", None) or "").partition("\nTraceback ")[0]
            self._files.update(dict.fromkeys(_FRAME.findall(text)))


def _record(recorder: Recorder, file: str) -> None:
    if file.startswith((folder_of_torch(), _OURS, "<frozen ", "<string>", GRAPH_FILE)):
        return
    # Not from the disk: the cell of a notebook is in no file, but in linecache.
    text = "".join(linecache.getlines(file))
    if text and len(text) <= _LONGEST:
        recorder.add(Listing(file, text))
