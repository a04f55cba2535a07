"""Record why a function was recompiled: the guards that the new call fails, with expected and actual values.

Source: `convert_frame.get_and_maybe_log_recompilation_reasons` (2.13, guards.py:5344), called at the start of every
recompilation with all cache entries, newest first, and the new call's locals.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.capture.guards.consequences import divided
from ctrace.inspector.capture.guards.eager_backend import other_backend
from ctrace.inspector.capture.guards.stacks import GuardStacks, frames
from ctrace.inspector.capture.guards.unmet import Unmet, unmet_guards
from ctrace.inspector.facts.events.guards import EntryHeld, GuardsFailed, UnmetGuard

_MOST = 60
"""How many failed guards of an entry are recorded; all are counted."""
_RESUMED = "torch_dynamo_resume_in_"
"""Prefix of resume functions, the rest of a function after a graph break (_dynamo/resume_execution.py, 2.13)."""


def recompiles(stacks: GuardStacks) -> Source:
    """Make the source that records each cache entry's failed guards, with their stacks, at every recompilation."""

    @contextmanager
    def source(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:
            when("torch._dynamo", lambda _dynamo: _install(recorder, patches, stacks))
            yield

    return source


def _install(recorder: Recorder, patches: ExitStack, stacks: GuardStacks) -> None:
    from torch._dynamo import convert_frame

    name = "get_and_maybe_log_recompilation_reasons"
    original = getattr(convert_frame, name)

    def reasons(cache_entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        with recorder.watching("the guard failures behind a recompilation"):
            backend = args[0] if args else kwargs.get("backend")
            recorder.add(_described(cache_entries, frame, backend, stacks, recorder))
        return original(cache_entries, frame, *args, **kwargs)

    with recorder.watching("recompiles"):
        patches.enter_context(patched(convert_frame, name, reasons))


def _described(cache_entries: Any, frame: Any, backend: Any, stacks: GuardStacks, recorder: Recorder) -> GuardsFailed:
    began = time.perf_counter()
    entries = tuple(_compared(entry, frame, backend, stacks, recorder) for entry in _listed(cache_entries))
    seconds = time.perf_counter() - began
    return GuardsFailed(entries, frame.f_code.co_freevars, seconds)


def _listed(entries: Any) -> list[Any]:
    """Return all cache entries: a list since 2.13, before that the head of a linked list (2.11, guards.py:4721)."""
    if isinstance(entries, list):
        return entries
    listed = []
    while entries is not None:
        listed.append(entries)
        entries = entries.next
    return listed


def _compared(entry: Any, frame: Any, backend: Any, stacks: GuardStacks, recorder: Recorder) -> EntryHeld:
    """Check the call against one entry; an entry whose guarded object is gone has only a reason (guards.py:4998)."""
    manager = entry.guard_manager
    if hasattr(manager, "invalidation_reason"):
        return EntryHeld(str(entry.compile_id), (), invalid=str(manager.invalidation_reason))
    unmet, skipped = unmet_guards(manager, frame.f_locals, stacks.lengths_of(manager))
    if skipped:
        what = f"{skipped[0]} and {len(skipped) - 1} more" if len(skipped) > 1 else skipped[0]
        recorder.problem(f"at a recompilation, {what} could not be evaluated: differences there are not shown")
    found, following = divided(unmet, resumed=frame.f_code.co_name.startswith(_RESUMED))
    if not found:  # as torch does: in 2.11, the backends of an entry and a call are never the same object
        found = other_backend(entry.backend, backend)
    return EntryHeld(
        id=str(entry.compile_id),
        unmet=tuple(_guard(each, stacks) for each in found[:_MOST]),
        number=len(found),
        following=tuple(each.guard for each in following[:_MOST]),
    )


def _guard(unmet: Unmet, stacks: GuardStacks) -> UnmetGuard:
    hint = unmet.verbose.rpartition(" (HINT: ")
    return UnmetGuard(
        text=unmet.guard,
        now=unmet.now,
        was=unmet.was or stacks.object_of(unmet.guard),
        stack=frames(stacks.of(unmet.verbose)),
        hint=hint[2] if hint[1] else "",
    )
