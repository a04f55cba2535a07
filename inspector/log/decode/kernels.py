"""Decode entries about kernels and the code that calls them; `dispatch.decode` lists the errors."""

from typing import Any

from ctrace.inspector.facts.events.kernels import CodeWritten, KernelMade, Layout, Lines, PartGenerated, TorchCodeSeen
from ctrace.inspector.facts.kernels import KernelBuffer, KernelCall, Pointer, Stage
from ctrace.inspector.log.fields import Fields
from ctrace.inspector.log.reader import Entry


def kernel_made(compile_id: str, data: Fields) -> KernelMade:
    """Decode one call of a kernel."""
    stacks = data.texts("stacks")
    known = (*stacks, *data.maybe_texts("beside"))
    statements = () if data.is_null("statements") else data.rows("statements")
    return KernelMade(
        id=compile_id,
        stage=Stage(data.text("stage")),
        name=data.text("name"),
        language=data.text("language"),
        ops=data.texts("ops"),
        stacks=stacks,
        operations=data.maybe_texts("operations"),
        statements=tuple(_lines(rows, known) for rows in statements),
        user=not data.is_null("user") and data.flag("user"),
        counted=data.maybe_integer("counted"),
    )


def _lines(rows: list[Any], known: tuple[str, ...]) -> Lines:
    """Decode the stacks of each line of a kernel object; tens of thousands of lines share few sets of stacks."""
    lines: dict[int, tuple[str, ...]] = {}
    sets: dict[tuple[int, ...], tuple[str, ...]] = {}
    stacks: tuple[str, ...] = ()
    last: list[Any] | None = None
    for row in rows:
        text, numbers = row
        if type(text) is not int or type(numbers) is not list:
            msg = f"not a line with its stacks: {row!r:.80}"
            raise TypeError(msg)
        if numbers != last:  # most lines have the stacks of the line before
            key = tuple(numbers)
            if key not in sets:
                sets[key] = _stacks(key, known)
            stacks, last = sets[key], numbers
        lines[text] = stacks
    return lines


def _stacks(numbers: tuple[Any, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    if not all(type(each) is int and 0 <= each < len(known) for each in numbers):
        msg = f"not the numbers of stacks: {numbers!r:.80}"
        raise TypeError(msg)
    return tuple(known[number] for number in numbers)


def part_generated(compile_id: str, data: Fields) -> PartGenerated:
    """Decode the buffers and symbols in the code of a graph part."""
    return PartGenerated(
        id=compile_id,
        stage=Stage(data.text("stage")),
        before=data.integer("before"),
        counted=data.integer("counted"),
        buffers=dict(map(_buffer, data.rows("buffers"))),
        symbols=data.maybe_counts("symbols"),
    )


def kernel_called(compile_id: str, data: Fields) -> KernelCall:
    """Decode the arguments of one call of a generated kernel."""
    return KernelCall(
        graph=compile_id,
        stage=Stage(data.text("stage")),
        name=data.text("name"),
        pointers=tuple(Pointer(*_texts(row, 3)) for row in data.rows("pointers")),
        sizes=data.pairs("sizes"),
        numels=data.pairs("numels"),
        buffers=tuple(map(_kernel_buffer, data.objects("buffers"))),
        symbols=data.maybe_counts("symbols"),
        workspaces=data.integer("workspaces"),
    )


def _kernel_buffer(data: Fields) -> KernelBuffer:
    return KernelBuffer(
        name=data.text("name"),
        kind=data.text("kind"),
        node=data.text("node"),
        dtype=data.text("dtype"),
        shape=data.texts("shape"),
        stride=data.texts("stride"),
        device=data.text("device"),
        mutates=data.text("mutates"),
    )


def _texts(row: list[Any], count: int) -> list[str]:
    if len(row) != count or not all(isinstance(each, str) for each in row):
        msg = f"not {count} texts: {row!r:.80}"
        raise TypeError(msg)
    return row


def _buffer(row: list[Any]) -> tuple[str, Layout]:
    match row:
        case [str(name), str(dtype), [*shape], [*stride], int(offset), str(device)] if all(
            type(each) is int for each in (*shape, *stride)
        ):
            return name, Layout(dtype, tuple(shape), tuple(stride), offset, device)
        case _:
            msg = f"not a buffer with its layout: {row!r:.80}"
            raise TypeError(msg)


def code_written(entry: Entry) -> CodeWritten | TorchCodeSeen | None:
    """Decode the code of a graph part; a log that only torch wrote does not name the part."""
    data = Fields(entry.data, entry.kind)
    stage = data.maybe_text("stage")
    if entry.compile_id is None:
        return None
    if stage is None:
        return TorchCodeSeen(entry.compile_id, entry.text)
    return CodeWritten(entry.compile_id, Stage(stage), entry.text)
