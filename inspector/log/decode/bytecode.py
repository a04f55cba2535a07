"""Decode our own entries about bytecode; `dispatch.decode` lists the errors."""

from typing import Any

from ctrace.inspector.log.events import core as ev
from ctrace.inspector.log.fields import Fields, frames
from ctrace.inspector.model.bytecode import Code, Constant, Handler, Instruction, Rewritten


def bytecode_seen(compile_id: str, data: Fields) -> ev.BytecodeSeen:
    """Decode a code object before and after Dynamo."""
    known = not data.is_null("code") and not data.is_null("new_code")
    return ev.BytecodeSeen(
        id=compile_id,
        name=data.text("name"),
        qualname=data.text("qualname"),
        file=data.text("file"),
        line=data.integer("line"),
        before=data.integer("bytes_before"),
        after=data.integer("bytes_after"),
        callers=frames(data.maybe_objects("callers")),
        codes=Rewritten(code_of(data.object("code")), code_of(data.object("new_code"))) if known else None,
    )


def code_of(data: Fields) -> Code:
    """Decode a code object as bytecode/disassembly.py writes it."""
    return Code(
        python=data.text("python"),
        name=data.text("name"),
        qualname=data.text("qualname"),
        file=data.text("file"),
        line=data.integer("line"),
        flags=data.integer("flags"),
        arguments=data.integer("arguments"),
        positional_only=data.integer("positional_only"),
        keyword_only=data.integer("keyword_only"),
        variables=data.texts("variables"),
        cells=data.texts("cells"),
        free=data.texts("free"),
        names=data.texts("names"),
        constants=tuple(map(_constant, data.objects("constants"))),
        instructions=tuple(map(_instruction, data.rows("instructions"))),
        handlers=tuple(map(_handler, data.rows("handlers"))),
    )


def _constant(data: Fields) -> Constant:
    return Constant(
        data.text("type"), data.text("text"), None if data.is_null("code") else code_of(data.object("code"))
    )


def _instruction(row: list[Any]) -> Instruction:
    match row:
        case [int(offset), str(name), int() | None as arg, str(text), int() | None as line, int() | None as target]:
            return Instruction(offset, name, arg, text, line, target)
        case _:
            msg = f"not an instruction: {row!r:.80}"
            raise TypeError(msg)


def _handler(row: list[Any]) -> Handler:
    match row:
        case [int(start), int(end), int(target), int(depth), bool(lasti)]:
            return Handler(start, end, target, depth, lasti)
        case _:
            msg = f"not an entry of an exception table: {row!r:.80}"
            raise TypeError(msg)
