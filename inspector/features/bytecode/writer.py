"""Write the steps of a function as statements, and values inline if the order of steps allows it, else as variables.

`Writer` does that; names for variables come from `suggestion` and `numbered`. Mistakes here do no harm:
`reconstruct.py` compiles the text and rejects it unless it takes the same steps.
"""

import ast
import builtins
import copy
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import structs

from ctrace.inspector.facts.bytecode_facts import Code
from ctrace.inspector.features.bytecode.canonical import form
from ctrace.inspector.features.bytecode.operations import parsed
from ctrace.inspector.features.bytecode.symbolic_machine import (
    NONE,
    Arg,
    Block,
    Born,
    Cell,
    Const,
    Contents,
    Event,
    EventResult,
    Fresh,
    Is,
    Leave,
    Not,
    Pair,
    Placeholder,
    Step,
    StopError,
    Traced,
    TruthBranch,
    UnpackedIterable,
    Value,
)

_BUILTINS = frozenset(dir(builtins))
_UNIQUE = re.compile(r"_[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}$")
"""The suffix of torch's names for compiled functions (`output_graph.py`: `unique_id(..., with_uuid=True)`)."""


def identifier(name: str) -> str:
    """Return the name if it is a valid identifier; raise StopError otherwise."""
    if not name.isidentifier() or keyword.iskeyword(name):
        msg = f"The name {name!r:.60} cannot be written as source."
        raise StopError(msg)
    return name


def reserved(code: Code) -> set[str]:
    """Return the names that a local variable must not shadow, including names used in nested functions."""
    # A nested function would read the local variable in place of the global.
    inner = [reserved(each.code) for each in code.constants if each.code is not None]
    numbers = {"LOAD_GLOBAL": 1, "STORE_GLOBAL": 0, "DELETE_GLOBAL": 0}
    used = [(each.arg or 0) >> numbers[each.opname] for each in code.instructions if each.opname in numbers]
    shared = {code.names[number] for number in used if number < len(code.names)}
    return shared.union(code.free, code.cells, _BUILTINS, *inner)


def suggestion(event: Event) -> str:
    """Suggest a variable name for an event's result."""
    match event:
        case Event(op="load_global" | "getattr" | "import" | "import_from" | "load_deref", detail=str(name)):
            word = _UNIQUE.sub("", name).strip("_").split(".")[0]
        case Event(op="getitem", operands=(_, Const(type="str", text=text))):
            word = text[1:-1]
        case _:
            word = "result" if event.op in ("call", "call_ex") else "value"
    if word.isidentifier() and not keyword.iskeyword(word):
        return word
    return "value"


def numbered(word: str) -> Iterator[str]:
    """Yield a name, then the name with the suffixes `_1`, `_2` and so on."""
    yield word
    number = 0
    while True:
        number += 1
        yield f"{word}_{number}"


def uses(block: Block) -> Counter[Value]:
    """Count the uses of each value on the path that uses it most."""
    total: Counter[Value] = Counter()
    for step in block:
        total.update(taken(step))
        match step:
            case TruthBranch():
                total += uses(step.yes) | uses(step.no)
            case Event():
                total += uses(step.failure or [])
                total += uses(step.body or [])
    return total


def all_uses(block: Block) -> Counter[Value]:
    """Count the uses of each value on all paths together."""
    total: Counter[Value] = Counter()
    for step in block:
        total.update(taken(step))
        for inside in _blocks(step):
            total.update(all_uses(inside))
    return total


def _blocks(step: Event | TruthBranch | Leave) -> list[Block]:
    match step:
        case TruthBranch():
            return [step.yes, step.no]
        case Event():
            return [step.failure or [], step.body or []]
        case _:
            return []


def taken(step: Event | TruthBranch | Leave) -> Iterator[Value]:
    """Yield all values that a step takes, including those inside new containers."""
    match step:
        case Event():
            yield from _inside(step.operands, step.born)
        case Leave():
            yield from _inside((step.value,), step.born)
        case TruthBranch():
            yield from _inside((step.test,), ())


def _inside(values: tuple[Value, ...], born: Born) -> Iterator[Value]:
    for value in (*values, *(item for _, contents in born for item in contents.items)):
        match value:
            case Not(inner) | UnpackedIterable(inner):
                yield from _inside((inner,), ())
            case Is(left, right) | Pair(left, right):
                yield from _inside((left, right), ())
            case _:
                yield value


FunctionWriter = Callable[[Code, list[ast.expr], dict[str, ast.expr]], ast.expr | ast.stmt]
_BINARY: dict[str, ast.operator] = {
    "+": ast.Add(),
    "&": ast.BitAnd(),
    "//": ast.FloorDiv(),
    "<<": ast.LShift(),
    "@": ast.MatMult(),
    "*": ast.Mult(),
    "%": ast.Mod(),
    "|": ast.BitOr(),
    "**": ast.Pow(),
    ">>": ast.RShift(),
    "-": ast.Sub(),
    "/": ast.Div(),
    "^": ast.BitXor(),
}
_UNARY: dict[str, ast.unaryop] = {"+": ast.UAdd(), "-": ast.USub(), "~": ast.Invert()}
_COMPARED: dict[str, ast.cmpop] = {
    "<": ast.Lt(),
    "<=": ast.LtE(),
    "==": ast.Eq(),
    "!=": ast.NotEq(),
    ">": ast.Gt(),
    ">=": ast.GtE(),
}
_CONVERSIONS = {0: -1, 1: ord("s"), 2: ord("r"), 3: ord("a")}
Expressions = list[ast.expr]


class Operands:
    """The pending expressions of one block, and the variables that hold its other values."""

    def __init__(self, traced: Traced, counts: Counter[Value], hidden: set[str], function: FunctionWriter) -> None:
        self.traced = traced
        self.counts = counts
        self.left = all_uses(traced.block)
        """The number of uses of each value not written yet, on all paths."""
        self.hidden = hidden
        """Names that a new variable must not have."""
        self.function = function
        self.lines: list[ast.stmt] = []
        self.holds: dict[str, Value] = {}
        self.named: dict[Value, str] = {}
        self.contents: dict[Fresh, Contents] = {}
        self.pending: list[tuple[Value, ast.expr]] = []
        """Expressions that are not part of a statement yet, in the order of the steps."""
        self.last_written: list[ast.expr] = []
        """The operands written last; flushed statements may still precede the statement that uses them."""
        self.tests: set[Value] = set()
        """Results of truth tests, which are written as the tested expression."""
        self.suggested: dict[Value, str] = {}

    def take(self, values: tuple[Value, ...], born: Born = (), truth: bool = False) -> list[ast.expr]:
        """Assign the pending expressions that must be evaluated first to variables, then write the operands.

        With `truth`, only the truth of the values matters.
        """
        self._name_shared(born)
        leaves = [leaf for value in values for leaf in self._leaves(value)]
        waiting = [value for value, _ in self.pending]
        sizes = range(len(waiting), -1, -1)
        # As many of the last pending expressions as the operands take in their order: these stay inline.
        count = next(n for n in sizes if _in_order(leaves, waiting[len(waiting) - n :]))
        out_of_order = [at for at, value in enumerate(waiting[: len(waiting) - count]) if value in leaves]
        if out_of_order:
            self.flush(max(out_of_order) + 1)
        self.last_written = [self.condition(value) if truth else self.expression(value) for value in values]
        self.pending = self.pending[: len(self.pending) - count]
        return self.last_written

    def _name_shared(self, born: Born) -> None:
        self.contents.update(born)
        # The inner containers first, since the outer ones name them.
        for made, contents in reversed(born):
            is_statement = contents.code is not None and contents.code.name != "<lambda>"
            if self.counts[made] > 1 or is_statement:
                self.flush()
                self._define(made)

    def _define(self, made: Fresh) -> None:
        contents = self.contents[made]
        itself = [at for at, item in enumerate(contents.items) if item == made]
        # A list that holds itself needs its name first, and is put in afterwards.
        items = tuple(NONE if at in itself else item for at, item in enumerate(contents.items))
        self.contents[made] = structs.replace(contents, items=items)
        value = self._fresh(made)
        if isinstance(value, ast.FunctionDef):
            self.lines.append(value)
            self.holds[value.name] = made
            self.named[made] = value.name
        elif isinstance(value, ast.expr):
            self.assign(made, value, self.traced.hints.get(made, f"{made.kind}_0"))
        for at in itself:
            target = ast.Subscript(self.expression(made), ast.Constant(at), ast.Store())
            self.lines.append(assigned(target, self.expression(made)))

    def _leaves(self, value: Value) -> list[Value]:
        match value:
            case Not(inner) | UnpackedIterable(inner):
                return self._leaves(inner)
            case Is(left, right) | Pair(left, right):
                return self._leaves(left) + self._leaves(right)
            case Fresh() if value not in self.named:
                if value in self.contents:
                    items = self.contents[value].items
                else:
                    items = ()
                return [leaf for item in items for leaf in self._leaves(item)]
            case EventResult() if value not in self.named:
                return [value]
            case _:
                return []

    def flush(self, count: int | None = None) -> None:
        """Assign the pending expressions to variables, in order; with `count`, only the first ones."""
        for _ in range(len(self.pending) if count is None else count):
            value, written = self.pending[0]
            self.pending = self.pending[1:]
            word = self.traced.hints.get(value) or self.suggested.get(value, "value")
            self.assign(value, self._as_value(value, written), word)

    def assign(self, value: Value, written: ast.expr, word: str) -> None:
        """Assign to a variable whose current value is no longer needed."""
        name = self.variable(value, word)
        self.lines.append(assigned(stored(name), written))

    def variable(self, value: Value, word: str) -> str:
        """Choose a variable for a value."""
        name = next(name for name in numbered(word) if self._is_free(name))
        self.holds[name] = value
        self.named[value] = name
        return name

    def _is_free(self, name: str) -> bool:
        if name in self.hidden:
            return False
        if name not in self.holds:
            return True
        return self.left[self.holds[name]] <= 0 and not any(_reads(each, name) for each in self._unwritten())

    def _unwritten(self) -> list[ast.expr]:
        return [*self.last_written, *(written for _, written in self.pending)]

    def expression(self, value: Value) -> ast.expr:
        """Write a value."""
        match value:
            case Const():
                return parsed(value)
            case Placeholder(name) | Arg(name):
                if isinstance(value, Arg) and self.holds.get(name) != value:
                    raise StopError(f"The argument {name} is used after its variable was reassigned.")
                return loaded(name)
            case Cell(name):
                return _cell(name)
            case Not(inner):
                return ast.UnaryOp(ast.Not(), self.condition(inner))
            case Is(left, right):
                return ast.Compare(self.expression(left), [ast.Is()], [self.expression(right)])
            case UnpackedIterable(inner):
                return ast.Starred(self.expression(inner), ast.Load())
            case Pair(key, item):
                return ast.Dict([self.expression(key)], [self.expression(item)])
            case _:
                return self._known(value)

    def condition(self, value: Value) -> ast.expr:
        """Write a value where only its truth matters."""
        if isinstance(value, Not):
            return ast.UnaryOp(ast.Not(), self.condition(value.value))
        waiting = dict(self.pending)
        if value in waiting:
            return waiting[value]
        return self.expression(value)

    def _known(self, value: Value) -> ast.expr:
        if value in self.named:
            return loaded(self.named[value])
        if isinstance(value, Fresh):
            made = self._fresh(value)
            if isinstance(made, ast.expr):
                return made
        waiting = dict(self.pending)
        if value not in waiting:
            raise StopError("A value is used, but no variable holds it.")
        return self._as_value(value, waiting[value])

    def _as_value(self, value: Value, written: ast.expr) -> ast.expr:
        if value in self.tests:
            # A test leaves a bool; `bool(x)` would be a call of a global.
            return ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), written))
        return written

    def _fresh(self, value: Fresh) -> ast.expr | ast.stmt:
        if value not in self.contents:
            raise StopError("A container is used before it is created.")
        contents = self.contents[value]
        if value.kind == "function":
            return self._function(contents)
        items = [self.expression(item) for item in contents.items]
        if value.kind == "dict":
            return merged(items)
        return _display(value.kind, items)

    def _function(self, contents: Contents) -> ast.expr | ast.stmt:
        parts = dict(zip(contents.parts, contents.items, strict=True))
        if "annotations" in parts or contents.code is None:
            raise StopError("A nested function has annotations.")
        if "defaults" in parts:
            defaults = self.expression(parts["defaults"])
        else:
            defaults = ast.Tuple([], ast.Load())
        if "keyword_defaults" in parts:
            named = self.expression(parts["keyword_defaults"])
        else:
            named = ast.Dict([], [])
        if not isinstance(named, ast.Dict) or not isinstance(defaults, ast.Tuple):
            raise StopError("The defaults of a nested function are in variables.")
        pairs = zip(named.keys, named.values, strict=True)
        by_name = {str(key.value): item for key, item in pairs if isinstance(key, ast.Constant)}
        return self.function(contents.code, defaults.elts, by_name)


def _reads(written: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(written))


def _in_order(leaves: list[Value], waiting: list[Value]) -> bool:
    """Return whether the leaves contain all waiting values in this order; other leaves may stand between them."""
    return [leaf for leaf in leaves if leaf in waiting] == waiting


def _display(kind: str, items: list[ast.expr]) -> ast.expr:
    match kind:
        case "list":
            return ast.List(items, ast.Load())
        case "tuple":
            return ast.Tuple(items, ast.Load())
        # Python adds a frozenset constant to an empty set for `{1, 2, 3}`; the constant is written as that.
        case "set" if len(items) == 1 and isinstance(items[0], ast.Starred):
            return items[0].value
        case "slice":
            ends = [None if isinstance(item, ast.Constant) and item.value is None else item for item in items]
            return ast.Slice(*ends)
        case _:
            raise StopError(f"A {kind} is built in a way that Python source cannot express.")


def _cell(name: str) -> ast.expr:
    """Write the cell of a variable; Python has no shorter expression for it."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    closure = ast.Attribute(ast.Lambda(nothing, loaded(name)), "__closure__", ast.Load())
    return ast.Subscript(closure, ast.Constant(0), ast.Load())


_TEMPORARY = "tmp_"
_UNUSED = "_"
_NO_VARIABLE = ("iter", "spread", "dict_merge", "dict_update", "convert", "exit_failed")
"""Steps whose result cannot be stored in a variable, because it exists only inside other syntax."""


class Writer(Operands):
    """Write the statements of one block; each nested block has its own writer."""

    def inner(self) -> "Writer":
        """Return a writer for a nested block; it starts with the variables of this block."""
        # `left` stays the same object, as it counts the uses on all paths.
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

    def step(self, step: Event | TruthBranch | Leave, level: int) -> None:
        """Write one step."""
        match step:
            case TruthBranch():
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
        value = EventResult(step.number)
        self.suggested[value] = suggestion(step)
        if step.op == "test":
            self.tests.add(value)
        # The user's own variables stay, also where the value could stand inline.
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
            value = EventResult(step.number, part)
            usual = "item" if self.counts[value] else _UNUSED
            word = self.traced.hints.get(value, usual)
            name = stored(self.variable(value, word))
            parts.append(ast.Starred(name, ast.Store()) if part == starred else name)
        return ast.Tuple(parts, ast.Store())

    def _inplace(self, step: Event) -> None:
        left = step.operands[0]
        value = EventResult(step.number)
        word = self.traced.hints.get(value) or self.traced.hints.get(left, "value")
        first, second = self._take_operands(step)
        self.flush()
        # `+=` stores into the variable that holds the operand, which nothing else may need any more.
        kept = isinstance(first, ast.Name) and self.holds.get(first.id) == left and self.left[left] <= 0
        if kept and isinstance(first, ast.Name):
            self.holds[first.id] = value
            self.named[value] = first.id
        else:
            self.assign(value, first, word)
        self.lines.append(ast.AugAssign(stored(self.named[value]), operator(step.detail), second))

    def _branch(self, step: TruthBranch, level: int) -> None:
        (condition,) = self.take((step.test,), truth=True)
        self.flush()
        self.left.subtract(taken(step))
        # Each side goes on to the end of its path, so there is nothing behind it that an `else` would keep apart.
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
        item = EventResult(step.number)
        first = None
        if body:
            first = body[0]
        if isinstance(first, Event) and first.op == "unpack" and first.operands == (item,) and self.counts[item] == 1:
            target = inside.targets(first, None)
            body = body[1:]
        else:
            target = stored(inside.variable(item, self.traced.hints.get(item, "item")))
        lines = inside.write(body, level)
        # The end of the body goes on with the next item anyway.
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
    # A `finally` stands twice in the bytecode: in the handler that reraises, and behind the `try`.
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
    if isinstance(first, Event):
        return first.handled
    return None


def _unhandled(steps: Block) -> Block:
    """Remove what differs between the normal and the exceptional path through a `finally`."""
    return [structs.replace(step, handled=None, failure=None) if isinstance(step, Event) else step for step in steps]


def _except(writer: Writer, lines: list[ast.stmt], handler: Block, block: Block, end: int, level: int) -> int:
    at = next((at for at, step in enumerate(handler) if isinstance(step, Event) and step.op == "match"), None)
    if at is None:
        return _except_all(writer, lines, handler, block, end, level)
    match, branch = handler[at], handler[at + 1]
    if not isinstance(match, Event) or not isinstance(branch, TruthBranch):
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
    # Only a name that is read: Python deletes it behind the clause, with a further handler.
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


def loaded(name: str) -> ast.Name:
    """Read a variable."""
    return ast.Name(identifier(name), ast.Load())


def stored(name: str) -> ast.Name:
    """Write a variable."""
    return ast.Name(identifier(name), ast.Store())


def assigned(target: ast.expr, value: ast.expr) -> ast.stmt:
    """Assign a value."""
    return ast.Assign([target], value, lineno=0)


def operator(symbol: str) -> ast.operator:
    """Return the operator that a symbol such as `+` stands for."""
    return _BINARY[symbol]


def _call(event: Event, operands: Expressions) -> ast.expr:
    names: tuple[str, ...] = event.detail
    positional = operands[1 : len(operands) - len(names)]
    values = operands[len(operands) - len(names) :]
    if len(positional) == 1 and isinstance(positional[0], ast.Starred) and not names:
        # `f(*x)` compiles to `call_ex`, which passes x on as is. This step unpacked x into a list: `f(*[*x])`.
        positional = [ast.Starred(ast.List(positional, ast.Load()), ast.Load())]
    keywords = [ast.keyword(identifier(name), value) for name, value in zip(names, values, strict=True)]
    return ast.Call(operands[0], positional, keywords)


def _call_ex(event: Event, operands: Expressions) -> ast.expr:
    arguments = operands[1]
    starred: Expressions = [ast.Starred(arguments, ast.Load())]
    if isinstance(arguments, ast.Tuple):
        positional = arguments.elts
    else:
        positional = starred
    keywords = []
    if len(operands) != 2:
        keywords = _mapping(operands[2])
    return ast.Call(operands[0], positional, keywords)


def _mapping(mapping: ast.expr) -> list[ast.keyword]:
    if not isinstance(mapping, ast.Dict) or not mapping.keys:
        return [ast.keyword(None, mapping)]
    made = []
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        name = None
        if isinstance(key, ast.Constant):
            name = key.value
        made.append(ast.keyword(None if key is None else identifier(str(name)), value))
    return made


def _format(event: Event, operands: Expressions) -> ast.expr:
    value, conversion = operands[0], _CONVERSIONS[event.detail]
    if isinstance(value, ast.FormattedValue):
        conversion, value = value.conversion, value.value
    spec = None
    if len(operands) > 1:
        spec = operands[1]
    if spec is not None and not isinstance(spec, ast.JoinedStr):
        spec = ast.JoinedStr([spec])
    return ast.JoinedStr([ast.FormattedValue(value, conversion, spec)])


def _string(event: Event, operands: Expressions) -> ast.expr:
    parts: list[ast.expr] = []
    for each in operands:
        if isinstance(each, ast.JoinedStr):
            parts += each.values
        else:
            parts.append(each)
    return ast.JoinedStr(parts)


def merged(operands: Expressions) -> ast.Dict:
    """Merge several dict displays into one; mappings that are not displays become `**mapping`."""
    keys: list[ast.expr | None] = []
    values: Expressions = []
    for each in operands:
        if isinstance(each, ast.Starred):
            keys.append(None)
            values.append(each.value)
        elif isinstance(each, ast.Dict):
            keys.extend(each.keys)
            values.extend(each.values)
        else:
            raise StopError("A dict display contains an item that is not a key-value pair.")
    return ast.Dict(keys, values)


EXPRESSIONS: dict[str, Callable[[Event, Expressions], ast.expr]] = {
    "load_global": lambda event, operands: loaded(event.detail),
    "load_deref": lambda event, operands: loaded(event.detail),
    "getattr": lambda event, operands: ast.Attribute(operands[0], identifier(event.detail), ast.Load()),
    "getitem": lambda event, operands: ast.Subscript(operands[0], operands[1], ast.Load()),
    "unary": lambda event, operands: ast.UnaryOp(_UNARY[event.detail], operands[0]),
    "binary": lambda event, operands: ast.BinOp(operands[0], _BINARY[event.detail], operands[1]),
    "compare": lambda event, operands: ast.Compare(operands[0], [_COMPARED[event.detail]], [operands[1]]),
    "contains": lambda event, operands: ast.Compare(operands[0], [ast.In()], [operands[1]]),
    "call": _call,
    "call_ex": _call_ex,
    "format": _format,
    "convert": lambda event, operands: ast.FormattedValue(operands[0], _CONVERSIONS[event.detail], None),
    "string": _string,
    "dict": lambda event, operands: merged(operands),
    "set": lambda event, operands: ast.Set(operands),
    "spread": lambda event, operands: operands[0],
    "dict_merge": lambda event, operands: operands[0],
    "dict_update": lambda event, operands: operands[0],
    "iter": lambda event, operands: operands[0],
    "test": lambda event, operands: operands[0],
}


def _raise(event: Event, operands: Expressions) -> ast.stmt:
    return ast.Raise(operands[0], operands[1] if len(operands) > 1 else None)


def _stored_attribute(event: Event, operands: Expressions) -> ast.stmt:
    return assigned(ast.Attribute(operands[1], identifier(event.detail), ast.Store()), operands[0])


def _stored_item(event: Event, operands: Expressions) -> ast.stmt:
    return assigned(ast.Subscript(operands[1], operands[2], ast.Store()), operands[0])


STATEMENTS: dict[str, Callable[[Event, Expressions], ast.stmt]] = {
    "setattr": _stored_attribute,
    "delattr": lambda event, operands: ast.Delete([ast.Attribute(operands[0], identifier(event.detail), ast.Del())]),
    "setitem": _stored_item,
    "delitem": lambda event, operands: ast.Delete([ast.Subscript(operands[0], operands[1], ast.Del())]),
    "store_global": lambda event, operands: assigned(stored(event.detail), operands[0]),
    "store_deref": lambda event, operands: assigned(stored(event.detail), operands[0]),
    "delete_global": lambda event, operands: ast.Delete([ast.Name(identifier(event.detail), ast.Del())]),
    "delete_deref": lambda event, operands: ast.Delete([ast.Name(identifier(event.detail), ast.Del())]),
    "raise": _raise,
}
