"""Write values as expressions: inline if the order of steps allows it, otherwise through variables."""

import ast
from collections import Counter
from collections.abc import Callable

from msgspec import structs

from ctrace.inspector.facts.bytecode import Code
from ctrace.inspector.features.bytecode.decompile.expressions import assigned, loaded, merged, stored
from ctrace.inspector.features.bytecode.decompile.literals import parsed
from ctrace.inspector.features.bytecode.decompile.names import all_uses, numbered
from ctrace.inspector.features.bytecode.decompile.values import (
    NONE,
    Arg,
    Born,
    Cell,
    Const,
    Contents,
    Fresh,
    Is,
    Made,
    Not,
    Pair,
    Placeholder,
    Spread,
    StopError,
    Traced,
    Value,
)

FunctionWriter = Callable[[Code, list[ast.expr], dict[str, ast.expr]], ast.expr | ast.stmt]


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
        count = next(n for n in sizes if _in_order(leaves, waiting[len(waiting) - n :]))
        out_of_order = [at for at, value in enumerate(waiting[: len(waiting) - count]) if value in leaves]
        self.flush(max(out_of_order) + 1 if out_of_order else 0)
        self.last_written = [self.condition(value) if truth else self.expression(value) for value in values]
        self.pending = self.pending[: len(self.pending) - count]
        return self.last_written

    def _name_shared(self, born: Born) -> None:
        self.contents.update(born)
        for made, contents in reversed(born):
            is_statement = contents.code is not None and contents.code.name != "<lambda>"
            if self.counts[made] > 1 or is_statement:
                self.flush()
                self._define(made)

    def _define(self, made: Fresh) -> None:
        contents = self.contents[made]
        itself = [at for at, item in enumerate(contents.items) if item == made]
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
            case Not(inner) | Spread(inner):
                return self._leaves(inner)
            case Is(left, right) | Pair(left, right):
                return self._leaves(left) + self._leaves(right)
            case Fresh() if value not in self.named:
                items = self.contents[value].items if value in self.contents else ()
                return [leaf for item in items for leaf in self._leaves(item)]
            case Made() if value not in self.named:
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
            case Spread(inner):
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
        return waiting[value] if value in waiting else self.expression(value)

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
            return ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), written))
        return written

    def _fresh(self, value: Fresh) -> ast.expr | ast.stmt:
        if value not in self.contents:
            raise StopError("A container is used before it is created.")
        contents = self.contents[value]
        if value.kind == "function":
            return self._function(contents)
        items = [self.expression(item) for item in contents.items]
        return merged(items) if value.kind == "dict" else _display(value.kind, items)

    def _function(self, contents: Contents) -> ast.expr | ast.stmt:
        parts = dict(zip(contents.parts, contents.items, strict=True))
        if "annotations" in parts or contents.code is None:
            raise StopError("A nested function has annotations.")
        defaults = self.expression(parts["defaults"]) if "defaults" in parts else ast.Tuple([], ast.Load())
        named = self.expression(parts["keyword_defaults"]) if "keyword_defaults" in parts else ast.Dict([], [])
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
