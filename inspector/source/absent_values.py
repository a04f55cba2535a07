"""What changed statements read in each call, and only some calls read before, and may be None or missing.

`torch.where(c, h - self.mean, h)` reads `self.mean` also where the branch before it did not. An object whose mean is
None, as in a constructor before `fit`, then raises. No call of the proof need have such an object: the calls begin with
the one that the file made. So the file is read for a None that may get there: through a parameter, a field of a
configuration, a table, `dict.get`, the end of a function, an option of a command line; for attributes that not each way
through a constructor sets (`certain_attributes.py`), for names that not each way to the statement binds
(`known_values.py`), and for classes that make attributes up. Where one is found, the author is asked.

Reads Python without running it.
"""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ctrace.inspector.source.attribute_writes import (
    FUNCTIONS,
    TENSOR_ATTRIBUTES,
    defaults_of,
    family,
    is_none,
    is_self,
    keyword_of,
    last_name,
)
from ctrace.inspector.source.certain_attributes import CONSTRUCTORS, Held, blocks_of, held_at, uncertain_attribute
from ctrace.inspector.source.known_values import binding_statements, certain_names, known_to_be_there
from ctrace.inspector.source.text import parsed, replaced_lines

_LAZY = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_MADE_UP = ("__getattr__", "__getattribute__")
_REGISTERING = ("register_buffer", "register_parameter", "register_module", "add_module")
_OPTIONS = {
    "running_mean": ("track_running_stats",),
    "running_var": ("track_running_stats",),
    "num_batches_tracked": ("track_running_stats",),
    "weight": ("affine", "elementwise_affine"),
    "bias": ("bias", "affine", "elementwise_affine"),
}
"""What of a layer is None without one of its options."""
_OPTION_MAKERS = ("add_argument", "add_option", "option")
"""What adds an option to a command line: argparse, optparse and click."""
_OF_THREADS = ("threading.local", "local")
"""What makes an object whose attributes belong to a thread."""
_OF_CONTEXTS = ("ContextVar",)
"""What makes a variable that each context, such as that of a thread, has for itself: `get()` is its default there."""
_WEAK = ("ref", "WeakMethod")
"""What makes a reference that is None when it is called after its object is gone."""
_OF_SIZES = ("empty", "zeros", "ones", "full", "Tensor", "FloatTensor")
_OF_VALUES = ("tensor", "Tensor", "FloatTensor")
_DEEPEST = 6
"""Assignments that are followed back from what is read; a chain of more is no code that anybody writes."""


def absent_values(before: str, after: str) -> tuple[str, ...]:
    """Return a question for each value that a change reads in more calls, and that may not be there."""
    tree, new = parsed(before), parsed(after)
    lines, changed = replaced_lines(before, after), replaced_lines(after, before)
    if tree is None or new is None or not lines:
        return ()
    facts = _File(tree, lines)
    there = known_to_be_there(new, changed)
    asked: dict[str, None] = {}
    for function in ast.walk(new):
        if isinstance(function, FUNCTIONS) and _has(function, changed):
            old = next((each for each in facts.functions if each.name == function.name and _has(each, lines)), None)
            # What the old lines read in each call was there; the question is only about what is read in more calls.
            known = set()
            if old is not None:
                known = _always_read(_on(old.body, lines))
            known |= there
            statements = _on(function.body, changed)
            bound = certain_names(function.body, changed, facts.has_elements) | _bound_by(statements)
            bound |= _read_later(function.body, changed) | known
            for node, statement in _reads(statements):
                text = ast.unparse(node)
                facts.held = held_at(function.body, (statement.lineno,))
                line = 0
                if text not in known:
                    line = facts.absent(node, old or function, 0)
                # A name that each call has bound here, or reads in any case, is missing in no more calls than before.
                if not line and isinstance(node, ast.Name) and old is not None and node.id not in bound:
                    line = facts.unbound(node.id, old)
                if line:
                    asked[
                        f"Does `{text}` have a value in each call? By line {line} it may be None, empty or missing."
                    ] = None
    return tuple(asked)


# What is read


def _has(node: ast.AST, lines: Collection[int]) -> bool:
    return any(isinstance(each, ast.stmt) and each.lineno in lines for each in ast.walk(node))


def _on(body: Iterable[ast.stmt], lines: Collection[int]) -> list[ast.stmt]:
    """Return the outermost statements of a block that begin on some lines."""
    found: list[ast.stmt] = []
    for each in body:
        # The outermost one: a statement that is new as a whole reads all that stands in it.
        if each.lineno in lines:
            found.append(each)
        elif not isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                found += _on(getattr(each, name, ()), lines)
            for part in (*getattr(each, "handlers", ()), *getattr(each, "cases", ())):
                found += _on(part.body, lines)
    return found


def _reads(body: Iterable[ast.stmt]) -> Iterator[tuple[ast.expr, ast.stmt]]:
    """Yield the names, attributes and items that some statements read, with the innermost statement that does."""
    for statement in body:
        own = [below for each in ast.iter_child_nodes(statement) for below in _without_statements(each)]
        methods = {id(each.func) for each in own if isinstance(each, ast.Call)}
        for each in own:
            match each:
                case ast.Attribute(value=value) if id(each) in methods and not is_self(value):
                    continue  # a method of what is read, which is asked about itself
                case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                    yield each, statement
                case ast.Subscript(slice=ast.Constant(value=str()), ctx=ast.Load()):
                    yield each, statement
        for part in blocks_of(statement):
            yield from _reads(part)


def _without_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what is below it, up to the statements inside of it; nothing of a statement."""
    if not isinstance(node, ast.stmt):
        yield node
        for below in ast.iter_child_nodes(node):
            yield from _without_statements(below)


def _bound_by(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that some statements bind themselves."""
    stored = (each for statement in body for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in stored if isinstance(each.ctx, ast.Store)}


def _read_later(body: list[ast.stmt], lines: Collection[int]) -> set[str]:
    """Return the names that each call reads behind the changed statements: those must have a value anyhow."""
    changed = [index for index, each in enumerate(body) if _has(each, lines)]
    if not changed:
        return set()
    rest = body[changed[-1] + 1 :]
    found = _always_read(rest) - _bound_by(rest)
    last = body[changed[-1]]
    if last.lineno not in lines:
        for part in blocks_of(last):
            found |= _read_later(part, lines)
    return found


def _always_read(body: list[ast.stmt]) -> set[str]:
    """Return what some statements read whichever way they go."""
    found: set[str] = set()
    for index, each in enumerate(body):
        match each:
            case ast.If(test=test, body=yes, orelse=no):
                returns = isinstance(yes[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
                rest = body[index + 1 :]
                if returns:
                    other = [*no, *rest]
                else:
                    other = no
                found |= _eager(test) | (_always_read(yes) & _always_read(other))
                if returns:
                    return found
            case ast.While(test=head) | ast.For(iter=head):
                found |= _eager(head)
            case ast.With(items=items, body=inner):
                found |= {text for item in items for text in _eager(item.context_expr)} | _always_read(inner)
            # Their parts may be left out, so nothing in them is read whichever way the code goes.
            case ast.Try() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Match():
                pass
            case _:
                found |= _eager(each)
    return found


def _eager(node: ast.AST) -> set[str]:
    """Return what a node reads, without the parts that Python may leave out."""
    match node:
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _eager(test) | (_eager(body) & _eager(orelse))
        case ast.BoolOp(values=[first, *_]):
            return _eager(first)
        case _ if isinstance(node, _LAZY):
            return set()
    found = set()
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        found = {ast.unparse(node)}
    for below in ast.iter_child_nodes(node):
        found |= _eager(below)
    return found


# What may be None


def _by_keyword(call: ast.Call, given: ast.arg) -> Iterator[ast.expr]:
    """Yield what a call passes for a parameter by its name, or in `**options` as `options['name']`."""
    named = keyword_of(call, given.arg)
    if named is not None:
        yield named
    # With an annotation, the parameter itself says whether None may come.
    elif given.annotation is None:
        for mapping in (each.value for each in call.keywords if each.arg is None):
            item = ast.Subscript(mapping, ast.Constant(given.arg), ast.Load())
            yield ast.copy_location(item, mapping)


class _File:
    """Where a file may give None, by the name that gets it."""

    def __init__(self, tree: ast.Module, lines: Collection[int]) -> None:
        every = list(ast.walk(tree))
        self.tree = tree
        self.functions = [each for each in every if isinstance(each, FUNCTIONS)]
        self._classes = {each.name: each for each in every if isinstance(each, ast.ClassDef)}
        self._loops = [each for each in every if isinstance(each, ast.For | ast.comprehension)]
        self._touched = [name for name, each in self._classes.items() if _has(each, lines)]
        decorators = [each.name for each in tree.body if isinstance(each, FUNCTIONS) and _has(each, lines)]
        self._decorated = [name for name, each in self._classes.items() if _is_decorated(each, decorators)]
        """Classes with methods that a changed function decorates: its `self` is an object of any of them."""
        self._calls = [each for each in every if isinstance(each, ast.Call)]
        self._tables = assigned_values(tree.body)
        self._owners = {id(method): cls for cls in self._classes.values() for method in cls.body}
        self._related = family(
            self._classes.values(), (name for name, each in self._classes.items() if _has(each, lines))
        )
        self._given = {name: line for each in every for name, line in _given_none(each)}
        self._attributes = self._attribute_values(every)
        self._modules = {
            (alias.asname or alias.name).rpartition(".")[2]
            for each in every
            if isinstance(each, ast.Import | ast.ImportFrom)
            for alias in each.names
        }
        self._inside: dict[int, ast.AST] = {}
        self.loaded = _Loaded(self)
        self.held = Held()
        """What holds where the changed statements begin, which are read now."""

    def _attribute_values(self, every: Iterable[ast.AST]) -> Mapping[str, list[tuple[ast.expr, str]]]:
        """Return what attributes are set to, by name, with the class whose `self` gets it; empty: another object."""
        owners = {id(below): name for name, cls in self._classes.items() for below in ast.walk(cls)}
        found: dict[str, list[tuple[ast.expr, str]]] = {}
        for each in every:
            for holder, name, value in _set_in(each):
                found.setdefault(name, []).append((value, owners.get(id(each), "") if is_self(holder) else ""))
        return found

    def absent(self, node: ast.expr | None, function: ast.AST, depth: int) -> int:
        """Return the line that says how an expression may be None or missing; 0: none is in sight."""
        # Names may lead to each other in circles.
        if depth > _DEEPEST or node is None:
            return 0
        match node:
            case ast.Constant(value=None):
                return node.lineno
            case ast.IfExp() | ast.BoolOp():
                return max(self.absent(each, function, depth + 1) for each in _results(node))
            case ast.Call():
                return self._called(node, function, depth)
            case ast.Attribute():
                return self._attribute(node, function, depth)
            case ast.Subscript(value=holder, slice=ast.Constant(value=str(name))):
                return self._given.get(name, 0) or self.loaded.line(holder, function)
            # Which item is taken is not known, so any None in the table may be it.
            case ast.Subscript(value=ast.Name(id=table)):
                return _none_in(self._tables.get(table))
            case ast.Subscript(value=ast.Call(func=called), slice=ast.Constant(value=int(at))):
                return self._returned_part(called, at, depth)
            case ast.Name(id=name):
                return self._name(name, function, depth)
        return 0

    def _attribute(self, node: ast.Attribute, function: ast.AST, depth: int) -> int:
        owner = self._owners.get(id(function))
        match node:
            # A function outside of the related classes has another `self`.
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if owner is None or owner.name in self._related:
                return self._own(name, depth)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in self._modules and (
                line := self._global(name, depth)
            ):
                return line
            case ast.Attribute(value=ast.Name(id="torch")) if "torch" in self._modules:
                return 0  # not an object of a class whose `__getattr__` the file has
            case ast.Attribute(value=holder, attr=name):
                of_object = self._layer(holder, name, function) or self._other(holder, name, depth)
                elsewhere = self._of_thread(holder) or self._of_gone(holder, function)
                return elsewhere or of_object or self._of_loaded(holder, name, function)
        return 0

    def _of_thread(self, holder: ast.expr) -> int:
        """Return the line that makes an object whose attributes only the thread has that sets them: `local()`."""
        values: Iterable[ast.expr]
        if isinstance(holder, ast.Name):
            values = self._tables.get(holder.id, [])
        else:
            values = self._made_of(holder)
        made = [each for each in values if isinstance(each, ast.Call) and ast.unparse(each.func) in _OF_THREADS]
        if not made:
            return 0
        return made[0].lineno

    def _of_gone(self, holder: ast.expr, function: ast.AST) -> int:
        """Return the line that makes the weak reference through which an object is read: it may be gone."""
        values = [holder]
        if isinstance(holder, ast.Name) and isinstance(function, FUNCTIONS):
            values = assigned_values(function.body).get(holder.id, [])
        for value in values:
            match value:
                case ast.Call(func=called, args=[], keywords=[]):
                    made = [each for each in self._made_of(called) if last_name(each.func) in _WEAK]
                    if made:
                        return made[0].lineno
        return 0

    def _name(self, name: str, function: ast.AST, depth: int) -> int:
        if not isinstance(function, FUNCTIONS):
            return self._global(name, depth)
        for given in _parameters(function):
            if given.arg == name:
                return self._parameter(given, function, depth)
        values = assigned_values(function.body).get(name, [])
        parts = [self._part(name, each, depth) for each in ast.walk(function) if isinstance(each, ast.Assign)]
        parts += [self._element(name, each, function, depth) for each in self._loops if _is_below(each, function)]
        line = max((*(self.absent(each, function, depth + 1) for each in values), *parts), default=0)
        # A name that the function binds is its own, whatever an outer one is.
        if line or values or any(parts) or _binds(function, name):
            return line
        outer = [each for each in self.functions if each is not function and _is_below(function, each)]
        if outer:
            return self._name(name, outer[-1], depth + 1)
        return self._global(name, depth)

    def _part(self, name: str, assign: ast.Assign, depth: int) -> int:
        """Return how one of several names that get what a call returns may be None: `scale, shift = self.parts()`."""
        match assign:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call(func=called)):
                positions = [at for at, each in enumerate(targets) if isinstance(each, ast.Name) and each.id == name]
            case _:
                return 0
        if not positions:
            return 0
        return self._returned_part(called, positions[0], depth)

    def _returned_part(self, called: ast.expr, at: int, depth: int) -> int:
        """Return how a part of what a function of the file returns may be None."""
        for each in self.functions:
            if each.name != last_name(called):
                continue
            for one in ast.walk(each):
                match one:
                    case ast.Return(value=ast.Tuple(elts=elts)) if len(elts) > at >= 0:
                        line = self.absent(elts[at], each, depth + 1)
                        if line:
                            return line
        return 0

    def _element(self, name: str, loop: ast.For | ast.comprehension, function: ast.AST, depth: int) -> int:
        """Return how an element that a loop takes may be None."""
        targets, sources = [loop.target], [loop.iter]
        match loop:
            case ast.For(target=ast.Tuple(elts=elts), iter=ast.Call(func=ast.Name(id="zip"), args=args)):
                targets, sources = elts, args
            case ast.For(target=ast.Tuple(elts=[_, second]), iter=ast.Call(func=ast.Name(id="enumerate"), args=args)):
                targets, sources = [second], args
        for target, source in zip(targets, sources, strict=False):
            if isinstance(target, ast.Name) and target.id == name:
                match source:
                    case ast.Attribute(value=holder, attr=attribute) if is_self(holder):
                        return _none_in(value for value, _ in self._attributes.get(attribute, []))
                    case ast.Name(id=held) if depth < _DEEPEST and isinstance(function, FUNCTIONS):
                        return _none_in(assigned_values(function.body).get(held))
        return 0

    def unbound(self, name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        """Return a line that binds a name of a function or of the file, where not each way to a statement binds it."""
        outer = [each for each in self.functions if each is not function and _is_below(function, each)]
        if any(name == each.arg for one in (function, *outer) for each in _every_parameter(one)):
            return 0
        binding = list(binding_statements(function.body, name))
        if binding and not any(map(_is_global(name), ast.walk(function))):
            shown = [held_at(function.body, (each.lineno,)).tests for each in binding]
            # Bound under a test that holds here, too: `if self.training: noise = ...`, and the same test again.
            is_shown = any(bool(tests) and {*tests} <= {*self.held.tests} for tests in shown)
            if is_shown:
                return 0
            return binding[0].lineno
        for each in outer[::-1]:
            binding = list(binding_statements(each.body, name))
            if binding:
                if name in certain_names(each.body, (), self.has_elements):
                    return 0
                return binding[0].lineno
        return self._unbound_global(name)

    def has_elements(self, source: ast.expr) -> bool:
        """Whether a loop certainly has a round: what an attribute of self holds was never made empty."""
        match source:
            case ast.Call(func=ast.Name(id="enumerate" | "reversed"), args=[inner, *_]):
                return self.has_elements(inner)
            case ast.Call(func=ast.Name(id="zip"), args=[_, *_] as args):
                return all(map(self.has_elements, args))
            case ast.Attribute(value=owner, attr=name) if is_self(owner):
                values = [value for value, _ in self._attributes.get(name, [])]
                return bool(values) and all(map(_is_filled, values))
        return _is_filled(source)

    def _unbound_global(self, name: str) -> int:
        """Return a line that gives the file a name, where its load may do without, or a call of a function does it."""
        body = self.tree.body
        imported = [alias.name for each in body if isinstance(each, ast.ImportFrom) for alias in each.names]
        if "*" in imported or name in certain_names(body, ()):  # with `import *`, any name may be there
            return 0
        setting = [each.lineno for each in binding_statements(body, name)]
        setting += [
            each.lineno
            for one in self.functions
            if any(map(_is_global(name), ast.walk(one)))
            for each in binding_statements(one.body, name)
        ]
        if not setting:
            return 0
        return setting[0]

    def global_values(self, name: str) -> list[ast.expr]:
        """Return what the file itself assigns to a name."""
        return self._tables.get(name, [])

    def values_of(self, name: str) -> list[tuple[ast.expr, ast.AST]]:
        """Return what an attribute is set to, each with the function around it."""
        return [(value, self._around(value)) for value, _ in self._attributes.get(name, [])]

    def passed_for(
        self, given: ast.arg, function: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> list[tuple[ast.expr, ast.AST]]:
        """Return what the calls of the file pass for a parameter, each with the function around it."""
        return [(each, self._around(each)) for each in self.passed(given, function)]

    def _global(self, name: str, depth: int) -> int:
        """Return where a name of the module may be None, or is until a function sets it."""
        return max((self.absent(value, self.tree, depth + 1) for value in self._tables.get(name, ())), default=0)

    def _parameter(self, given: ast.arg, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> int:
        default = defaults_of(function).get(given.arg)
        # The default goes first, because it says that callers may leave the value out.
        if is_none(default) or (given.annotation is not None and _is_optional(given.annotation)):
            return given.lineno
        if self.absent(default, self.tree, depth + 1):
            return given.lineno
        if given.arg in self._given:
            return self._given[given.arg]
        passed = self.passed_for(given, function)
        return max((self.absent(each, around, depth + 1) for each, around in passed), default=0)

    def _around(self, node: ast.AST) -> ast.AST:
        """Return the innermost function around a node, or the node."""
        if not self._inside:  # outer functions come first
            self._inside = {id(below): each for each in self.functions for below in ast.walk(each)}
        return self._inside.get(id(node)) or self._inside.get(id(getattr(node, "value", None)), node)

    def passed(self, given: ast.arg, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
        """Yield what the calls of the file pass for a parameter of a function or of a constructor.

        `Net(**options)` passes `options['gain']`, unless an annotation says what that is.
        """
        owner = self._owners.get(id(function))
        is_constructor = owner is not None and function.name == "__init__"
        if owner is not None and is_constructor:
            made = family(self._classes.values(), [owner.name])
        else:
            made = {function.name}
        positions = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        # Calls of a method do not pass `self`.
        is_bound = owner is not None and "staticmethod" not in map(last_name, function.decorator_list)
        position = -1
        if given.arg in positions:
            position = positions.index(given.arg) - is_bound
        for call in self._calls:
            passed = list(call.args)
            # `partial(f, 1)` passes for `f` what stands behind it.
            if last_name(call.func) == "partial" and passed:
                name, passed = last_name(passed[0]), passed[1:]
            else:
                name = last_name(call.func)
            # `cls(...)` in a class method makes an object of that class.
            if name == "cls":
                name = getattr(self._owners.get(id(self._around(call))), "name", name)
            is_super = name == "__init__" and owner is not None
            # `super().__init__(...)` passes for the constructor of a base, whichever that is.
            if name in made or is_super:
                if position >= 0:
                    yield from passed[position : position + 1]
                yield from _by_keyword(call, given)

    def _own(self, name: str, depth: int) -> int:
        """Return how an attribute of self may be None, in the classes that share its object."""
        values = self._attributes.get(name, [])
        for value, owner in values:
            if owner in self._related or not owner:
                line = self._stored(value, depth)
                if line:
                    return line
        raising = _raising_property(self._classes[each] for each in self._related)
        if name in raising:
            return raising[name]
        fields = [each for cls in self._related for each in _body_values(self._classes[cls], name)]
        for kind, default in fields:
            if default is not None and is_none(default):
                return default.lineno
            if kind is not None and _is_optional(kind):
                return kind.lineno
        line = (
            self._uncertain((*self._touched, *self._decorated), name)
            or self._filled_later(name)
            or self._of_another(name)
            or self._elsewhere(name, [owner for _, owner in values])
        )
        is_known = values or fields or any(name == each.name for each in self.functions)
        if line or is_known:
            return line
        return self._made_up(self._related)  # nothing in the file sets it: `__getattr__` may answer

    def _uncertain(self, names: Iterable[str], name: str) -> int:
        """Return a line that sets an attribute of some classes, where not each way through their constructor does."""
        found = uncertain_attribute(self._classes, names, name, self.held.called)
        is_there = name in self.held.attributes or f"hasattr(self, {name!r})" in self.held.tests
        if found is None or is_there or found.is_shown(self.held.tests):
            return 0
        return found.line

    def _filled_later(self, name: str) -> int:
        """Return the line that makes a container without elements, as before `fit`, where no constructor fills it."""
        empty = [value for value, _ in self._attributes.get(name, []) if _is_without_elements(value)]
        if empty and not any(map(_fills(name), self._of_constructors())):
            return empty[0].lineno
        return 0

    def _of_constructors(self) -> Iterator[ast.AST]:
        """Yield the nodes of constructors and of the functions that they call."""
        constructors = [each for each in self.functions if each.name in CONSTRUCTORS and id(each) in self._owners]
        nodes = [below for each in constructors for below in ast.walk(each)]
        called = {last_name(each.func) for each in nodes if isinstance(each, ast.Call)}
        yield from nodes
        yield from (below for each in self.functions if each.name in called for below in ast.walk(each))

    def _of_another(self, name: str) -> int:
        """Return a class with a method that a changed function decorates, without an attribute that another one has."""
        having, lacking = [], []
        for each in self._decorated:
            above = _above(self._classes, [each])
            is_set = any(owner in above for _, owner in self._attributes.get(name, []))
            if is_set or any(_defines(one, name) for cls in above for one in self._classes[cls].body):
                having.append(each)
            elif all(base in self._classes for base in _bases(above, self._classes)):
                lacking.append(each)
        if having and lacking:
            return self._classes[lacking[0]].lineno
        return 0

    def _made_of(self, holder: ast.expr, function: ast.AST | None = None) -> list[ast.Call]:
        """Return the calls that make what an attribute of self holds, or one of the layers in it."""
        match holder:
            case ast.Attribute(value=owner, attr=name) if is_self(owner):
                values = [value for value, _ in self._attributes.get(name, [])]
            case ast.Subscript(value=ast.Attribute(value=owner, attr=name)) if is_self(owner):
                values = self._elements(name)
            case ast.Name(id=name) if function is not None:
                loops = [each.iter for each in self._loops if name in _stored_in(each.target)]
                read = [each for loop in loops for each in ast.walk(loop) if isinstance(each, ast.Attribute)]
                values = [value for each in read if is_self(each.value) for value in self._elements(each.attr)]
                if isinstance(function, FUNCTIONS):
                    held = assigned_values(function.body).get(name, [])
                    values += [call for each in held if not isinstance(each, ast.Name) for call in self._made_of(each)]
            case _:
                return []
        # A function of the file that makes a layer stands for the layers that it returns.
        calls = [each for each in values if isinstance(each, ast.Call)]
        made = {last_name(each.func) for each in calls}
        return calls + [call for each in self.functions if each.name in made for call in _returned_calls(each)]

    def _elements(self, name: str) -> list[ast.expr]:
        """Return what makes the elements of a container in an attribute: `nn.ModuleList(nn.Linear(8, 8) for ...)`."""
        found: list[ast.expr] = []
        for value, _ in self._attributes.get(name, []):
            parts = [value]
            if isinstance(value, ast.Call):  # such as nn.ModuleList
                parts = value.args
            for each in parts:
                match each:
                    case ast.ListComp(elt=made) | ast.GeneratorExp(elt=made) | ast.DictComp(value=made):
                        found.append(made)
                    case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Dict(values=elts):
                        found += elts
                    case ast.Call():
                        found.append(each)
        # Lists of layers often begin empty, and a loop appends to them.
        for call in self._calls:
            match call.func:
                case ast.Attribute(value=ast.Attribute(value=owner, attr=held), attr="append" | "insert"):
                    if held == name and is_self(owner):
                        found += call.args[-1:]
        return found

    def _of_loaded(self, holder: ast.expr, name: str, function: ast.AST) -> int:
        """Return the line that loads an object whose field it is, unless a class of the file says what it is."""
        # What a tensor has is there for each tensor, whatever the object that holds it was loaded from.
        if name in TENSOR_ATTRIBUTES or any(_body_values(cls, name) for cls in self._classes.values()):
            return 0
        return self.loaded.line(holder, function)

    def _layer(self, holder: ast.expr, name: str, function: ast.AST) -> int:
        """Return how a parameter or a buffer of a layer of torch may be None: `nn.Linear(8, 8, bias=bias).bias`."""
        options = _OPTIONS.get(name, ())
        if not options:
            return 0
        chosen = self._chosen_layer(holder)
        if chosen:
            return chosen
        for call in self._made_of(holder, function):
            for each in call.keywords:
                # `bias=False` is the author's own choice, who knows; `bias=bias` is the caller's.
                is_chosen = not isinstance(each.value, ast.Constant) or each.value.value is None
                if is_chosen and (each.arg is None or each.arg in options):
                    return call.lineno
            if any(isinstance(each, ast.Name) and each.id in options for each in call.args):
                return call.lineno
        return 0

    def _chosen_layer(self, holder: ast.expr) -> int:
        """Return the line by which a caller, a table or a function decides which layer an attribute of self holds.

        One of them may have no such parameter: `nn.Identity()`, or a layer without a bias.
        """
        match holder:
            case ast.Attribute(value=owner, attr=name) if is_self(owner):
                values = [value for value, _ in self._attributes.get(name, [])]
            case _:
                return 0
        constructors = [each for each in self.functions if each.name == "__init__" and id(each) in self._owners]
        given = {each.arg for one in constructors for each in _parameters(one)} - {"self"}
        for value in values:
            match value:
                case ast.Call(func=ast.Subscript()) | ast.IfExp():
                    return value.lineno
                case ast.Call(func=ast.Name(id=made)) | ast.Name(id=made) if made in given:
                    return value.lineno
                case ast.Call(func=called):
                    made = last_name(called)
                    returns = [
                        below
                        for each in self.functions
                        if each.name == made
                        for below in ast.walk(each)
                        if isinstance(below, ast.Return)
                    ]
                    # Different layers, of which one may lack the parameter; several calls of one layer are the same.
                    if len({ast.unparse(each.value.func) for each in returns if isinstance(each.value, ast.Call)}) > 1:
                        return value.lineno
        return 0

    def _elsewhere(self, name: str, owners: Iterable[str]) -> int:
        """Return the line that gives some objects of a changed class an attribute, where others do without.

        Only a class that derives from it has the attribute, or code outside of its classes sets it.
        """
        above = _above(self._classes, self._touched)
        setting = {*owners}
        having = {each for each in self._related for one in self._classes[each].body if _defines(one, name)}
        if (
            not setting | having
            or (setting | having) & above
            or any(base not in self._classes for base in _bases(above, self._classes))
        ):
            return 0
        lines = [self._classes[each].lineno for each in having | (setting & {*self._classes})]
        lines += [value.lineno for value, owner in self._attributes.get(name, []) if not owner]
        return max(lines, default=0)

    def _other(self, holder: ast.expr, name: str, depth: int) -> int:
        """Return how an attribute of an object of any class may be None."""
        if name in self._given:
            return self._given[name]
        raising = _raising_property(self._classes.values())
        if name in raising and name not in TENSOR_ATTRIBUTES:
            return raising[name]
        values = self._attributes.get(name, [])
        line = max((self._stored(value, depth) for value, _ in values), default=0)
        made = {last_name(call.func) for call in self._made_of(holder)}
        owners = [owner for _, owner in values if owner]
        line = line or self._uncertain((each for each in owners if each in made or not made), name)
        if made and not line:
            line = self._set_from_outside(name)
        is_known = values or any(_body_values(cls, name) for cls in self._classes.values())
        if line or is_known or name in TENSOR_ATTRIBUTES:
            return line
        return self._made_up(set(self._classes) - self._related)

    def _set_from_outside(self, name: str) -> int:
        """Return a line by which a method or a function gives an object of another class an attribute.

        Nothing else in the file gives it: before that call, as before `fit`, the object is without.
        """
        if name in TENSOR_ATTRIBUTES or any(_body_values(cls, name) for cls in self._classes.values()):
            return 0
        lines = []
        for function in (None, *self.functions):
            if function is None:
                body = self.tree.body
            else:
                body = function.body
            for statement in _plain_statements(body):
                for holder, found, value in _set_in(statement):
                    if found != name:
                        continue
                    # Where its own class sets it, the constructor is read for that (`_uncertain`).
                    if function is None or is_self(holder) or self._is_of_construction(function, holder):
                        return 0
                    lines.append(value.lineno)
        return min(lines, default=0)

    def _is_of_construction(self, function: ast.FunctionDef | ast.AsyncFunctionDef, holder: ast.expr) -> bool:
        """Whether a function has made the object that it gives an attribute, or runs while it is made."""
        root = holder
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if isinstance(root, ast.Name) and any(
            isinstance(value, ast.Call) for value in assigned_values(function.body).get(root.id, [])
        ):
            return True
        constructors = [each for each in self.functions if each.name in CONSTRUCTORS]
        called = {last_name(each.func) for one in constructors for each in ast.walk(one) if isinstance(each, ast.Call)}
        return function.name in CONSTRUCTORS or function.name in called

    def _stored(self, value: ast.expr, depth: int) -> int:
        holder = next((each for each in self.functions if any(below is value for below in ast.walk(each))), None)
        line = self.absent(value, holder or value, depth + 1)
        if line:
            return line
        is_empty = _is_empty(value) or (isinstance(holder, FUNCTIONS) and _is_empty_by_default(value, holder))
        if is_empty:
            return value.lineno
        return 0

    def _made_up(self, names: Collection[str]) -> int:
        """Return the line where one of some classes makes attributes up."""
        lines = (
            each.lineno
            for name in names
            for each in self._classes[name].body
            if isinstance(each, FUNCTIONS) and (each.name in _MADE_UP or _sets_any(each))
        )
        return max(lines, default=0)

    def _called(self, call: ast.Call, function: ast.AST, depth: int) -> int:
        match call:
            # `d.get(key)` is None for a missing key; with a default, the default says more.
            case ast.Call(func=ast.Attribute(attr="get"), args=[_]):
                return call.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id=variable), attr="get"), args=[]):
                made = [each for each in self._tables.get(variable, []) if isinstance(each, ast.Call)]
                return next((each.lineno for each in made if last_name(each.func) in _OF_CONTEXTS), 0)
            case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[_, default]):
                return self.absent(default, function, depth + 1)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, _, default]):
                return self.absent(default, function, depth + 1)
            case ast.Call(func=ast.Name(id="next"), args=[_, default]):
                return self.absent(default, function, depth + 1)
        name = last_name(call.func)
        for each in self.functions:
            # Any layer has a `forward`: which one is called, its name does not say.
            if each.name == name and name != "forward":
                line = self._returned(each, depth)
                if line:
                    return line
        return 0

    def _returned(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> int:
        """Return the line by which a function that returns values may return None; 0: it returns none."""
        every = list(ast.walk(function))
        returned = [each for each in every if isinstance(each, ast.Return)]
        for each in returned:
            line = self.absent(each.value, function, depth + 1)
            if line:
                return line
        # A function without values is called for what it does, and a generator returns one in any case.
        returns_values = any(each.value is not None for each in returned)
        if not returns_values or any(isinstance(each, ast.Yield | ast.YieldFrom) for each in every):
            return 0
        bare = [each.lineno for each in returned if each.value is None]
        if bare:
            return max(bare)
        if _falls_through(function.body):
            return function.lineno
        return 0


_LOADING = frozenset(
    ("load", "loads", "safe_load", "full_load", "unsafe_load", "load_config", "read_json", "read_yaml")
)
"""Functions that read an object from a file or a text: of json, yaml, tomllib, pickle, torch, OmegaConf."""


class _Loaded:
    """Which objects of a file have fields that something outside of it decides: a file of settings may say null."""

    def __init__(self, file: _File) -> None:
        self._file = file

    def line(self, node: ast.expr, function: ast.AST, depth: int = 0) -> int:
        """Return the line that loads what an expression holds, or a part of it; 0: none is in sight."""
        if depth > _DEEPEST:
            return 0
        match node:
            case ast.Call(func=called, args=args, keywords=keywords):
                if last_name(called) in _LOADING:
                    return node.lineno
                given = [*args, *(each.value for each in keywords if each.arg is None)]
                return self._first(given, function, depth) or self._made(last_name(called), depth)
            case ast.Dict(keys=keys, values=values):
                merged = [value for key, value in zip(keys, values, strict=True) if key is None]
                return self._first(merged, function, depth)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return self._first([left, right], function, depth)
            case ast.Attribute(value=owner, attr=name) if is_self(owner):
                kept = self._file.values_of(name)
                return max((self.line(each, around, depth + 1) for each, around in kept), default=0)
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                return self.line(inner, function, depth + 1)
            case ast.Name(id=name):
                return self._name(name, function, depth)
        return 0

    def _first(self, nodes: Iterable[ast.expr], function: ast.AST, depth: int) -> int:
        return next((line for each in nodes if (line := self.line(each, function, depth + 1))), 0)

    def _name(self, name: str, function: ast.AST, depth: int) -> int:
        if isinstance(function, FUNCTIONS):
            others = function.args.kwarg
            if others is not None and others.arg == name:
                # the fields of an object that is made of them
                if not depth:
                    return 0
                return function.lineno
            for given in _parameters(function):
                if given.arg == name:
                    passed = self._file.passed_for(given, function)
                    return max((self.line(each, around, depth + 1) for each, around in passed), default=0)
            held = assigned_values(function.body).get(name, [])
            if held:
                return self._first(held, function, depth)
        return self._first(self._file.global_values(name), self._file.tree, depth)

    def _made(self, name: str, depth: int) -> int:
        """Return the line by which a function of the file returns what it loads, or gives names of a run's choice."""
        for each in (one for one in self._file.functions if one.name == name):
            returned = [one.value for one in ast.walk(each) if isinstance(one, ast.Return) and one.value is not None]
            line = self._first(returned, each, depth)
            for one in ast.walk(each):
                match one:
                    case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(), key, _]):
                        # A name in the code is an attribute like any other; only names that a run decides come from
                        # outside.
                        line = line or (0 if isinstance(key, ast.Constant) else one.lineno)
            if line:
                return line
        return 0


def _falls_through(body: list[ast.stmt]) -> bool:
    """Whether a function may end behind the last statement of a block, and return None."""
    match body[-1]:
        case ast.Return() | ast.Raise():
            return False
        case ast.If(body=yes, orelse=no):
            return not no or _falls_through(yes) or _falls_through(no)
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return _falls_through(inner)
        case ast.Try(body=inner, handlers=handlers, orelse=no, finalbody=last):
            parts = [no or inner, *(each.body for each in handlers)]
            return not (last and not _falls_through(last)) and any(map(_falls_through, parts))
        case ast.Match(cases=cases):
            every = isinstance(cases[-1].pattern, ast.MatchAs) and cases[-1].pattern.pattern is None
            return not every or any(_falls_through(each.body) for each in cases)
        case ast.While(test=ast.Constant(value=True)):
            return False
    return True


def _results(node: ast.IfExp | ast.BoolOp) -> list[ast.expr]:
    """Return what an expression may be; of `a or b`, a None in `a` is not taken."""
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node.op, ast.Or):
        return node.values[-1:]
    return node.values


def _given_none(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the keywords, keys and fields that are None in a node, with the line."""
    match node:
        case ast.Call(func=made) if last_name(made) == "namedtuple":
            yield from _late_fields(node)
        case ast.Call(func=made) if last_name(made) in _OPTION_MAKERS:
            yield from _optional_options(node)
        case ast.Call(keywords=keywords):
            yield from ((one.arg, one.value.lineno) for one in keywords if one.arg and is_none(one.value))
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and is_none(value):
                    yield key.value, value.lineno
        case ast.ClassDef(body=body):
            yield from _none_fields(body)


def _none_fields(body: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Yield the fields that the body of a class says may be None, with the line."""
    for one in body:
        match one:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                if is_none(one.value) or _is_optional(kind) or _is_none_field(one.value):
                    yield name, one.lineno
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_none(value):
                yield name, one.lineno


def _optional_options(call: ast.Call) -> Iterator[tuple[str, int]]:
    """Yield the option of a command line that a call adds, by the name that its value gets, if it may be None.

    An option that is not required is None where a user leaves it out, unless it has a default, or counts as a flag.
    """
    given = {each.arg: each.value for each in call.keywords}
    words = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    action = given.get("action")
    is_value = action is None or (isinstance(action, ast.Constant) and action.value in ("store", "append", "extend"))
    is_flag = any(name in given for name in ("is_flag", "count", "flag_value")) or not is_value
    required = given.get("required")
    is_required = isinstance(required, ast.Constant) and required.value is True
    options = [each for each in words if each.startswith("-")]
    # Positional arguments are required, unless `nargs="?"`.
    may_be_left_out = bool(options) or (isinstance(given.get("nargs"), ast.Constant) and given["nargs"].value == "?")  # type: ignore[attr-defined]
    if is_flag or is_required or not may_be_left_out or not is_none(given.get("default", ast.Constant(None))):
        return
    named = given.get("dest")
    if isinstance(named, ast.Constant) and isinstance(named.value, str):
        names = [named.value]
    else:
        plain = [each for each in words if each.isidentifier()]
        long = [each for each in options if each.startswith("--")]
        # As argparse and click name the value: an explicit name, else the first long option.
        names = plain[:1] or [each.lstrip("-").partition("/")[0].replace("-", "_") for each in (*long, *options)[:1]]
    yield from ((name, call.lineno) for name in names)


def _late_fields(call: ast.Call) -> Iterator[tuple[str, int]]:
    """Yield the fields of a named tuple that are None by default: defaults are those of the last fields."""
    names: list[str] = []
    match call.args[1:]:
        case [ast.Constant(value=str(text))]:
            names = text.replace(",", " ").split()
        case [ast.List(elts=elts) | ast.Tuple(elts=elts)]:
            names = [str(each.value) for each in elts if isinstance(each, ast.Constant)]
    defaults = keyword_of(call, "defaults")
    if isinstance(defaults, ast.Tuple | ast.List):
        # From the end: defaults are those of the last fields.
        for name, default in zip(names[::-1], defaults.elts[::-1], strict=False):
            if is_none(default):
                yield name, default.lineno
    elif defaults is not None:
        yield from ((name, defaults.lineno) for name in names)  # `(None,) * 3`


def _set_in(node: ast.AST) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    """Yield each object that a node gives an attribute, with its name and its value."""
    for target, value in _pairs(node):
        if isinstance(target, ast.Attribute):
            yield target.value, target.attr, value
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=elts)], value=ast.Call() as call):
            for at, target in enumerate(elts):
                if isinstance(target, ast.Attribute):
                    # The part of the result stands for what the attribute gets, as `call()[at]`.
                    part = ast.Subscript(call, ast.Constant(at), ast.Load())
                    yield target.value, target.attr, ast.copy_location(part, call)
        case ast.Call(func=ast.Name(id="setattr"), args=[holder, ast.Constant(value=str(name)), given]):
            yield holder, name, given
        case ast.Call(func=ast.Attribute(value=holder, attr=method), args=args) if method in _REGISTERING:
            key = args[0] if args else keyword_of(node, "name")
            kept = args[1] if len(args) > 1 else keyword_of(node, "tensor") or keyword_of(node, "param")
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and kept is not None:
                yield holder, key.value, kept


def _is_decorated(cls: ast.ClassDef, names: Collection[str]) -> bool:
    """Whether a class has a method that a function of one of these names decorates."""
    every = (each for method in cls.body if isinstance(method, FUNCTIONS) for each in method.decorator_list)
    return any(last_name(each.func if isinstance(each, ast.Call) else each) in names for each in every)


def _plain_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block that have no others inside of them, without those of functions and classes."""
    for each in body:
        if isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            continue
        inside = [part for part in blocks_of(each) if part]
        if inside:
            for part in inside:
                yield from _plain_statements(part)
        else:
            yield each


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment with its value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _matched(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.NamedExpr(target=target, value=value):
            yield target, value


def _matched(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    match target, value:
        case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.Tuple(elts=values) | ast.List(elts=values):
            for one, other in zip(targets, values, strict=False):
                yield from _matched(one, other)
        case _:
            yield target, value


def assigned_values(body: Iterable[ast.stmt]) -> Mapping[str, list[ast.expr]]:
    """Return what a block assigns to names, without the functions and classes in it."""
    found: dict[str, list[ast.expr]] = {}
    waiting = list(body)
    while waiting:
        each = waiting.pop()
        if isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            continue
        for target, value in _pairs(each):
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
        for name in ("body", "orelse", "finalbody"):
            waiting += getattr(each, name, ())
    return found


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _every_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return the parameters of a function, with `*args` and `**kwargs`."""
    rest = [each for each in (function.args.vararg, function.args.kwarg) if each is not None]
    return [*_parameters(function), *rest]


def _is_global(name: str) -> Callable[[ast.AST], bool]:
    """Return a test for statements that take a name from outside of their function."""
    return lambda node: isinstance(node, ast.Global | ast.Nonlocal) and name in node.names


def _body_values(cls: ast.ClassDef, name: str) -> list[tuple[ast.expr | None, ast.expr | None]]:
    """Return the annotation and the value of a field of a class."""
    found: list[tuple[ast.expr | None, ast.expr | None]] = []
    for each in cls.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=known), annotation=kind, value=value) if known == name:
                found.append((kind, value))
            case ast.Assign(targets=[ast.Name(id=known)], value=value) if known == name:
                found.append((None, value))
    return found


_PLAIN_BASES = frozenset(("Module", "object", "ABC", "Generic", "Protocol"))
"""Classes outside of the file that give their objects no attribute that code reads as data."""


def _bases(names: Iterable[str], classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """Return the classes that some classes derive from, without those that are known to bring nothing."""
    return {last_name(base) for name in names for base in classes[name].bases} - _PLAIN_BASES


def _above(classes: Mapping[str, ast.ClassDef], names: Iterable[str]) -> set[str]:
    """Return some classes, and those of the file that they derive from."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in classes and name not in found:
            found.add(name)
            waiting += [last_name(base) for base in classes[name].bases]
    return found


def _defines(node: ast.stmt, name: str) -> bool:
    """Whether a statement of a class body gives its objects an attribute."""
    match node:
        case ast.FunctionDef(name=found) | ast.AnnAssign(target=ast.Name(id=found), value=ast.expr()):
            return found == name
        case ast.Assign(targets=targets):
            return any(isinstance(each, ast.Name) and each.id == name for each in targets)
    return False


def _sets_any(method: ast.AST) -> bool:
    """Whether a method sets attributes whose names a run decides: `setattr(self, name, value)`."""
    for each in ast.walk(method):
        match each:
            case ast.Call(func=ast.Name(id="setattr"), args=[holder, key, _]) if is_self(holder):
                if not isinstance(key, ast.Constant):
                    return True
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=holder, attr="__dict__"), attr="update")):
                if is_self(holder):
                    return True
    return False


def _is_none_field(value: ast.expr | None) -> bool:
    """Whether a field of a dataclass is None by default: `field(default=None)`."""
    return (
        isinstance(value, ast.Call)
        and last_name(value.func) in ("field", "Field")
        and is_none(keyword_of(value, "default"))
    )


def _is_below(node: ast.AST, function: ast.AST) -> bool:
    return any(each is node for each in ast.walk(function))


def _binds(function: ast.AST, name: str) -> bool:
    """Whether a function gives a name a value in any way."""
    return any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        for each in ast.walk(function)
    )


def _raising_property(classes: Iterable[ast.ClassDef]) -> dict[str, int]:
    """Return the properties that may raise, with the line: they raise themselves, or take an item that may be missing.

    `return self.history[-1]` raises before the first call that appends to it.
    """
    found: dict[str, int] = {}
    for cls in classes:
        for method in cls.body:
            if isinstance(method, FUNCTIONS) and any("property" in last_name(each) for each in method.decorator_list):
                for each in (below for statement in method.body for below in ast.walk(statement)):
                    is_raising = isinstance(each, ast.Raise | ast.Assert) or _takes_item(each)
                    if is_raising and isinstance(each, ast.stmt | ast.expr):
                        found.setdefault(method.name, each.lineno)
    return found


def _takes_item(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(slice=ast.Slice() | ast.Tuple()):
            return False
        case ast.Subscript(ctx=ast.Load()):
            return True
        case ast.Call(func=ast.Name(id="next"), args=[_]) | ast.Call(func=ast.Attribute(attr="pop")):
            return True
    return False


def _is_optional(annotation: ast.expr) -> bool:
    """Whether an annotation says `Optional`, or None beside another type."""
    text = None
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        text = annotation.value
    if text is not None:
        return "None" in text or "Optional" in text
    return any(
        is_none(each) or (isinstance(each, ast.expr) and last_name(each) == "Optional") for each in ast.walk(annotation)
    )


def _is_empty(value: ast.expr) -> bool:
    """Whether a tensor is made without elements, as one whose size is not known yet."""
    match value:
        # A size of 0 is how code makes a buffer that `load_state_dict` or the first call replaces.
        case ast.Call(args=[ast.Constant(value=0) | ast.Tuple(elts=[ast.Constant(value=0), *_]), *_]):
            return last_name(value.func) in _OF_SIZES
        case ast.Call(args=[ast.List(elts=[]), *_]):
            return last_name(value.func) in _OF_VALUES
        case ast.Call(args=[]):
            return last_name(value.func) in ("Tensor", "UninitializedBuffer", "UninitializedParameter")
    return False


_CONTAINERS = frozenset(
    ("list", "dict", "set", "deque", "OrderedDict", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
)


def _is_without_elements(value: ast.expr) -> bool:
    """Whether a container is made without elements."""
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=called, args=[] | [ast.List(elts=[])]):
            return last_name(called) in _CONTAINERS
    return False


def _fills(name: str) -> Callable[[ast.AST], bool]:
    """Return a test for nodes that put an element into what an attribute holds, or replace it."""

    def is_it(node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == name

    def test(node: ast.AST) -> bool:
        match node:
            case ast.Assign(targets=targets):
                return any(isinstance(each, ast.Subscript) and is_it(each.value) for each in targets)
            case ast.AugAssign(target=target):
                return is_it(target)
            case ast.Call(func=ast.Attribute(value=holder, attr=method)):
                return is_it(holder) and method in _ADDING
        return False

    return test


_ADDING = frozenset(("append", "extend", "insert", "add", "update", "setdefault", "appendleft", "add_module"))


def _returned_calls(function: ast.AST) -> list[ast.Call]:
    """Return the calls that a function returns the value of."""
    returned = (each.value for each in ast.walk(function) if isinstance(each, ast.Return))
    return [each for each in returned if isinstance(each, ast.Call)]


def _stored_in(target: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _is_filled(value: ast.expr) -> bool:
    """Whether a list or a container of layers is made with elements: by literals, or over a number that is one."""
    match value:
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return bool(elts)
        case ast.ListComp(generators=[loop]) | ast.GeneratorExp(generators=[loop]):
            return not loop.ifs and _is_filled(loop.iter)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(number))]):
            return number > 0
        case ast.Call(func=called, args=args) if last_name(called) in ("ModuleList", "Sequential", "list", "tuple"):
            return any(map(_is_filled, args)) or (last_name(called) == "Sequential" and bool(args))
    return False


def _is_empty_by_default(value: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a tensor is made of a parameter that has no elements where a caller gives none: `gains=()`."""
    match value:
        case ast.Call(func=made, args=[ast.Name(id=name), *_]):
            default = defaults_of(function).get(name)
        case _:
            return False
    if last_name(made) in (*_OF_VALUES, "as_tensor", "asarray") and isinstance(default, ast.Tuple | ast.List):
        return not default.elts
    is_zero = isinstance(default, ast.Constant) and default.value == 0 and isinstance(default.value, int)
    return is_zero and last_name(made) in _OF_SIZES


def _none_in(values: Iterable[ast.expr] | None) -> int:
    """Return the line of a None in a table; 0: there is none."""
    for value in values or ():
        for each in ast.walk(value):
            if isinstance(each, ast.Constant) and each.value is None:
                return each.lineno
    return 0
