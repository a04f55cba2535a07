"""Recognize code that a run compiles once for each of several modules, functions or types.

Layers of one class share the code of their methods, and calls of a decorator share the code of its inner function. A
guard then fails because another one runs, not because something changed over time.
"""

from collections.abc import Sequence
from itertools import takewhile

from ctrace.inspector.facts.findings import Cause, CauseKind, Frame, Owner
from ctrace.inspector.log.raw import Raw
from ctrace.inspector.source.owners import frame_outside_torch, owner_of

_OF_MODULES = frozenset(
    (
        CauseKind.ATTRIBUTE_VALUE,
        CauseKind.TYPE,
        CauseKind.IDENTITY,
        CauseKind.LENGTH,
        CauseKind.KEY_ORDER,
        CauseKind.NONE,
        CauseKind.SIZE,
        CauseKind.ZERO_ONE,
        CauseKind.STRIDE,
        CauseKind.DTYPE,
    )
)
"""Kinds of causes in which two modules of one class may differ."""
_OF_CALLS = frozenset((CauseKind.TYPE, CauseKind.IDENTITY))
"""Kinds of causes in which two calls of one function may differ; a number may as well be counted up within a call."""
_OF_INPUTS = frozenset((CauseKind.SIZE, CauseKind.ZERO_ONE, CauseKind.STRIDE, CauseKind.DTYPE, CauseKind.REQUIRES_GRAD))
"""Kinds of causes in which the inputs of two modules may differ in one call: a wider layer gets a wider tensor, and the
second layer one that depends on weights."""
OBJECTS = "calls"
"""What shares a function that is no method of a module."""


def shared_by(raw: Raw, compile_id: str, causes: Sequence[Cause], nearest: str | None) -> str:
    """Return what shares the code, such as `Layer modules`, if a recompilation is for another one; empty if not.

    A module that was not compiled for before is another one, if all that differs belongs to it, or is a size of its
    inputs in the same call of the model. For a function, two objects in the same call are two uses of it; torch's own
    log does not say which call it was.
    """
    if not causes or nearest is None:
        return ""
    mine = _module(raw, compile_id)
    kinds = {cause.kind for cause in causes}
    during = raw.during.get(compile_id)
    in_one_call = during is not None and during == raw.during.get(nearest)
    if mine is None:
        if in_one_call and kinds <= _OF_CALLS and _module(raw, nearest) is None:
            return OBJECTS
        return ""
    is_other = is_later_layer(raw, compile_id)
    receiver = raw.guard_places[compile_id].receiver  # it is a module, so it has a name
    of_module = [_is_of_module(cause, receiver) for cause in causes]
    # One difference between the modules is enough for a graph of its own, whatever their inputs are.
    rest = {cause.kind for cause, is_modules in zip(causes, of_module, strict=True) if not is_modules}
    differ = rest <= _OF_INPUTS and (any(of_module) or in_one_call)
    # Layers of one width differ in gradients only between the first and all others: two graphs, however many they are.
    differ = differ and kinds != {CauseKind.REQUIRES_GRAD}
    if is_other and differ:
        return f"{mine.rpartition(' ')[0]} modules"
    return ""


def is_later_layer(raw: Raw, compile_id: str) -> bool:
    """Whether a method is compiled for a module, and was compiled for others of its class only."""
    mine = _module(raw, compile_id)
    frame = compile_id.partition("/")[0]
    earlier = takewhile(lambda each: each != compile_id, raw.seen)
    before = {_module(raw, each) for each in earlier if each.startswith(f"{frame}/") and raw.has_entry(each)}
    return mine is not None and None not in before and mine not in before


def _module(raw: Raw, compile_id: str) -> str | None:
    placed = raw.guard_places.get(compile_id)
    return placed.of_object if placed else None


def _is_of_module(cause: Cause, receiver: str) -> bool:
    if cause.kind is CauseKind.ALIASING:  # `a is b`, of which both are the module's
        return all(each.startswith(f"{receiver}.") for each in cause.subject.split(" is "))
    return cause.kind in _OF_MODULES and cause.subject.removeprefix("len(").startswith(f"{receiver}.")


def caller_of(raw: Raw, compile_id: str) -> Frame | None:
    """Return the frame outside of torch and of ctrace that called a compiled function; None if it is not known."""
    code = raw.bytecode.get(compile_id)
    if code is None or not code.callers:
        return None
    frame = frame_outside_torch(code.callers, raw.prefixes, raw.home)
    if owner_of(frame.file, raw.prefixes) is Owner.TORCH:
        return None
    return frame
