"""Records of torch and ctrace's hook about sizes, for handmade logs, and handmade sessions with sizes."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ctrace.inspector.facts.session import Failure, FailurePhase
from ctrace.inspector.facts.shape_facts import (
    ConditionKind,
    Dimension,
    DimKind,
    DimPolicy,
    Shaped,
    ShapedTensor,
    SizeCondition,
    Unbacked,
)
from tests.support.helpers import SITE, Log
from tests.support.sessions import HEALTHY, HOSTILE_FILE, HOSTILE_TEXT, MODEL

NUMBER = ("specialize_symnode", "evaluate_expr", "guard_scalar", "guard_int", "evaluate")
BRANCH = ("inner", "evaluate_expr", "guard_scalar", "guard_bool", "evaluate")
CHECK = ("infer_size", "_check", "expect_true", "guard_bool", "evaluate")
OPERATION = ("_reshape_view_helper", "guard_or_false", "evaluate_sym_node")
Line = tuple[str, int, str, str]
"""File, line, function and code."""
HERE: Line = (MODEL, 10, "forward", "if x.shape[0] > 3:")


def symbol(log: Log, at: str, name: str, source: str, value: int = 8, lines: Sequence[Line] = (HERE,)) -> Log:
    """Add the symbol of a size."""
    data = {"symbol": name, "val": str(value), "vr": "[2, int_oo]", "source": source}
    return log.record("create_symbol", {**data, "user_stack": _stack(log, lines), "stack": []}, at=at)


def unbacked(log: Log, at: str, name: str, lines: Sequence[Line] = (HERE,)) -> Log:
    """Add the symbol of a size that depends on data."""
    data = {"symbol": name, "node_id": 1, "vr": "[-int_oo, int_oo]"}
    return log.record("create_unbacked_symbol", {**data, "user_stack": _stack(log, lines), "stack": []}, at=at)


def condition(
    log: Log, at: str, expression: str, asked: Sequence[str] = BRANCH, lines: Sequence[Line] = (HERE,)
) -> Log:
    """Add a condition on symbols."""
    data = {"expr": expression, "user_stack": _stack(log, lines), "stack": _asked(log, asked)}
    return log.record("guard_added_fast", data, at=at)


def fixed(
    log: Log,
    at: str,
    name: str,
    value: str,
    sources: Sequence[str],
    *,
    reason: str = "range_refined_to_singleton",
    asked: Sequence[str] = NUMBER,
    lines: Sequence[Line] | None = (HERE,),
) -> Log:
    """Specialize a symbol to one value."""
    data = {"symbol": name, "value": value, "sources": list(sources), "reason": reason, "stack": _asked(log, asked)}
    stack = None if lines is None else _stack(log, lines)
    return log.record("symbolic_shape_specialization", {**data, "user_stack": stack}, at=at)


def shapes(log: Log, at: str, **parts: Any) -> Log:
    """Add ctrace's record; `tensors`, `static`, `numbers`, `symbols`, `conditions`, and torch's two settings."""
    empty: dict[str, Any] = {name: [] for name in ("tensors", "static", "numbers", "symbols", "conditions")}
    return log.ctrace("shapes", {"assume_static": True, "automatic": True, **empty, **parts}, at=at)


def tensor(source: str, *dims: dict[str, Any], role: str = "input", always: str | None = None) -> dict[str, Any]:
    """A tensor, as in ctrace's record."""
    return {"source": source, "dtype": "float32", "role": role, "always": always, "dims": list(dims)}


def dim(became: str, policy: str = "static", **parts: Any) -> dict[str, Any]:
    """A dimension of such a tensor."""
    size = int(became) if became.isdecimal() else 8
    plain: dict[str, Any] = {"symbol": None, "size": size, "stride": 1, "strided": "1", "constraint": None, "marks": []}
    return {"became": became, "policy": policy, **plain, **parts}


def known(name: str, *sources: str, low: int | None = 2, high: int | None = None, **parts: Any) -> dict[str, Any]:
    """A symbol, as in ctrace's record."""
    return {
        "name": name,
        "low": low,
        "high": high,
        "sources": list(sources),
        "became": None,
        "unbacked": False,
        **parts,
    }


def _stack(log: Log, lines: Sequence[Line]) -> list[dict[str, Any]]:
    return [{"filename": log.file(file), "line": line, "name": name, "loc": code} for file, line, name, code in lines]


def _asked(log: Log, functions: Sequence[str]) -> list[dict[str, Any]]:
    file = log.file(f"{SITE}/torch/fx/experimental/symbolic_shapes.py")
    return [{"filename": file, "line": 1, "name": name, "loc": ""} for name in functions]


STATIC, FREE, FIXED = DimKind.STATIC, DimKind.SYMBOLIC, DimKind.SPECIALIZED
BRANCHED = SizeCondition(
    "x.size(0) > 3", "The graph holds the branch.", ConditionKind.CONDITION, MODEL, 10, "if x.shape[0] > 3:"
)
LOOPED = SizeCondition(
    "x.size(0) == 8", "`for i in range(x.shape[0]):` uses x.size(0) as a plain number, so torch specialized on 8.",
    ConditionKind.NUMBER, MODEL, 12, "for i in range(x.shape[0]):", "8",
)  # fmt: skip


def sized(
    index: int | None, size: int, kind: DimKind = STATIC, policy: DimPolicy = DimPolicy.NOT_VARIED, **parts: Any
) -> Dimension:
    """A dimension of a handmade session."""
    return Dimension(index, str(size), kind, policy, **parts)


def input_of(name: str, *dims: Dimension, role: str = "input", dtype: str = "float32") -> ShapedTensor:
    """A tensor of a handmade session."""
    return ShapedTensor(f"L['{name}']", name, dtype, role, dims)


def graph(id_: str, *tensors: ShapedTensor, **parts: Any) -> Shaped:
    """A graph of a handmade session."""
    return structs.replace(Shaped(id_, "forward", MODEL, 8, tensors), **parts)


WEIGHT = input_of("weight", sized(0, 3, policy=DimPolicy.PARAMETER), role="parameter")
SIZES = structs.replace(
    HEALTHY,
    shapes=(
        graph("0/0", input_of("x", sized(0, 4), sized(1, 6)), input_of("mask", sized(0, 4)), WEIGHT),
        graph(
            "0/1",
            input_of(
                "x", sized(0, 8, FREE, DimPolicy.AUTOMATIC, low=4, conditions=(BRANCHED,)), sized(1, 6)
            ),
            input_of("mask", sized(0, 8, FREE, DimPolicy.AUTOMATIC, low=4, became="x.size(0)")),
            input_of("n", sized(None, 3, FREE, DimPolicy.AUTOMATIC), role="number", dtype="int"),
            WEIGHT,
            unbacked=(Unbacked("u0", 0, None, MODEL, 14, "index = x.nonzero()"),),
        ),
        graph("1/0", input_of("x", sized(0, 4)), function="looped", line=11),
        graph("1/1", input_of("x", sized(0, 8, FIXED, DimPolicy.AUTOMATIC, fixed=LOOPED)), function="looped", line=11),
        graph(
            "2/0",
            input_of("x", sized(0, 5, DimKind.DUCK, DimPolicy.ALL_DYNAMIC, low=2, same_as=("y.size(1)",)), sized(1, 1, DimKind.ZERO_ONE, DimPolicy.ALL_DYNAMIC)),
            input_of("y", sized(0, 7, FREE, DimPolicy.ALL_DYNAMIC, low=2), sized(1, 5, DimKind.DUCK, DimPolicy.ALL_DYNAMIC, low=2, same_as=("x.size(0)",))),
            function="paired", line=16,
        ),
    ),
)  # fmt: skip
"""A function with a dynamic size, one whose loop specializes it, and one whose sizes torch treats as equal."""

VIOLATED = structs.replace(
    HEALTHY,
    graphs=(),
    failure=Failure(
        FailurePhase.RUN, "ConstraintViolationError", "Constraints violated (L['x'].size()[0])!", MODEL, 30
    ),
    shapes=(
        graph(
            "0/0",
            input_of("x", sized(0, 8, FIXED, DimPolicy.MARKED_DYNAMIC, fixed=LOOPED), sized(1, 6)),
            input_of("positions", sized(0, 8, policy=DimPolicy.PARAMETER), role="parameter"),
            fail_type="ConstraintViolationError",
        ),
    ),
)
"""A mark_dynamic that torch cannot honor."""

HOSTILE = structs.replace(
    HEALTHY,
    shapes=(
        graph(
            "0/0",
            ShapedTensor(
                HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, "input",
                (sized(0, 8, FIXED, DimPolicy.AUTOMATIC, fixed=SizeCondition(HOSTILE_TEXT, HOSTILE_TEXT, ConditionKind.NUMBER, HOSTILE_FILE, 1, HOSTILE_TEXT, HOSTILE_TEXT)),
                 sized(1, 8, FREE, DimPolicy.AUTOMATIC, became=HOSTILE_TEXT, conditions=(SizeCondition(HOSTILE_TEXT, HOSTILE_TEXT, ConditionKind.CHECK),))),
            ),
            function=HOSTILE_TEXT, file=HOSTILE_FILE, fail_type=HOSTILE_TEXT,
            unbacked=(Unbacked(HOSTILE_TEXT, None, None, HOSTILE_FILE, 1, HOSTILE_TEXT),),
            needed=(SizeCondition(HOSTILE_TEXT, HOSTILE_TEXT, ConditionKind.CONDITION, HOSTILE_FILE, 1, HOSTILE_TEXT),),
        ),
    ),
)  # fmt: skip
ALL = {"sizes": SIZES, "violated": VIOLATED, "hostile": HOSTILE, "none": HEALTHY}
