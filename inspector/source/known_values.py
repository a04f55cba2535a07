"""What is certain where a statement begins: which values cannot be None, and which names have a value.

The statements before it make a value certain (`known_to_be_there`), and a name (`certain_names`). A name that only one
side of an `if` binds, or a loop that may have no round, is unbound in other calls: the branch that read it was rarely
taken, and what replaces the branch reads it in each call. So a name is certain if each way to the statement binds it.
Of one that the function or the file binds and that is not certain, `absent_values.py` asks.

Reads Python without running it.
"""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec import Struct

from ctrace.inspector.source.attribute_writes import FUNCTIONS
from ctrace.inspector.source.certain_attributes import blocks_of, has_line, runs, swallows, takes_all

_NOT_OWN = (ast.stmt, ast.match_case, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Parts of a statement that bind names elsewhere, or only where a block runs."""


def certain_names(
    body: Iterable[ast.stmt], lines: Collection[int], has_elements: Callable[[ast.expr], bool] = lambda _: False
) -> set[str]:
    """Return the names that a block has certainly bound where its first statement begins that is on some lines.

    Without such a statement, what it has bound at its end. `has_elements` says of what a loop goes through whether it
    is never empty.
    """
    return _Binding(has_elements).until(body, lines)


def binding_statements(body: Iterable[ast.stmt], name: str) -> Iterator[ast.stmt]:
    """Yield the statements of a block that bind a name, those inside of others, too, without functions and classes."""
    for each in body:
        target = set()
        if isinstance(each, ast.For | ast.AsyncFor):
            target = _stored(each.target)
        if name in _of_head(each) | target:
            yield each
        if not isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            for part in blocks_of(each):
                yield from binding_statements(part, name)


class _Binding(Struct, frozen=True):
    """Each way through statements, and what it binds."""

    has_elements: Callable[[ast.expr], bool]

    def until(self, body: Iterable[ast.stmt], lines: Collection[int]) -> set[str]:
        """Return what a block has bound at its first statement on some lines, or at its end."""
        known: set[str] = set()
        for each in body:
            if each.lineno in lines:
                break
            # A statement that holds the line is left at that block: the others do not run.
            inside = next((part for part in blocks_of(each) if any(has_line(one, lines) for one in part)), None)
            if inside is not None:
                return known | self._at_the_begin(each, inside) | self.until(inside, lines)
            after = self._behind(each, known)
            if after is None:
                break
            known = after
        return known

    def _at_the_begin(self, statement: ast.stmt, block: list[ast.stmt]) -> set[str]:
        """Return what a statement has bound where one of its blocks begins."""
        known = _of_head(statement)
        match statement:
            case ast.For(target=target, body=body) | ast.AsyncFor(target=target, body=body) if block is body:
                return known | _stored(target)
            # `else` of a try runs behind the whole of its body.
            case ast.Try(body=body, orelse=orelse) if block is orelse:
                return known | (self._through(body, set()) or set())
            case ast.Match(cases=cases):
                return known.union(*(_stored(one.pattern) for one in cases if one.body is block))
        return known

    def _through(self, body: Iterable[ast.stmt], known: set[str]) -> set[str] | None:
        """Return what is bound behind a block; None: nothing goes there."""
        after: set[str] | None = {*known}
        for each in body:
            if after is None:
                return None
            after = self._behind(each, after)
        return after

    def _behind(self, statement: ast.stmt, known: set[str]) -> set[str] | None:
        """Return what is bound behind a statement; None: nothing goes there."""
        # The head of a statement runs before its blocks, e.g. `if (n := len(x)):`.
        known = known | _of_head(statement)
        match statement:
            case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
                return None
            # `del x` unbinds a name for all that follows.
            case ast.Delete(targets=targets):
                return known - {each.id for each in targets if isinstance(each, ast.Name)}
            case ast.If() | ast.Match() | ast.Try():
                return self._behind_choice(statement, known)
            case ast.With(items=items, body=inner) | ast.AsyncWith(items=items, body=inner):
                after = self._through(inner, known)
                if any(swallows(item.context_expr) for item in items):
                    return known
                return after
            case ast.For() | ast.AsyncFor() | ast.While():
                return known | self._of_loop(statement)
        return known

    def _behind_choice(self, statement: ast.If | ast.Match | ast.Try, known: set[str]) -> set[str] | None:
        """Return what is bound behind a statement that runs one of several blocks; None: nothing goes there."""
        match statement:
            case ast.If(body=yes, orelse=no):
                return _both(self._through(yes, known), self._through(no, known))
            case ast.Match(cases=cases):
                ends = None
                if not any(map(takes_all, cases)):
                    ends = known
                for one in cases:
                    ends = _both(ends, self._through(one.body, known | _stored(one.pattern)))
                return ends
            case ast.Try(body=inner, handlers=handlers, orelse=no, finalbody=last):
                ends = self._through([*inner, *no], known)
                for each in handlers:
                    ends = _both(ends, self._through(each.body, known))
                if ends is None:
                    return None
                return self._through(last, ends)

    def _of_loop(self, statement: ast.For | ast.AsyncFor | ast.While) -> set[str]:
        """Return what a loop binds, if it certainly has a round."""
        match statement:
            case ast.While(body=inner):
                if not runs(statement):
                    return set()
                return self._before_a_jump(inner)
            case ast.For(target=target, iter=source, body=inner):
                has_round = runs(statement) or self.has_elements(source)
                if not has_round:
                    return set()
                return _stored(target) | self._before_a_jump(inner)
        return set()

    def _before_a_jump(self, body: list[ast.stmt]) -> set[str]:
        """Return what the first round of a loop binds before any statement that may leave it."""
        found: set[str] = set()
        for each in body:
            if any(isinstance(below, ast.Break | ast.Continue) for below in ast.walk(each)):
                return found | _of_head(each)
            # A statement behind which nothing goes, such as `return`, ends the round with what is bound.
            found = self._behind(each, found) or found
        return found


def _both(one: set[str] | None, other: set[str] | None) -> set[str] | None:
    """Return what is bound on two ways; None is a way that goes nowhere."""
    if one is None or other is None:
        if one is None:
            return other
        return one
    return one & other


def _of_head(statement: ast.stmt) -> set[str]:
    """Return what a statement binds itself, without the statements inside of it, and without a loop's target."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(each.asname or each.name).partition(".")[0] for each in names}
        case ast.For(iter=head) | ast.AsyncFor(iter=head):
            return _stored(head)
    return _stored(statement)


def _stored(node: ast.AST) -> set[str]:
    """Return the names that a node stores, without the statements and scopes inside of it."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        match each:
            case ast.Name(id=name, ctx=ast.Store()) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
        waiting += [below for below in ast.iter_child_nodes(each) if not isinstance(below, _NOT_OWN)]
    return found


def known_to_be_there(tree: ast.Module, lines: Collection[int]) -> set[str]:
    """Return the names and attributes, as written, that the changed statements find there, or raise as before.

    An enclosing `if self.n is not None:` lets nothing else through, nor does `if self.n is None: return` above, and
    `x * self.n` above raises for None in both programs.
    """
    found: set[str] | None = None
    for function in (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)):
        if any(each.lineno in lines for each in ast.walk(function) if isinstance(each, ast.stmt)):
            here = _safe_in(function.body, lines, set())
            if found is None:
                found = here
            else:
                # Several changed functions: only what each of them finds there is certain.
                found = found & here
    return found or set()


def _safe_in(body: list[ast.stmt], lines: Collection[int], known: set[str]) -> set[str]:
    """Return what is known before the first changed statement of a block."""
    known = set(known)
    for index, each in enumerate(body):
        if _has_line(each, lines):
            parts = (getattr(each, name, []) for name in ("body", "orelse", "finalbody"))
            inside = [part for part in parts if any(_has_line(one, lines) for one in part)]
            if len(inside) != 1 or any(_has_line(one, lines) for one in body[index + 1 :]):
                return known
            is_held = isinstance(each, ast.If) and inside[0] is each.body
            return _safe_in(inside[0], lines, known | set(_held(each.test) if is_held else ()))  # type: ignore[attr-defined]
        match each:
            case ast.If(test=test, body=[*_, ast.Return() | ast.Raise() | ast.Continue()], orelse=[]):
                known |= set(_missed(test))
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr() | ast.Return():
                known |= set(_used(each))
    return known


def _has_line(node: ast.stmt, lines: Collection[int]) -> bool:
    return any(isinstance(each, ast.stmt) and each.lineno in lines for each in ast.walk(node))


def _held(test: ast.expr) -> Iterator[str]:
    """Yield the names and attributes that are there where a test holds."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            for each in values:
                yield from _held(each)
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            yield from _name_of(left)
        case ast.Attribute() | ast.Name():
            yield from _name_of(test)


def _missed(test: ast.expr) -> Iterator[str]:
    """Yield the names and attributes for which a test certainly holds if they are None."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            for each in values:
                yield from _missed(each)
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            yield from _name_of(left)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _name_of(operand)


def _name_of(node: ast.expr) -> Iterator[str]:
    """Yield a name, or an attribute with its object, as written."""
    if isinstance(node, ast.Name | ast.Attribute):
        yield ast.unparse(node)


def _used(statement: ast.stmt) -> Iterator[str]:
    """Yield the names and attributes that a statement computes with, so that it raises for None."""
    lazy = {
        id(below)
        for each in ast.walk(statement)
        if isinstance(each, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp)
        for below in ast.walk(each)
    }
    for each in ast.walk(statement):
        if id(each) in lazy:
            continue
        match each:
            case ast.BinOp(left=left, right=right):
                yield from _name_of(left)
                yield from _name_of(right)
            case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Call(func=value):
                yield from _name_of(value)
