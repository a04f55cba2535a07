"""Which attributes each object of a class has, whatever its constructor was given.

An attribute that only one side of an `if` sets, or a loop, or a statement behind an early `return`, is missing in other
objects: nothing in the file needs to say None for that. So this reads the other way round: an attribute is certain if
each way through the constructor sets it, or a class body does. Of one that the file sets and that is not certain,
`absent_values.py` asks.

Reads Python without running it.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from ctrace.inspector.source.attribute_writes import FUNCTIONS, is_self, last_name

CONSTRUCTORS = ("__new__", "__init__", "__post_init__")
_REGISTERING = ("register_buffer", "register_parameter", "register_module", "add_module")
_SWALLOWING = ("suppress", "raises")
"""Contexts that end without an exception where their block raised one."""
# Chosen: base classes and calls between methods; further away, an attribute counts as not certain, which is safe.
_DEEPEST = 6


class UncertainAttribute(Struct, frozen=True):
    """An attribute that some objects of a class may be without."""

    line: int
    """One that sets it."""
    tests: tuple[tuple[str, ...], ...] = ()
    """The tests around each statement that sets it, as text."""

    def is_shown(self, held: Collection[str]) -> bool:
        """Whether what holds where code runs says that one of these statements has run."""
        return any(bool(each) and {*each} <= {*held} for each in self.tests)


def uncertain_attribute(
    classes: Mapping[str, ast.ClassDef], names: Iterable[str], attribute: str, called: Collection[str] = ()
) -> UncertainAttribute | None:
    """Return how objects of some classes may be without an attribute that one of these classes sets.

    Args:
        classes: the classes of a file.
        names: those whose objects are read, without the ones that derive from them.
        attribute: the attribute.
        called: methods that have certainly been called before it is read.
    """
    for name in names:
        if any(attribute in _Reading(classes, name, 0).of(name, each) for each in called):
            continue
        related = _above(classes, name)
        setting = [each for one in related for each in _setting(classes[one], attribute)]
        if setting and attribute not in _certain(classes, name, 0):
            tests = [_tests(classes[one], each) for one in related for each in _setting(classes[one], attribute)]
            return UncertainAttribute(setting[0].lineno, tuple(tests))
    return None


def _above(classes: Mapping[str, ast.ClassDef], name: str) -> list[str]:
    """Return a class and those of the file that it derives from, nearest first."""
    found: list[str] = []
    waiting = [name]
    while waiting:
        each = waiting.pop(0)
        if each in classes and each not in found:
            found.append(each)
            waiting += [last_name(base) for base in classes[each].bases]
    return found


def _setting(cls: ast.ClassDef, attribute: str) -> list[ast.stmt]:
    """Return the statements of a class that set an attribute of self."""
    return [
        each for each in ast.walk(cls) if isinstance(each, ast.stmt) and attribute in _set_by(each) and _is_plain(each)
    ]


def _is_plain(statement: ast.stmt) -> bool:
    """Whether a statement has no others inside of it."""
    return not hasattr(statement, "body")


# Each way through a constructor


def _certain(classes: Mapping[str, ast.ClassDef], name: str, depth: int) -> set[str]:
    """Return the attributes that each object of a class has."""
    cls = classes.get(name)
    if cls is None or depth > _DEEPEST:
        return set()
    bases = [last_name(base) for base in cls.bases]
    found = _of_body(cls)
    found |= {one for base in bases for one in _of_bodies(classes, base, depth + 1)}
    methods = {each.name: each for each in cls.body if isinstance(each, FUNCTIONS)}
    made = [methods[each] for each in CONSTRUCTORS if each in methods]
    reading = _Reading(classes, name, depth)
    for method in made:
        found |= reading.sets(method)
    # Python calls the constructor of a base only where the class has none of its own.
    if "__init__" not in methods:
        found |= {one for base in bases for one in _certain(classes, base, depth + 1)}
    return found


def _of_bodies(classes: Mapping[str, ast.ClassDef], name: str, depth: int) -> set[str]:
    """Return what the bodies of a class and of its bases define."""
    if name not in classes or depth > _DEEPEST:
        return set()
    bases = [last_name(base) for base in classes[name].bases]
    return _of_body(classes[name]) | {one for base in bases for one in _of_bodies(classes, base, depth + 1)}


def _of_body(cls: ast.ClassDef) -> set[str]:
    """Return what the body of a class gives each object; a field without a value is one where nothing else sets it."""
    found: set[str] = set()
    is_made = any(isinstance(each, FUNCTIONS) and each.name == "__init__" for each in cls.body)
    for each in cls.body:
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                # Without a constructor in the class, a dataclass makes one that sets each field.
                if value is not None or not is_made:
                    found |= {name}
            case ast.Assign(targets=targets):
                found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return found


class _Reading(Struct, frozen=True):
    """The methods of one class, which its constructor may call."""

    classes: Mapping[str, ast.ClassDef]
    name: str
    depth: int

    def sets(self, method: ast.AST, seen: tuple[str, ...] = ()) -> set[str]:
        """Return what each way through a method sets."""
        ends: list[set[str]] = []
        last = self._through(method.body, set(), ends, seen)  # type: ignore[attr-defined]
        if last is not None:
            ends += [last]
        if not ends:
            return set()
        return set.intersection(*ends)

    def _through(
        self, body: list[ast.stmt], known: set[str], ends: list[set[str]], seen: tuple[str, ...]
    ) -> set[str] | None:
        """Return what is set behind a block; None: nothing goes there. What is set at a `return` is kept in `ends`."""
        after: set[str] | None = {*known}
        for each in body:
            if after is None:
                return None
            match each:
                case ast.Return():
                    ends.append(after | _set_by(each))
                    return None
                # A way that raises leaves no object, so it need not set anything.
                case ast.Raise() | ast.Continue() | ast.Break():
                    return None
                case _ if hasattr(each, "body") or isinstance(each, ast.Match):
                    after = self._through_blocks(each, after, ends, seen)
                case _:
                    after |= _set_by(each) | self._called(each, seen)
        return after

    def _through_blocks(
        self, statement: ast.stmt, known: set[str], ends: list[set[str]], seen: tuple[str, ...]
    ) -> set[str] | None:
        """Return what is set behind a statement that has others inside of it."""
        match statement:
            case ast.If(body=yes, orelse=no):
                return _both(self._through(yes, known, ends, seen), self._through(no, known, ends, seen))
            case ast.With(items=items, body=inner):
                after = self._through(inner, known, ends, seen)
                if any(swallows(item.context_expr) for item in items):
                    return known
                return after
            case ast.Try():
                return self._tried(statement, known, ends, seen)
            case ast.Match(cases=cases):
                after = None
                # Without such a case, none may match.
                if not any(map(takes_all, cases)):
                    after = known
                for one in cases:
                    after = _both(after, self._through(one.body, known, ends, seen))
                return after
            case ast.For(body=inner) | ast.While(body=inner):
                after = self._through(inner, known, ends, seen)
                if after is not None and runs(statement):
                    return after
                return known
        return known

    def _tried(self, node: ast.Try, known: set[str], ends: list[set[str]], seen: tuple[str, ...]) -> set[str] | None:
        after = self._through([*node.body, *node.orelse], known, ends, seen)
        # From what was known before: the block may have raised at its first statement.
        for each in node.handlers:
            after = _both(after, self._through(each.body, known, ends, seen))
        if after is None:
            return None
        return self._through(node.finalbody, after, ends, seen)

    def _called(self, statement: ast.stmt, seen: tuple[str, ...]) -> set[str]:
        """Return what the methods and the constructors set that a statement calls on self."""
        found: set[str] = set()
        for call in (each for each in ast.walk(statement) if isinstance(each, ast.Call)):
            match call.func:
                case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=method):
                    for base in self.classes[self.name].bases:
                        found |= self.of(last_name(base), method, seen)
                case ast.Attribute(value=ast.Name(id="self"), attr=method):
                    found |= self.of(self.name, method, seen)
                case ast.Attribute(value=ast.Name(id=base), attr="__init__") if base in self.classes:
                    found |= self.of(base, "__init__", seen)
        return found

    def of(self, name: str, method: str, seen: tuple[str, ...] = ()) -> set[str]:
        """Return what a method of a class sets, or the one that it has from a base."""
        # A constructor may be entered again for a base; any other method that calls itself adds nothing.
        if (method in seen and method != "__init__") or len(seen) > _DEEPEST:
            return set()
        for each in _above(self.classes, name):
            for one in self.classes[each].body:
                if isinstance(one, FUNCTIONS) and one.name == method:
                    return _Reading(self.classes, each, self.depth).sets(one, (*seen, method))
        return set()


def _both(one: set[str] | None, other: set[str] | None) -> set[str] | None:
    """Return what is set on two ways; None is a way that goes nowhere."""
    if one is None or other is None:
        if one is None:
            return other
        return one
    return one & other


def swallows(context: ast.expr) -> bool:
    """Whether a context may end without an exception where its block raised one."""
    return isinstance(context, ast.Call) and last_name(context.func) in _SWALLOWING


def takes_all(case: ast.match_case) -> bool:
    """Whether a case takes whatever the ones before it left."""
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def runs(loop: ast.For | ast.While | ast.AsyncFor) -> bool:
    """Whether a loop certainly has a round: over literals, or over a number of times that is one."""
    match loop:
        case ast.While(test=ast.Constant(value=value)):
            return bool(value)
        case ast.For(iter=ast.List(elts=elts) | ast.Tuple(elts=elts)):
            return bool(elts)
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(number))])):
            return number > 0
    return False


def _set_by(statement: ast.AST) -> set[str]:
    """Return the attributes of self that a statement sets itself."""
    found: set[str] = set()
    for each in _own(statement):
        match each:
            case ast.Attribute(value=holder, attr=name, ctx=ast.Store()) if is_self(holder):
                found.add(name)
            case ast.Call(func=ast.Attribute(value=holder, attr=kind), args=[ast.Constant(value=str(name)), *_]):
                if kind in _REGISTERING and is_self(holder):
                    found.add(name)
            case ast.Call(func=ast.Name(id="setattr"), args=[holder, ast.Constant(value=str(name)), _]):
                if is_self(holder):
                    found.add(name)
    return found


def _own(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without those of the statements and functions inside of it."""
    yield statement
    for below in ast.iter_child_nodes(statement):
        if not isinstance(below, ast.stmt | ast.Lambda):
            yield from _own(below)


# The tests around it


class Held(Struct, frozen=True):
    """What holds where a statement begins, because of the statements before and around it."""

    tests: tuple[str, ...] = ()
    """The tests that were true, each part of a conjunction alone."""
    attributes: frozenset[str] = frozenset()
    """The attributes of self that were set."""
    called: frozenset[str] = frozenset()
    """The methods of self that were called."""


def held_at(body: Iterable[ast.stmt], lines: Collection[int]) -> Held:
    """Return what holds where the first statement of a block begins that is on some lines, or has one that is."""
    tests: list[str] = []
    attributes: set[str] = set()
    called: set[str] = set()
    for each in body:
        if each.lineno in lines:
            break
        inside = [part for part in blocks_of(each) if any(has_line(one, lines) for one in part)]
        if inside:
            if isinstance(each, ast.If):
                # In the other block, the test is false.
                tests += _parts(each.test if inside[0] is each.body else ast.UnaryOp(ast.Not(), each.test))
            below = held_at(inside[0], lines)
            return Held(
                (*tests, *below.tests), frozenset(attributes | below.attributes), frozenset(called | below.called)
            )
        if isinstance(each, ast.If):
            if isinstance(each.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break) and not each.orelse:
                tests += _parts(ast.UnaryOp(ast.Not(), each.test))
            attributes |= _looked_for(each.test) & {name for one in each.body for name in _set_by(one)}
        elif not hasattr(each, "body"):
            attributes |= _set_by(each)
            called |= _methods_called(each)
    return Held(tuple(tests), frozenset(attributes), frozenset(called))


def _methods_called(statement: ast.stmt) -> set[str]:
    """Return the methods of self that a statement calls, whatever it is."""
    # A call inside of these may be left out.
    if any(isinstance(each, ast.IfExp | ast.BoolOp | ast.Lambda | ast.comprehension) for each in ast.walk(statement)):
        return set()
    calls = [each.func for each in ast.walk(statement) if isinstance(each, ast.Call)]
    return {each.attr for each in calls if isinstance(each, ast.Attribute) and is_self(each.value)}


def blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a statement that has others inside of it."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def has_line(statement: ast.stmt, lines: Collection[int]) -> bool:
    """Whether a statement, or one inside of it, begins on some lines."""
    return any(isinstance(each, ast.stmt) and each.lineno in lines for each in ast.walk(statement))


def _looked_for(test: ast.expr) -> set[str]:
    """Return the attribute that is missing where a test holds: `not hasattr(self, "n")`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id="hasattr"), args=[holder, key])):
            if is_self(holder) and isinstance(key, ast.Constant) and isinstance(key.value, str):
                return {key.value}
    return set()


def _parts(test: ast.expr) -> list[str]:
    """Return, as text, what holds where a test does: each part of a conjunction."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return [text for each in values for text in _parts(each)]
        case ast.UnaryOp(op=ast.Not(), operand=ast.UnaryOp(op=ast.Not(), operand=inner)):
            return _parts(inner)
        case ast.UnaryOp(op=ast.Not(), operand=ast.BoolOp(op=ast.Or(), values=values)):
            return [text for each in values for text in _parts(ast.UnaryOp(ast.Not(), each))]
    return [ast.unparse(test)]


def _tests(cls: ast.ClassDef, statement: ast.stmt) -> tuple[str, ...]:
    """Return the tests around a statement of a method, with parameters that are kept as the attributes that keep them.

    Where `self.wide = wide` stands in the method, `if wide:` tests what `if self.wide:` does later.
    """
    for method in cls.body:
        if isinstance(method, FUNCTIONS) and has_line(method, (statement.lineno,)):
            tests = held_at(method.body, (statement.lineno,)).tests
            for name in _kept(method):
                # Whole names only: `n` in `self.n` or in `count` is another one.
                tests = tuple(re.sub(rf"(?<![\w.]){re.escape(name)}\b", f"self.{name}", each) for each in tests)
            return tests
    return ()


def _kept(method: ast.AST) -> Iterator[str]:
    """Yield the parameters that a method keeps in an attribute of the same name."""
    for each in ast.walk(method):
        match each:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Name(id=value)):
                if name == value:
                    yield name
