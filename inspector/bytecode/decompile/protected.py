"""Write the steps that exception handlers protect as `try` and `with` statements."""

import ast
from typing import TYPE_CHECKING

from msgspec import structs

from ctrace.inspector.bytecode.decompile.canonical import form
from ctrace.inspector.bytecode.decompile.names import taken
from ctrace.inspector.bytecode.decompile.values import Block, Branch, Event, Leave, Step, StopError, Value

if TYPE_CHECKING:
    from ctrace.inspector.bytecode.decompile.writer import Writer


def write(writer: "Writer", block: Block, at: int, level: int) -> int:
    """Write the protected steps that start at index `at`. Return the index of the first step after them."""
    step = block[at]
    if not isinstance(step, Event) or step.op == "enter":
        raise StopError(f"The `with` at offset {step.offset} is not supported yet.")
    end = _end(block, at, step.regions[: level + 1])
    handler = _without_outer_handlers(_handler(block[at:end], level + 1), level)
    writer.flush()
    body = writer.inner()
    lines = body.write(block[at:end], level + 1)
    writer.holds, writer.named, writer.contents = body.holds, body.named, body.contents
    return _with_handler(writer, lines, handler, block, end, level)


def _end(block: Block, at: int, regions: tuple[int, ...]) -> int:
    end = at
    while end < len(block):
        step = block[end]
        if not isinstance(step, Event) or step.regions[: len(regions)] != regions:
            break
        end += 1
    return end


def _handler(steps: Block, depth: int) -> Block:
    for step in reversed(steps):
        if isinstance(step, Event) and len(step.regions) == depth and step.failure is not None:
            return step.failure
    raise StopError(f"The `try` around offset {steps[0].offset} contains only other `try` statements.")


def _without_outer_handlers(handler: Block, level: int) -> Block:
    """Remove the steps of outer handlers, which run after this handler reraises."""

    def is_outer(step: Step) -> bool:
        return isinstance(step, Event) and len(step.regions) < level

    at = next((at for at, step in enumerate(handler) if is_outer(step)), None)
    exception = _handled(handler)
    if not at or exception is None:
        return handler
    return [*handler[:at], Leave("raise", exception, exception, (), handler[at].offset)]


def _with_handler(writer: "Writer", lines: list[ast.stmt], handler: Block, block: Block, end: int, level: int) -> int:
    last = handler[-1]
    if isinstance(last, Leave) and last.how == "raise" and last.value == _handled(handler):
        cleanup = handler[:-1]
        after = block[end : end + len(cleanup)]
        if cleanup and form(_unhandled(cleanup)) == form(_unhandled(after)):
            final = writer.inner().write(after, level)
            writer.lines.append(ast.Try(lines, [], [], final))
            return end + len(cleanup)
        caught = ast.ExceptHandler(None, None, writer.inner().write(handler, level))
        writer.lines.append(ast.Try(lines, [caught], [], []))
        return end
    return _except(writer, lines, handler, block, end, level)


def _handled(steps: Block) -> Value | None:
    first = steps[0]
    return first.handled if isinstance(first, Event) else None


def _unhandled(steps: Block) -> Block:
    """Remove what differs between the normal and the exceptional path through a `finally`."""
    return [structs.replace(step, handled=None, failure=None) if isinstance(step, Event) else step for step in steps]


def _except(writer: "Writer", lines: list[ast.stmt], handler: Block, block: Block, end: int, level: int) -> int:
    at = next((at for at, step in enumerate(handler) if isinstance(step, Event) and step.op == "match"), None)
    if at is None:
        return _except_all(writer, lines, handler, block, end, level)
    match, branch = handler[at], handler[at + 1]
    if not isinstance(match, Event) or not isinstance(branch, Branch):
        raise StopError(f"The handler at offset {match.offset} is not supported yet.")
    exception = match.operands[0]
    inside = writer.inner()
    for step in handler[:at]:
        inside.step(step, level)
    (kind,) = inside.take((match.operands[1],), match.born)
    if inside.lines:
        raise StopError(f"The exception class at offset {match.offset} is not a single expression.")
    return _caught(writer, lines, (kind, exception), branch.yes, block, end, level)


def _except_all(writer: "Writer", lines: list[ast.stmt], handler: Block, block: Block, end: int, level: int) -> int:
    return _caught(writer, lines, (None, _handled(handler)), handler, block, end, level)


def _caught(
    writer: "Writer",
    lines: list[ast.stmt],
    what: tuple[ast.expr | None, Value | None],
    steps: Block,
    block: Block,
    end: int,
    level: int,
) -> int:
    kind, exception = what
    inside = writer.inner()
    clause, tail = _split(steps, exception)
    name = None
    if kind is not None and exception is not None and any(exception in taken(step) for step in clause):
        name = inside.variable(exception, writer.traced.hints.get(exception, "error"))
    caught = ast.ExceptHandler(kind, name, inside.write(clause, level) or [ast.Pass()])
    if not tail:
        writer.lines.append(ast.Try(lines, [caught], [], []))
        return end
    after = writer.inner()
    after.holds, after.named, after.contents = inside.holds, inside.named, inside.contents
    writer.lines.append(ast.Try(lines, [caught], writer.inner().write(block[end:], level), []))
    writer.lines.extend(after.write(tail, level))
    return len(block)


def _split(steps: Block, exception: Value | None) -> tuple[Block, Block]:
    """Split a handler's steps at the point where the exception is handled."""

    def is_after(step: Step) -> bool:
        return isinstance(step, Event) and step.handled != exception

    at = next((at for at, step in enumerate(steps) if is_after(step)), len(steps))
    return steps[:at], steps[at:]
