"""Show the sizes of each function: in its newest graph, how earlier graphs differ, and all sizes of each dimension."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.errors import SelectionError, did_you_mean
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.shape_facts import (
    ConditionKind,
    Dimension,
    DimKind,
    DimPolicy,
    Shaped,
    ShapedTensor,
    SizeCondition,
)
from ctrace.inspector.grouping import grouped

_FIXED = frozenset((DimKind.STATIC, DimKind.SPECIALIZED, DimKind.ZERO_ONE))
"""Kinds of dimensions for which a graph is valid for one size only."""
_STATIC_WHY = {
    DimPolicy.NOT_VARIED: "torch treats a size as static until it varies",
    DimPolicy.PARAMETER: "torch keeps the sizes of parameters static",
    DimPolicy.MODULE: "torch keeps the sizes inside its modules static",
    DimPolicy.ALL_STATIC: "dynamic=False",
    DimPolicy.MARKED_STATIC: "marked with mark_static",
    DimPolicy.DECLARED_STATIC: "dynamic_shapes does not make it dynamic",
    DimPolicy.LISTED_STATIC: "named in TORCH_COMPILE_STATIC_SOURCES",
}
_DYNAMIC_WHY = {
    DimPolicy.ALL_DYNAMIC: "dynamic=True",
    DimPolicy.AUTOMATIC: "it varied before",
    DimPolicy.MARKED_DYNAMIC: "marked with mark_dynamic",
    DimPolicy.MAYBE_DYNAMIC: "marked with maybe_mark_dynamic",
    DimPolicy.MARKED_UNBACKED: "marked with mark_unbacked",
    DimPolicy.DECLARED: "declared in dynamic_shapes",
    DimPolicy.LISTED: "named in TORCH_COMPILE_DYNAMIC_SOURCES",
}


class Sized(Struct, frozen=True):
    """A dimension of the newest graph, and the distinct sizes that it had in all compilations, in order."""

    JSON: ClassVar[str] = (
        "index=dim.index name kind=dim.kind policy=dim.policy size=dim.size stride=dim.stride low=dim.low "
        "high=dim.high equals=dim.became|null_if_empty same_as=dim.same_as took one_graph_each why|null_if_empty "
        "fixed=dim.fixed conditions=dim.conditions"
    )
    name: str
    """As the user would write it: `x.size(0)`."""
    dim: Dimension
    took: tuple[str, ...]
    free_in: str | None = None
    """The newest graph that is valid for more than one size of it; None if there is none."""
    was_fixed: bool = False
    """Whether the code specialized it in any graph."""
    was_apart: bool = False
    """Whether any graph is valid for 0 or 1 only."""
    was_duck: bool = False
    """Whether an earlier graph assumed that it equals another dimension, of which it is independent now."""

    @property
    def one_graph_each(self) -> bool:
        """Whether every size needed a separate graph."""
        return self.free_in is None and len(self.took) > 1

    @property
    def why(self) -> str:
        """Why it is static or dynamic, in a few words; empty if not known."""
        dim = self.dim
        match dim.kind:
            case DimKind.STATIC:
                return _STATIC_WHY.get(dim.policy, "")
            case DimKind.ZERO_ONE:
                return f"torch always specializes on {dim.size}"
            case DimKind.SPECIALIZED:
                began = _DYNAMIC_WHY.get(dim.policy)
                if began:
                    return f"dynamic at first ({began})"
                return "dynamic at first"
            case DimKind.DUCK:
                return "the same size when first seen, so torch assumes that they stay equal"
            case DimKind.SYMBOLIC | DimKind.UNBACKED:
                return _DYNAMIC_WHY.get(dim.policy, "")


class SizedTensor(Struct, frozen=True):
    """A tensor or a number of the newest graph."""

    JSON: ClassVar[str] = "name=tensor.name source=tensor.source dtype=tensor.dtype role=tensor.role dims"
    tensor: ShapedTensor
    dims: tuple[Sized, ...]

    @property
    def is_plain(self) -> bool:
        """Whether all dimensions are static and had only one size."""
        return all(sized.dim.kind is DimKind.STATIC and len(sized.took) < 2 for sized in self.dims)

    @property
    def is_dull(self) -> bool:
        """Whether it is plain, and its dimensions are static for the same reason."""
        return self.is_plain and len({sized.dim.policy for sized in self.dims}) < 2

    @property
    def is_shown(self) -> bool:
        """Whether to show it: always an input or a number; a parameter or buffer only if it is not plain."""
        return self.tensor.role in ("input", "number") or not self.is_plain


class EarlierGraph(Struct, frozen=True):
    """An earlier graph of a function, and the dimensions that it treats differently."""

    compilation: str
    differences: tuple[str, ...]


class FunctionShapes(Struct, frozen=True):
    """A function's newest graph, and the earlier graphs that treat some size differently, newest first."""

    JSON: ClassVar[str] = (
        "function=latest.function file=latest.file|relative line=latest.line compilation=latest.compilation "
        "compilations=graphs complete=latest.complete failed=latest.fail_type tensors unbacked=latest.unbacked "
        "needed=latest.needed earlier"
    )
    latest: Shaped
    earlier: tuple[EarlierGraph, ...]
    tensors: tuple[SizedTensor, ...]
    graphs: int


def by_function(session: Session, function: str | None = None) -> tuple[FunctionShapes, ...]:
    """Group compilations by their code object.

    Raises:
        TargetError: there is no such function.
    """
    # By Dynamo's number of the code object: two methods may have one name.
    groups = grouped(session.shapes, lambda shaped: shaped.compilation.partition("/")[0])
    names = dict.fromkeys(group[-1].function for group in groups.values())
    if function is not None and function not in names:
        todo = did_you_mean(function, names, f"compiled ones: {', '.join(names) or 'none'}")
        raise SelectionError("function", f"{function}: no compiled function has that name", todo)
    chosen = (group for group in groups.values() if function in (None, group[-1].function))
    return tuple(map(_function, chosen))


def _function(group: list[Shaped]) -> FunctionShapes:
    latest = group[-1]
    sized = tuple(_sized(tensor, group) for tensor in latest.tensors)
    earlier = [EarlierGraph(each.compilation, _differences(each, latest)) for each in reversed(group[:-1])]
    return FunctionShapes(latest, tuple(each for each in earlier if each.differences), sized, len(group))


def _sized(tensor: ShapedTensor, group: list[Shaped]) -> SizedTensor:
    history = [(shaped, each) for shaped in group for each in shaped.tensors if each.source == tensor.source]
    dims = []
    for dim in tensor.dims:
        # What earlier graphs did with it tells whether marking it helps.
        past = [(shaped, one) for shaped, each in history for one in each.dims if one.index == dim.index]
        free = [shaped.compilation for shaped, one in past if one.kind not in _FIXED]
        dims.append(
            Sized(
                name=dim_name(tensor, dim),
                dim=dim,
                took=tuple(dict.fromkeys(one.size for _, one in past if one.size)),
                free_in=free[-1] if free else None,
                was_fixed=any(one.kind is DimKind.SPECIALIZED for _, one in past),
                was_apart=any(one.kind is DimKind.ZERO_ONE for _, one in past),
                # A size that equals others in the first graph by chance has other partners, or none, in a later one.
                was_duck=any(one.kind is DimKind.DUCK and one.same_as != dim.same_as for _, one in past),
            )
        )
    return SizedTensor(tensor, tuple(dims))


def dim_name(tensor: ShapedTensor, dim: Dimension) -> str:
    """Name a dimension as the user would write it."""
    if dim.index is None:
        return tensor.name
    return f"{tensor.name}.size({dim.index})"


def _differences(before: Shaped, latest: Shaped) -> tuple[str, ...]:
    """List the dimensions that an earlier graph treats differently from the newest one."""
    now = {(tensor.source, dim.index): dim for tensor in latest.tensors for dim in tensor.dims}
    found = []
    for tensor in before.tensors:
        for dim in tensor.dims:
            other = now.get((tensor.source, dim.index))
            if other is not None and _form(dim) != _form(other):
                found.append(f"{dim_name(tensor, dim)} {short(dim)}")
    return tuple(found)


def _form(dim: Dimension) -> tuple[str, ...]:
    """Return how a graph treats a dimension, without the size to which it is fixed, which the report shows anyway."""
    if dim.kind in _FIXED:
        return ("fixed",)
    return (dim.kind, dim.became, str(dim.low), str(dim.high), *dim.same_as)


def short(dim: Dimension) -> str:
    """Describe briefly how a graph treats a dimension."""
    match dim.kind:
        case DimKind.STATIC:
            return f"static {dim.size}"
        case DimKind.ZERO_ONE:
            return f"always {dim.size}"
        case DimKind.SPECIALIZED:
            return f"fixed to {(dim.fixed and dim.fixed.value) or dim.size}"
        case DimKind.DUCK | DimKind.SYMBOLIC if dim.became or dim.same_as:
            return f"always equal to {dim.became or dim.same_as[0]}"
        case DimKind.UNBACKED:
            return f"unbacked, {range_words(dim.low, dim.high)}"
        case _:
            if _has_range(dim):
                return range_words(dim.low, dim.high)
            return "dynamic"


def _has_range(dim: Dimension) -> bool:
    return dim.low is not None or dim.high is not None


def range_words(low: int | None, high: int | None) -> str:
    """Write a range."""
    if low is None and high is None:
        return "any value"
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is None:
        return f"{high} or less"
    return f"{low} or more"


def telling(dim: Dimension) -> tuple[SizeCondition, ...]:
    """Return the conditions that the user's code or an operation puts on a dimension."""
    return tuple(each for each in dim.conditions if each.kind is not ConditionKind.OPERATION)


def violations(session: Session) -> tuple[str, ...]:
    """Explain each ConstraintViolationError: the user's mark, and the lines that contradict it."""
    failed = [shaped for shaped in session.shapes if shaped.fail_type == "ConstraintViolationError"]
    return tuple(sentence for shaped in failed for sentence in _violations(shaped))


def _violations(shaped: Shaped) -> Iterator[str]:
    for tensor in shaped.tensors:
        for dim in tensor.dims:
            # Unknown in a log of torch alone: then the error says that a mark was there.
            if dim.policy not in (DimPolicy.MARKED_DYNAMIC, DimPolicy.MARKED_UNBACKED, DimPolicy.UNKNOWN):
                continue
            name = dim_name(tensor, dim)
            if dim.kind is DimKind.SPECIALIZED:
                yield f"{name} is marked dynamic, but can only be {dim.size}. {_because(dim, tensor, shaped)}"
            elif dim.became:
                yield f"{name} is marked dynamic, but must always equal {dim.became}. {_because(dim, tensor, shaped)}"
            elif dim.ranged and telling(dim):
                yield f"{name} is marked with a range, but parts of it are impossible. {_because(dim, tensor, shaped)}"


def _because(dim: Dimension, tensor: ShapedTensor, shaped: Shaped) -> str:
    causes = telling(dim)
    if dim.fixed:
        causes = (dim.fixed,)
    reasons = " ".join(f"{_line(each)}{each.why}" for each in causes[:3])
    equal = [
        f"{dim_name(other, one)} ({other.role})"
        for other in shaped.tensors
        for one in other.dims
        if other is not tensor and one.kind is DimKind.STATIC and one.size == dim.size and dim.fixed
    ]
    also = ""
    if equal:
        also = f" Also static at {dim.size}: {', '.join(equal[:3])}."
    return f"{reasons}{also}"


def _line(condition: SizeCondition) -> str:
    if condition.line is not None:
        return f"Line {condition.line}: "
    return ""
