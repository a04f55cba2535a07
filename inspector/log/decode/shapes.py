"""Decode entries about sizes; torch logs its own in fx/experimental/symbolic_shapes.py (2.11 and 2.13)."""

from functools import lru_cache
from sys import intern
from typing import Any

from ctrace.inspector.log.events.shapes import (
    CodeLine,
    ConditionMet,
    Dim,
    NumberSeen,
    ShapesSeen,
    Symbol,
    SymbolFixed,
    SymbolMade,
    TensorSeen,
    UnbackedMade,
)
from ctrace.inspector.log.fields import Fields

_DEEPEST = 24
"""How many innermost frames of torch's stack to keep; the function that needed a value is among them."""


def symbol_made(compile_id: str, data: Fields) -> SymbolMade:
    """Decode `create_symbol`."""
    return SymbolMade(
        compile_id, data.text("symbol"), data.text("val"), data.text("source"), _lines(data, "user_stack")
    )


def unbacked_made(compile_id: str, data: Fields) -> UnbackedMade:
    """Decode `create_unbacked_symbol`."""
    return UnbackedMade(compile_id, data.text("symbol"), _lines(data, "user_stack"))


def symbol_fixed(compile_id: str, data: Fields) -> SymbolFixed:
    """Decode `symbolic_shape_specialization`."""
    return SymbolFixed(
        id=compile_id,
        symbol=data.text("symbol"),
        sources=data.texts("sources"),
        value=data.text("value"),
        reason=data.text("reason"),
        stack=_lines(data, "user_stack"),
        asked=_functions(data),
    )


def condition_met(compile_id: str, data: Fields) -> ConditionMet:
    """Decode `guard_added_fast`."""
    return ConditionMet(compile_id, data.text("expr"), _lines(data, "user_stack"), _functions(data))


def shapes_seen(compile_id: str, data: Fields) -> ShapesSeen:
    """Decode `ctrace_shapes`; see capture/dynamo/shapes.py."""
    full = tuple(map(_tensor, data.objects("tensors")))
    still = tuple(map(_static_tensor, data.objects("static")))
    return ShapesSeen(
        id=compile_id,
        assume_static=data.flag("assume_static"),
        automatic=data.flag("automatic"),
        symbols=tuple(map(_symbol, data.objects("symbols"))),
        tensors=full + still,
        numbers=tuple(map(_number, data.objects("numbers"))),
        conditions=frozenset(data.texts("conditions")),
        declared=data.maybe_flag("declared"),
        listed_static=frozenset(data.maybe_texts("listed_static")),
    )


def _lines(data: Fields, name: str) -> tuple[CodeLine, ...]:
    if data.is_null(name):  # torch knows no user code there
        return ()
    return _shared(
        tuple(
            _line(each.integer("filename"), each.integer("line"), each.text("name"), each.maybe_text("loc") or "")
            for each in data.objects(name)
        )
    )


@lru_cache(maxsize=20_000)
def _line(file: int, line: int, name: str, text: str) -> CodeLine:
    return CodeLine(file, line, name, text)


@lru_cache(maxsize=20_000)
def _shared(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the first equal tuple: thousands of events have the same stacks."""
    return items


def _functions(data: Fields) -> tuple[str, ...]:
    innermost = data.maybe_list("stack")[-_DEEPEST:]
    return _shared(tuple(intern(Fields(each, "an item of stack").text("name")) for each in innermost))


def _symbol(data: Fields) -> Symbol:
    return Symbol(
        name=data.text("name"),
        low=data.maybe_integer("low"),
        high=data.maybe_integer("high"),
        sources=data.texts("sources"),
        became=data.maybe_text("became"),
        unbacked=data.flag("unbacked"),
    )


def _tensor(data: Fields) -> TensorSeen:
    dims = tuple(map(_dim, data.objects("dims")))
    return TensorSeen(data.text("source"), data.text("dtype"), data.text("role"), data.maybe_text("always"), dims)


def _static_tensor(data: Fields) -> TensorSeen:
    dims = tuple(Dim(str(size), size=size, policy="static") for size in data.integers("sizes"))
    return TensorSeen(data.text("source"), data.text("dtype"), data.text("role"), data.maybe_text("always"), dims)


def _number(data: Fields) -> NumberSeen:
    return NumberSeen(data.text("source"), data.text("type"), data.maybe_text("value"), _dim(data))


def _dim(data: Fields) -> Dim:
    return Dim(
        expression=data.text("became"),
        symbol=data.maybe_text("symbol"),
        size=data.maybe_integer("size"),
        stride=data.maybe_integer("stride"),
        stride_expression=data.maybe_text("strided") or "",
        policy=data.maybe_text("policy") or "",
        constraint=data.maybe_text("constraint"),
        marks=data.maybe_texts("marks"),
    )
