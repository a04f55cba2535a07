"""Write the steps of a function as statements.

Mistakes here do no harm: `reconstruct.py` compiles the text and rejects it unless it takes the same steps.
"""

import ast
import copy

from msgspec import structs

from ctrace.inspector.features.bytecode.decompile.canonical import form
from ctrace.inspector.features.bytecode.decompile.expressions import EXPRESSIONS, STATEMENTS, assigned, operator, stored
from ctrace.inspector.features.bytecode.decompile.names import suggestion, taken
from ctrace.inspector.features.bytecode.decompile.operands import Operands
from ctrace.inspector.features.bytecode.decompile.values import (
    Block,
    Branch,
    Event,
    Leave,
    Made,
    Step,
    StopError,
    Value,
)

_TEMPORARY = "tmp_"
_UNUSED = "_"
_NO_VARIABLE = ("iter", "spread", "dict_merge", "dict_update", "convert", "exit_failed")
"""Steps whose result cannot be stored in a variable, because it exists only inside other syntax."""


class Writer(Operands):
    """Write the statements of one block; each nested block has its own writer."""

    def inner(self) -> "Writer":
        """Return a writer for a nested block; it starts with the variables of this block."""
        made = copy.copy(self)
        made.lines, made.pending = [], []
        made.holds, made.named, made.contents = dict(self.holds), dict(self.named), dict(self.contents)
        return made

    def write(self, block: Block, level: int = 0) -> list[ast.stmt]:
        """Write the steps of a block inside `level` enclosing `try` statements."""
        at = 0
        while at < len(block):
            step = block[at]
            if isinstance(step, Event) and (len(step.regions) > level or step.op == "enter"):
                at = _protected(self, block, at, level)
                continue
            self.step(step, level)
            at += 1
        self.flush()
        return self.lines

    def step(self, step: Event | Branch | Leave, level: int) -> None:
        """Write one step."""
        match step:
            case Branch():
                self._branch(step, level)
            case Leave():
                self._leave(step)
            case Event(op="for"):
                self._loop(step, level)
            case Event(op="inplace"):
                self._inplace(step)
            case _:
                self._event(step)

    def _take_operands(self, step: Event | Leave) -> list[ast.expr]:
        made = self.take(step.operands if isinstance(step, Event) else (step.value,), step.born)
        self.left.subtract(taken(step))
        return made

    def _event(self, step: Event) -> None:
        operands = self._take_operands(step)
        if step.op in STATEMENTS:
            self.flush()
            self.lines.append(STATEMENTS[step.op](step, operands))
        elif step.op in EXPRESSIONS:
            self._keep(step, EXPRESSIONS[step.op](step, operands))
        elif step.op == "unpack":
            self._unpack(step, operands[0], None)
        elif step.op == "unpack_rest":
            self._unpack(step, operands[0], step.detail[0])
        else:
            raise StopError(f"The step {step.op} at offset {step.offset} is not supported yet.")

    def _keep(self, step: Event, written: ast.expr) -> None:
        """Keep a step's result pending for its only use, assign it to a variable, or write it as a statement."""
        value = Made(step.number)
        self.suggested[value] = suggestion(step)
        if step.op == "test":
            self.tests.add(value)
        if step.op in _NO_VARIABLE or (self.counts[value] == 1 and not self._is_users(value)):
            self.pending.append((value, written))
        elif self.counts[value]:
            self.pending.append((value, written))
            self.flush()
        else:
            self.flush()
            self.lines.append(ast.Expr(written))

    def _is_users(self, value: Value) -> bool:
        """Return whether a variable that Dynamo did not create holds the value."""
        return not self.traced.hints.get(value, _TEMPORARY).startswith(_TEMPORARY)

    def _unpack(self, step: Event, written: ast.expr, starred: int | None) -> None:
        self.flush()
        self.lines.append(assigned(self.targets(step, starred), written))

    def targets(self, step: Event, starred: int | None) -> ast.expr:
        """Write the variables that take a step's results."""
        parts: list[ast.expr] = []
        for part in range(step.results):
            value = Made(step.number, part)
            word = self.traced.hints.get(value, "item" if self.counts[value] else _UNUSED)
            name = stored(self.variable(value, word))
            parts.append(ast.Starred(name, ast.Store()) if part == starred else name)
        return ast.Tuple(parts, ast.Store())

    def _inplace(self, step: Event) -> None:
        left = step.operands[0]
        value = Made(step.number)
        word = self.traced.hints.get(value) or self.traced.hints.get(left, "value")
        first, second = self._take_operands(step)
        self.flush()
        kept = isinstance(first, ast.Name) and self.holds.get(first.id) == left and self.left[left] <= 0
        if kept and isinstance(first, ast.Name):
            self.holds[first.id] = value
            self.named[value] = first.id
        else:
            self.assign(value, first, word)
        self.lines.append(ast.AugAssign(stored(self.named[value]), operator(step.detail), second))

    def _branch(self, step: Branch, level: int) -> None:
        (condition,) = self.take((step.test,), truth=True)
        self.flush()
        self.left.subtract(taken(step))
        yes, no = self.inner().write(step.yes, level), self.inner().write(step.no, level)
        self.lines.append(ast.If(condition, yes or [ast.Pass()], []))
        self.lines.extend(no)

    def _leave(self, step: Leave) -> None:
        if step.how == "return":
            (value,) = self._take_operands(step)
            self.flush()
            self.lines.append(ast.Return(value))
            return
        self.flush()
        if step.how == "continue":
            self.lines.append(ast.Continue())
        elif step.how == "raise":
            if step.handled is not None and step.value != step.handled:
                raise StopError(f"The `raise` at offset {step.offset} does not raise the exception being handled.")
            self.lines.append(ast.Raise())

    def _loop(self, step: Event, level: int) -> None:
        (iterable,) = self._take_operands(step)
        self.flush()
        body = list(step.body or [])
        inside = self.inner()
        inside.hidden = self.hidden | set(self.holds)
        item = Made(step.number)
        first = body[0] if body else None
        if isinstance(first, Event) and first.op == "unpack" and first.operands == (item,) and self.counts[item] == 1:
            target = inside.targets(first, None)
            body = body[1:]
        else:
            target = stored(inside.variable(item, self.traced.hints.get(item, "item")))
        lines = inside.write(body, level)
        if lines and isinstance(lines[-1], ast.Continue):
            lines.pop()
        self.lines.append(ast.For(target, iterable, lines or [ast.Pass()], [], lineno=0))
        # After the loop, new variables must not reuse the names assigned in it.
        self.hidden = self.hidden | (set(inside.holds) - set(self.holds))


# Steps that exception handlers protect become `try` and `with` statements; their bodies get writers of their own.


def _protected(writer: Writer, block: Block, at: int, level: int) -> int:
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


def _with_handler(writer: Writer, lines: list[ast.stmt], handler: Block, block: Block, end: int, level: int) -> int:
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


def _except(writer: Writer, lines: list[ast.stmt], handler: Block, block: Block, end: int, level: int) -> int:
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


def _except_all(writer: Writer, lines: list[ast.stmt], handler: Block, block: Block, end: int, level: int) -> int:
    return _caught(writer, lines, (None, _handled(handler)), handler, block, end, level)


def _caught(
    writer: Writer,
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
