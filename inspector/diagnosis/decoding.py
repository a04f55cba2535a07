"""Recognize generation with a cache by the sizes that were compiled: a prompt, then single tokens and growing sizes."""

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.diagnosis import RootCause
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.shape_facts import Shaped, ShapedTensor

_SIZE = re.compile(r"(?P<tensor>.+)\.size\((?P<dim>\d+)\)")
_ARGUMENT = re.compile(r"^(?:L\['(?:kwargs|args)'\]\[(?P<wrapped>[^]]+)\]|L\['(?P<name>\w+)'\])(?P<rest>.*)$")
"""A tensor argument, or a value reached through an argument; torch wraps some functions with `kwargs`."""
_EXTRA = re.compile(r"(?:kwargs|args)\[(?:'(\w+)'|(\d+))\]")


class Growth(Struct, frozen=True):
    """A size of a cache that grew from one compilation to the next."""

    name: str
    was: str
    now: str


def plain_name(subject: str) -> str:
    """Return the caller's name for a wrapper's argument, such as `mask` for `kwargs['mask']`."""
    return _EXTRA.sub(lambda match: match[1] or f"argument {match[2]}", subject)


def sized(cause: Cause) -> tuple[str, int] | None:
    """Return the tensor and the dimension of a cause, or None if the cause is not a size."""
    match = _SIZE.fullmatch(cause.subject)
    if match:
        return (match["tensor"], int(match["dim"]))
    return None


def growth_in(session: Session, recompile: Recompile) -> Growth | None:
    """Return the growth of a cache during single-token calls, or None if no cache grew.

    A cache is a tensor inside an object, or one of several tensors that grew by one.
    """
    before, now = _pair(session, recompile)
    if before is None or now is None:
        return None
    grown = list(_grown(before, now))
    # What an object keeps is a cache however it grows, other tensors only if several grow together.
    kept = [each for each in grown if _is_kept(each[0])]
    by_one = [each for each in grown if int(each[2]) == int(each[1]) + 1]
    chosen = kept or (by_one if len(by_one) > 1 else [])
    if not chosen or not _takes_single_tokens(now, {each[0].source for each in grown}):
        return None
    tensor, was, size, dim = chosen[0]
    return Growth(f"{plain_name(tensor.name)}.size({dim})", was, size)


def is_switch(session: Session, recompile: Recompile) -> bool:
    """Whether a recompilation is a switch between a prompt and single tokens, with a cache."""
    changed = [
        (at, cause)
        for cause in recompile.causes
        if cause.kind in (CauseKind.ZERO_ONE, CauseKind.SIZE) and (at := sized(cause))
    ]
    # Dimension 0 is the batch, which says nothing of tokens.
    single = any(dim >= 1 and "1" in (cause.was, cause.now) for (_, dim), cause in changed)
    return single and has_cache(session, recompile)


def titled_by_generation(cause: RootCause, mine: list[Recompile], session: Session) -> RootCause:
    """Set the title: prefill and decode are expected, a growing cache is not."""
    grown = next((found for each in mine if (found := growth_in(session, each)) is not None), None)
    if grown is not None:
        return replace(
            cause,
            title=f"a cache grows from call to call: {grown.name} {grown.was} → {grown.now}",
            why="Prefill and decode need a graph each. The graph for decoding fits one length of the cache; "
            "the next length recompiles it once more, with a dynamic length.",
            expected="",
        )
    if not mine or not all(is_switch(session, each) for each in mine):
        return cause
    title = f"a prompt and single tokens: {plain_name(cause.title)}"
    return replace(cause, title=title, expected="Prefill and decode need a graph each.")


def has_cache(session: Session, recompile: Recompile) -> bool:
    """Whether the compiled function reads tensors that an argument or the model keeps between calls."""
    if any(_is_filled(cause) for cause in recompile.causes):
        return True
    frame = recompile.compilation.partition("/")[0]
    mine = [each for each in session.shapes if each.compilation.partition("/")[0] == frame]
    return any(_is_kept(tensor) and tensor.role in ("input", "buffer") for each in mine for tensor in each.tensors)


def _is_filled(cause: Cause) -> bool:
    """Whether something inside an argument changed from empty to filled: a flag, a tensor or a length."""
    inside = "." in plain_name(cause.subject) or "[" in plain_name(cause.subject)
    flag = cause.kind is CauseKind.ATTRIBUTE_VALUE and {cause.was, cause.now} <= {"True", "False", "missing", "there"}
    return inside and (flag or cause.kind in (CauseKind.NONE, CauseKind.TYPE))


def _is_kept(tensor: ShapedTensor) -> bool:
    """Whether a tensor is reached through an object: an attribute of an argument, or the items of nested lists."""
    match = _ARGUMENT.match(tensor.source)
    # The base of a view is no object that keeps the tensor.
    rest = (match["rest"] if match else "").replace("._base", "")
    is_module = match is not None and match["name"] == "self"
    if is_module and tensor.role == "buffer":
        return len(tensor.dims) >= 3  # batch, positions, channels: a mask or table has fewer
    return not is_module and ("." in rest or rest.count("[") > 1)


def _pair(session: Session, recompile: Recompile) -> tuple[Shaped | None, Shaped | None]:
    by_id = {each.compilation: each for each in session.shapes}
    return by_id.get(recompile.nearest or ""), by_id.get(recompile.compilation)


def _grown(before: Shaped, now: Shaped) -> Iterator[tuple[ShapedTensor, str, str, int]]:
    old = {(tensor.source, dim.index): dim.size for tensor in before.tensors for dim in tensor.dims}
    for tensor in now.tensors:
        for dim in tensor.dims:
            was = old.get((tensor.source, dim.index), "")
            if dim.index is not None and was.isdecimal() and dim.size.isdecimal() and int(was) < int(dim.size):
                yield tensor, was, dim.size, dim.index


def _takes_single_tokens(now: Shaped, grown: set[str]) -> bool:
    """Whether an input that did not grow has one position: a token, or a value computed from one."""
    inputs = (each for each in now.tensors if each.role == "input" and each.source not in grown and not _is_kept(each))
    # The base of a view has other sizes than the argument.
    plain = (each for each in inputs if not each.source.endswith("._base"))
    return any(dim.size == "1" and (dim.index or 0) >= 1 for each in plain for dim in each.dims)
