"""Record torch's own counters for the run.

Source: `torch._dynamo.utils.counters` (2.13). None of them counts graph breaks correctly, but they must not contradict
the log entries.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.run_events import Counted

_CACHES = ("inductor", "aot_autograd", "dynamo_cache")
"""Counters with outcomes of caches, beside others."""
_NAMES = ("frames", "graph_break", "unimplemented", "stats")


@contextmanager
def counters(recorder: Recorder, when: When) -> Iterator[None]:
    """At the end, record how much Dynamo's counters have increased since the start."""
    with _recording(recorder, when, (*_NAMES, *_CACHES)):
        yield


@contextmanager
def cache_counters(recorder: Recorder, when: When) -> Iterator[None]:
    """Like `counters`, but only those of caches: the others are compared with records that a run may not have."""
    with _recording(recorder, when, _CACHES):
        yield


@contextmanager
def kept() -> Iterator[None]:
    """Put torch's counters back at the end of the block: what compiles there is not the program's."""
    from torch._dynamo.utils import counters as counted

    # Copies: torch adds to the counters in place.
    before = {name: Counter(each) for name, each in counted.items()}
    try:
        yield
    finally:
        # In place, since torch's modules import the object by name.
        counted.clear()
        counted.update(before)


@contextmanager
def _recording(recorder: Recorder, when: When, names: tuple[str, ...]) -> Iterator[None]:
    before: dict[str, Counter[str]] = {}
    when("torch._dynamo.utils", lambda utils: before.update(_counts(utils, names)))
    try:
        yield
    finally:
        with recorder.watching("torch's counters"):
            utils = sys.modules.get("torch._dynamo.utils")
            if utils is not None:
                _record(recorder, utils, names, before)


def _counts(utils: ModuleType, names: tuple[str, ...]) -> dict[str, Counter[str]]:
    # Asked first, since torch's table makes an entry for each name that it is asked for.
    return {name: Counter(utils.counters[name]) for name in names if name in utils.counters}


def _record(recorder: Recorder, utils: Any, names: tuple[str, ...], before: dict[str, Counter[str]]) -> None:
    counts = {name: dict(counted - before.get(name, Counter())) for name, counted in _counts(utils, names).items()}
    # These groups count more than caches, such as the patterns that Inductor replaces.
    caches = {name: each for group in _CACHES for name, each in counts.pop(group, {}).items() if "cache_" in name}
    limit = utils.config.recompile_limit
    recorder.add(Counted(**counts, caches=caches, recompile_limit=limit, switched_off=_switched_off()))


def _switched_off() -> str | None:
    """Return what disables Dynamo completely (2.13, _dynamo/eval_frame.py:1752 and `_stance`)."""
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        return "TORCHDYNAMO_DISABLE=1"
    stance = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    if getattr(stance, "stance", "") == "force_eager":
        return 'torch.compiler.set_stance("force_eager")'
    return None
