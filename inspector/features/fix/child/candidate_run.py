"""Run one candidate, and record breaks, skipped functions, recompilations and its failure."""

import builtins
import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.calls.answering import place_of_failure
from ctrace.inspector.capture.core.environment import environment
from ctrace.inspector.capture.core.exception_text import NO_MESSAGE, message, traceback_text, type_name
from ctrace.inspector.capture.core.imports import watch_imports
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.structured import structured
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.capture.dynamo.frames import frames
from ctrace.inspector.capture.dynamo.guard_stacks import GuardStacks
from ctrace.inspector.capture.dynamo.record_recompiles import recompiles
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.run_events import Ended

_RAISED = 1
"""The exit code of Python after an exception."""


def run(request: dict[str, Any]) -> int:
    """Run the program in `request["file"]`; return its exit code."""
    file = request["file"]
    with recording(Path(request["log"])) as recorder:
        if request.get("eager"):
            import torch

            torch.compiler.set_stance("force_eager")
        return _run_file(file, recorder)


@contextmanager
def recording(log: Path) -> Iterator[Recorder]:
    """Record what decides about findings, and nothing else: each hook costs time in every try."""
    recorder = Recorder(TraceLog(log))
    stacks = GuardStacks()
    with ExitStack() as active:
        when = active.enter_context(watch_imports())
        for source in (environment(()), structured, frames, recompiles(stacks)):
            active.enter_context(source(recorder, when))
        yield recorder
    recorder.add(Ended())
    recorder.log.close()


def _run_file(file: str, recorder: Recorder) -> int:
    os.chdir(Path(file).parent)
    sys.argv = [file]
    sys.path.insert(0, str(Path(file).parent))
    random.seed()
    main = ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=builtins, __loader__=SourceFileLoader("__main__", file))
    sys.modules["__main__"] = main
    try:
        exec(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException as error:
        at, line = place_of_failure(error) or (None, None)
        recorder.add(Failure(FailurePhase.RUN, type_name(error), message(error) or NO_MESSAGE, at, line))
        print(traceback_text(error, error.__traceback__), end="", file=sys.stderr, flush=True)
        return _RAISED
    return 0
