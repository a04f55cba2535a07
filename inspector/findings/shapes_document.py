"""What `ctrace shapes` answers (`shapes_document`): the sizes of each function, and lines that keep them dynamic.

These lines are written for the user to paste, only where they help (`marks`).
"""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.facts.shape_facts import DimKind, DimPolicy
from ctrace.inspector.findings.shape_view import FunctionShapes, Sized, SizedTensor, by_function, violations
from ctrace.inspector.knowledge.version_differences import SOURCES_BY_DIMENSION

_PASTABLE = re.compile(r"[\w.\[\]'()-]+")
"""Names without commas and spaces, where torch would split them, and without characters that a shell expands."""
_NAME = re.compile(r"[A-Za-z_][\w.]*(?:\[(?:\d+|'[^']*'|\"[^\"]*\")\][\w.]*)*")
_NUMPY = "___from_numpy("
"""How the source of a NumPy array begins; the user cannot mark one."""
_UNLISTED = "float"
"""The type of Python numbers that torch does not accept in TORCH_COMPILE_DYNAMIC_SOURCES."""
_MODULES = (DimPolicy.PARAMETER, DimPolicy.MODULE)
_STATIC = (DimPolicy.MARKED_STATIC, DimPolicy.DECLARED_STATIC, DimPolicy.LISTED_STATIC)
_DONE = (DimPolicy.MARKED_DYNAMIC, DimPolicy.LISTED, DimPolicy.MARKED_UNBACKED, DimPolicy.DECLARED, DimPolicy.UNKNOWN)


class Mark(Struct, frozen=True):
    """A line to paste, and where to paste it; if the line is empty, `note` is a remark."""

    JSON: ClassVar[str] = "line|null_if_empty note"
    line: str
    note: str


def marks(shown: Iterable[FunctionShapes], torch: str) -> tuple[Mark, ...]:
    """Return lines to paste for dimensions that varied; `torch` is the version of the run."""
    functions = tuple(shown)
    whole = [function for function in functions if not function.latest.resumes]  # users cannot mark resumed inputs
    found: list[Mark] = []
    for function in whole:
        found += [mark for each in function.tensors for mark in _of_tensor(each, function)]
    found += _environment_line(functions, torch)
    found += [mark for function in functions for mark in _checks(function)]
    for function in functions:
        found += [mark for each in function.tensors for mark in _remarks(each, function)]
    return tuple(dict.fromkeys(found))


def _varied(sized: Sized) -> bool:
    """Whether a mark helps: the size varied, and only because of torch's default was a graph compiled for one size."""
    dim = sized.dim
    once = len(sized.took) < 2 and dim.policy is not DimPolicy.AUTOMATIC
    # A mark on a size that the code specializes raises ConstraintViolationError; `_remarks` says so instead.
    if sized.was_fixed or dim.policy in _DONE or once or not sized.took:
        return False
    if dim.policy is DimPolicy.ALL_DYNAMIC:
        return sized.was_duck
    if dim.kind is DimKind.STATIC:
        return dim.policy not in _STATIC
    return dim.kind in (DimKind.SYMBOLIC, DimKind.DUCK)


def _of_tensor(each: SizedTensor, function: FunctionShapes) -> Iterator[Mark]:
    if not _is_marked_by_name(each, function):
        return
    where = f"where {each.tensor.name} of {function.latest.function} is created, before the first call"
    plain = []
    for sized in each.dims:
        if sized.dim.index is None or not _varied(sized) or sized.dim.policy in _MODULES:
            continue
        if bounds := _bounds(sized):
            yield Mark(f"torch._dynamo.mark_dynamic({each.tensor.name}, {sized.dim.index}, {bounds})", where)
        else:
            plain.append(sized.dim.index)
    if plain:
        dims: int | list[int] = plain
        if len(plain) == 1:
            dims = plain[0]
        yield Mark(f"torch._dynamo.mark_dynamic({each.tensor.name}, {dims})", where)


def _is_marked_by_name(each: SizedTensor, function: FunctionShapes) -> bool:
    """Whether the user can mark a tensor: it has a name, and is no part of another tensor, which is marked instead."""
    source = each.tensor.source
    whole = (other.tensor.source for other in function.tensors)
    # The inner tensors of a subclass have sources below its own, e.g. `L['x'].a`, and follow its sizes.
    is_part = any(source.startswith(f"{other}.") for other in whole)
    return not is_part and not source.startswith(_NUMPY) and _NAME.fullmatch(each.tensor.name) is not None


def _bounds(sized: Sized) -> str:
    """Return `min` and `max` if the user's conditions set them, all sizes lie within, and there is no other condition.

    With a range, torch rejects every other condition that involves only that dimension. Passing one bound without the
    other is an error inside torch (2.13, _dynamo/variables/builder.py:4800).
    """
    dim = sized.dim
    simple = dim.conditions and all(_BOUND.fullmatch(each.text) for each in dim.conditions)
    if not simple or dim.low is None or dim.high is None:
        return ""
    sizes = [int(size) for size in sized.took if size.isdecimal()]
    if all(dim.low <= size <= dim.high for size in sizes):
        return f"min={dim.low}, max={dim.high}"
    return ""


_BOUND = re.compile(r"[\w.\[\]']+\.size\(\d+\) (?:<=?|>=?) \d+")


def _environment_line(functions: Iterable[FunctionShapes], torch: str) -> list[Mark]:
    by_dimension = SOURCES_BY_DIMENSION.holds(torch)
    # Without a change of the code no name is needed, so the inputs of resumed functions are listed here, too.
    entries: dict[str, None] = {}
    for function in functions:
        for each in function.tensors:
            for sized in each.dims:
                if _varied(sized) and each.tensor.dtype != _UNLISTED and _PASTABLE.fullmatch(each.tensor.source):
                    at = ""
                    if by_dimension and sized.dim.index is not None:
                        at = f":{sized.dim.index}"
                    entries[f"{each.tensor.source}{at}"] = None
    if not entries:
        return []
    line = f'TORCH_COMPILE_DYNAMIC_SOURCES="{",".join(entries)}"'
    return [Mark(line, "in the environment, without a code change")]


def _checks(function: FunctionShapes) -> Iterator[Mark]:
    """Offer a `torch._check` for each data-dependent condition that the user's code contains."""
    for needed in function.latest.needed:
        if needed.source:
            note = f"before line {needed.line}, if it is always true; torch then does not need the value"
            yield Mark(f"torch._check({needed.source})", note)


def _remarks(each: SizedTensor, function: FunctionShapes) -> Iterator[Mark]:
    for sized in each.dims:
        dim, line = sized.dim, None
        if dim.fixed:
            line = dim.fixed.line
        name = f"{sized.name} of {function.latest.function}"
        if sized.was_fixed and (sized.one_graph_each or dim.policy is DimPolicy.MARKED_DYNAMIC):
            place = "until the code changes"
            if line is not None:
                place = f"until line {line} changes"
            yield Mark("", f"Marking {name} dynamic raises ConstraintViolationError {place}.")
        elif sized.was_apart and len(sized.took) > 1 and dim.index is not None and _is_marked_by_name(each, function):
            line_ = f"torch._dynamo.decorators.mark_unbacked({each.tensor.name}, {dim.index})"
            yield Mark(line_, "to use the same graph for 0 and 1; code that branches on the size then fails")
        elif dim.policy is DimPolicy.MARKED_STATIC and sized.one_graph_each:
            yield Mark("", f"{name} takes several sizes, and mark_static costs a graph for each: remove the mark.")
        elif dim.policy is DimPolicy.LISTED_STATIC and sized.one_graph_each:
            listed = "TORCH_COMPILE_STATIC_SOURCES costs a graph for each: remove it from that list"
            yield Mark("", f"{name} takes several sizes, and {listed}.")


class ShapesDocument(RunDocument, frozen=True, kw_only=True):
    """All sizes, function by function."""

    JSON: ClassVar[str] = "schema verdict=run.verdict functions violations marks problems=run.problems"
    functions: tuple[FunctionShapes, ...]
    violations: tuple[str, ...]
    marks: tuple[Mark, ...]


def shapes_document(session: Session, function: str | None = None) -> ShapesDocument:
    """Answer for all functions, or for one.

    Raises:
        TargetError: there is no such function.
    """
    found = by_function(session, function)
    offered = marks(found, session.environment.torch)
    return ShapesDocument(run=session.run, functions=found, violations=violations(session), marks=offered)
