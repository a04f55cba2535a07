"""Decode entries about sizes; torch logs its own in fx/experimental/symbolic_shapes.py (2.11 and 2.13)."""

from functools import lru_cache
from sys import intern
from typing import Any

from ctrace.inspector.facts.events.shapes import (
    CodeLine,
    ConditionMet,
    SymbolFixed,
    SymbolMade,
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
