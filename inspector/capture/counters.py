"""What torch itself counted, written down when the run ends.

Source: `torch._dynamo.utils.counters` (2.13). Not one of them counts graph breaks right, but they must not contradict
what the entries say.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.sources import When


@contextmanager
def counters(recorder: Recorder, when: When) -> Iterator[None]:
    """Record Dynamo's counters and the device that was used, at the end."""
    del when
    try:
        yield
    finally:
        with recorder.watching("torch's counters"):
            _record(recorder)


def _record(recorder: Recorder) -> None:
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return
    names = ("frames", "graph_break", "unimplemented")
    counts = {name: dict(utils.counters[name]) for name in names if name in utils.counters}
    recorder.record("counters", {**counts, "recompile_limit": utils.config.recompile_limit})
