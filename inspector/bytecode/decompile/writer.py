"""Write the steps of a function as statements.

Mistakes here do no harm: `reconstruct.py` compiles the text and rejects it unless it takes the same steps.
"""

import ast
import copy

from ctrace.inspector.bytecode.decompile import protected
from ctrace.inspector.bytecode.decompile.expressions import EXPRESSIONS, STATEMENTS, assigned, operator, stored
from ctrace.inspector.bytecode.decompile.names import suggestion, taken
from ctrace.inspector.bytecode.decompile.operands import Operands
from ctrace.inspector.bytecode.decompile.values import Block, Branch, Event, Leave, Made, StopError, Value

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
                at = protected.write(self, block, at, level)
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
