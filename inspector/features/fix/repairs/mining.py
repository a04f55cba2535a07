"""What the code of a target compares with, and who else writes what a repair changes: what a proof has to try.

Further numbers decide without standing in a comparison: ends of slices, named constants, defaults. Other callers in a
file call the function that a change touches, and must run in the proof. Chosen attributes are what callers decide about
an object: those of the attributes that a change reads which its constructor takes from them.

Reads Python without running it.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ctrace.inspector.facts.trial import Condition, Mined
from ctrace.inspector.features.fix.repairs.other_writers import other_writers
from ctrace.inspector.knowledge.torch_ops import VIEWS
from ctrace.inspector.source.absent_values import assigned_values
from ctrace.inspector.source.attribute_writes import (
    FUNCTIONS,
    family,
    has_body,
    is_none,
    is_self,
    keyword_of,
    last_name,
    statements,
    writes,
)
from ctrace.inspector.source.text import parsed, replaced_lines

_MOST_CONSTANTS = 6
"""Numbers of the code around which sizes and values are tried; each costs several calls."""
_MOST_FURTHER = 10
"""Numbers that stand in no comparison decide less often, so each gets fewer probes (child/probes.py)."""
_LARGEST = 1 << 31
_MOST_TEXTS = 4
"""Strings of the code that are passed for options."""
_MOST_ATTRIBUTES = 8
"""Attributes that are set to other values."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OWNERS = (*_FUNCTIONS, ast.ClassDef)
_COPIES = frozenset(("deepcopy", "copy"))
_MOST_METHODS = 16
"""Names of methods that write what matters: as many as a proof calls (child/method_arguments.py)."""
_HOOKING = frozenset(
    ("Function", "custom_op", "register_autograd", "register_parametrization", "add_done_callback", "finalize")
) | {"TorchDispatchMode", "TorchFunctionMode", "queue_callback", "checkpoint", "settrace", "setprofile"}
"""Names of torch and Python whose use lets other code run later, or around ops; all names with `hook` do, too."""
_CALLABLES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_TOO_COMMON = frozenset(("forward", "step", "update", "reset", "close", "get", "__init__", "__call__"))
"""Methods that objects of many classes have: a call by such a name says nothing about the class."""
_DEEPEST = 3
"""Names that are followed back to the attributes that they were computed from."""
_MOST_OF_CALLERS = 12
"""Attributes that are tried, each with one to three values of another kind."""
_KEEPING_DTYPE = frozenset(("as_tensor", "asarray", "from_numpy", "tensor"))
"""Functions that make a tensor of what they get, in its dtype."""


def mined(texts: Mapping[str, str], changed: Mapping[str, Iterable[str]]) -> Mined:
    """Return the numbers, texts and attributes in the conditions of some files.

    Args:
        texts: the files as they are.
        changed: the texts that repairs would give them; what is near to their changes comes first.
    """
    constants: dict[int | float, None] = {}
    further: dict[int | float, None] = {}
    words: dict[str, None] = {}
    attributes: dict[str, None] = {}
    methods: dict[str, None] = {}
    chosen: dict[str, None] = {}
    behind: dict[str, PassedParameter] = {}
    for file, given in changed.items():
        afters = list(given)
        tree = parsed(texts.get(file, ""))
        if tree is None:
            continue
        lines = frozenset(line for after in afters for line in replaced_lines(texts[file], after))
        named = names_read(tree)
        for node in _nearest_first(tree, lines):
            for value in _compared(node, tree):
                if isinstance(value, str):
                    words[value] = None
                else:
                    constants[value] = None
            further |= dict.fromkeys(further_constants(node, named))
            attributes |= dict.fromkeys(_attributes_in_tests(node))
        words |= dict.fromkeys(_keys_of_tables(tree))
        writing = {line.line for after in afters for line in writers(file, texts[file], after)}
        methods |= dict.fromkeys(_functions_with(tree, writing))
        chosen |= dict.fromkeys(chosen_attributes(tree, lines))
        behind |= parameters_behind(tree, chosen)
    # Of `cfg` and `cfg.kind`, the object itself is no plain value.
    attributes = {each: None for each in attributes if not any(one.startswith(f"{each}.") for one in attributes)}
    kept = list(constants)[:_MOST_CONSTANTS]
    others = [each for each in {**constants, **further} if each not in kept and abs(each) < _LARGEST][:_MOST_FURTHER]
    return Mined(
        tuple(each for each in kept if isinstance(each, int) and abs(each) < _LARGEST),
        tuple(each for each in kept if isinstance(each, float) and abs(each) < _LARGEST),
        tuple(words)[:_MOST_TEXTS],
        tuple(attributes)[:_MOST_ATTRIBUTES],
        tuple(methods)[:_MOST_METHODS],
        tuple(changed),
        tuple(each for each in others if isinstance(each, int)),
        tuple(each for each in others if isinstance(each, float)),
        chosen=tuple(chosen),
        untyped=tuple(name for name, each in behind.items() if not each.is_annotated),
        undefined=tuple(name for name, each in behind.items() if not (each.is_annotated or each.has_default)),
    )


def _keys_of_tables(tree: ast.Module) -> Iterator[str]:
    """Yield the texts that a dictionary of the file has as keys: names that a method may take, as of a preset."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            for key in node.value.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value


def _functions_with(tree: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield the names of the functions that have one of the lines, and of those that call them."""
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    found = {each.name for each in functions if any(_covers(each, line) for line in lines)}
    # Every constructor calls `super().__init__()`, and a call of some `forward` says nothing about this one.
    waiting = found - {"forward", "__init__"}
    while waiting:
        callers = {each.name for each in functions if waiting & set(_called_in(each))} - found
        found |= callers
        waiting = callers - {"forward", "__init__"}
    yield from sorted(found)


def _called_in(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                yield name


def _nearest_first(tree: ast.Module, lines: frozenset[int]) -> Iterator[ast.AST]:
    """Yield the nodes of classes and functions that have one of the lines, then those of the others."""
    near: list[ast.stmt] = []
    far: list[ast.stmt] = []
    for owner in tree.body:
        is_near = isinstance(owner, _OWNERS) and any(_covers(owner, line) for line in lines)
        if is_near:
            near.append(owner)
        else:
            far.append(owner)
    for owner in (*near, *far):
        yield from ast.walk(owner)


def _covers(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _compared(node: ast.AST, tree: ast.Module) -> Iterator[int | float | str]:
    """Yield the literals of a comparison; a name in capitals stands for the literal that the file assigns to it."""
    if not isinstance(node, ast.Compare):
        return
    for side in (node.left, *node.comparators):
        # The other side of `in`: `self.mode in ("mean", "sum")`.
        for each in side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else (side,):
            if not isinstance(each, ast.Name):
                value = _literal(each)
            else:
                value = _global(tree, each.id)
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield value


def _literal(node: ast.expr) -> object:
    try:
        # Not `ast.Constant`: `-1` is an operator and a number.
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _global(tree: ast.Module, name: str) -> object:
    for each in tree.body:
        match each:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                return _literal(value)
    return None


def _attributes_in_tests(node: ast.AST) -> Iterator[str]:
    """Yield the attributes that a condition reads, without `self.`; the test of a loop or a comprehension counts."""
    tests: list[ast.expr] = []
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            tests = [test]
        case ast.comprehension(ifs=ifs):
            tests = ifs
        case ast.Match(subject=subject):
            tests = [subject]
    for test in tests:
        for each in ast.walk(test):
            if isinstance(each, ast.Attribute):
                head, _, rest = ast.unparse(each).partition(".")
                if head == "self" and all(part.isidentifier() for part in rest.split(".")):
                    yield rest


# Who else writes


def writers(file: str, before: str, after: str) -> tuple[Condition, ...]:
    """Return the lines that write what a change stores, copies, rebinds or reads: each must run in the proof.

    A branch that no call takes may write in place what is an alias after the change, or expect the number that was
    there before it; a method that nobody calls may take away what is read in each call after the change.
    """
    tree, lines = parsed(before), replaced_lines(before, after)
    if tree is None or not lines:
        return ()
    found: dict[Condition, None] = {}
    attributes = _stored(tree, lines) | _added(before, after)
    related = _related(tree, lines)
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef) and attributes and owner.name in related:
            for method in owner.body:
                if isinstance(method, _FUNCTIONS) and method.name != "__init__":
                    found |= dict.fromkeys(_lines_that_write(file, method, frozenset(attributes), lines))
        elif isinstance(owner, _FUNCTIONS):
            names = _sharing(owner, _bound_on(owner, lines))
            if names:
                found |= dict.fromkeys(_lines_that_write(file, owner, frozenset(names), lines, is_local=True))
    found |= dict.fromkeys(other_writers(file, before, after))
    return tuple(found | dict.fromkeys(other_callers(file, before, after)))


def _related(tree: ast.Module, lines: Iterable[int]) -> set[str]:
    """Return the classes with one of the lines, with the classes of the file that they derive from, and their own."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return family(classes, (each.name for each in classes if any(_covers(each, line) for line in lines)))


def _stored(tree: ast.Module, lines: Collection[int]) -> set[str]:
    """Return the attributes of self that statements on some lines assign, register or copy."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, _OWNERS) and node.lineno in lines:
            found |= _attributes_of(node)
    return found


def _added(before: str, after: str) -> set[str]:
    """Return the attributes that the new lines of a change store."""
    tree = parsed(after)
    if tree is None:
        return set()
    return _stored(tree, frozenset(replaced_lines(after, before)))


def _attributes_of(node: ast.stmt) -> set[str]:
    found: set[str] = set()
    # Its first line is that of the head alone; statements in its body have lines of their own.
    if isinstance(node, ast.If | ast.While | ast.For | ast.With | ast.Try):
        head = node.body[:0]
    else:
        head = [node]
    for each in (below for part in head for below in ast.walk(part)):
        match each:
            case ast.Assign(targets=targets):
                found |= {name for target in targets for name in _roots(target)}
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                found |= set(_roots(target))
            # `self.register_buffer("seen", ...)` makes self.seen without an assignment to it.
            case ast.Call(func=ast.Attribute(attr="register_buffer" | "register_parameter"), args=[first, *_]):
                text = _literal(first)
                if isinstance(text, str):
                    found |= {text}
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[first]) if name in _COPIES:
                found |= set(_roots(first))
    return found


def _roots(node: ast.expr) -> Iterator[str]:
    """Yield `n` for self.n, self.n.m, self.n[0] and self.n(), and for each item of a tuple."""
    if isinstance(node, ast.Tuple | ast.List):
        for each in node.elts:
            yield from _roots(each)
        return
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Call):
            inner = node.func
        else:
            inner = node.value
        if isinstance(node, ast.Attribute) and isinstance(inner, ast.Name) and inner.id == "self":
            yield node.attr
        node = inner


def _bound_on(function: ast.AST, lines: Collection[int]) -> set[str]:
    """Return the local names that statements of a function on some lines assign."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno in lines:
            if isinstance(node, ast.Assign):
                targets = node.targets
            else:
                targets = [node.target]
            found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found - {"self"}


def _sharing(function: ast.AST, names: set[str]) -> set[str]:
    """Add the local names that may share memory with some, as `rows` and `table` do after `rows = table[:4]`."""
    pairs = [
        (each.id, root)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for root in _viewed(node.value)
        for each in node.targets
        if isinstance(each, ast.Name)
    ]
    found = set(names)
    while found:
        more = {name for pair in pairs if found & {*pair} for name in pair} - found - {"self"}
        found |= more
        if not more:
            break
    return found


def _lines_that_write(
    file: str, function: ast.AST, names: frozenset[str], lines: Collection[int], *, is_local: bool = False
) -> Iterator[Condition]:
    """Yield the lines of a function that write to attributes of self, or to what local names hold."""
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and node.lineno not in lines and _written(node, is_local=is_local) & names:
            yield Condition(file, node.lineno, "")


def _written(node: ast.stmt, *, is_local: bool) -> set[str]:
    """Return the names that one simple statement writes to: attributes of self, or local names in place."""
    targets: list[ast.expr] = []
    match node:
        case ast.Assign(targets=found) | ast.Delete(targets=found):
            # Another value for a local name leaves what it held as it is.
            targets = [each for each in found if not (is_local and isinstance(each, ast.Name))]
        case ast.AugAssign(target=target):
            targets = [target]
        # An annotated local name is only bound to another value, like one without an annotation.
        case ast.AnnAssign(target=target) if not is_local:
            targets = [target]
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return):
        targets += [each for below in ast.walk(node) for each in _written_in(below)]
    return {name for each in targets for name in (_names(each) if is_local else _roots(each))}


def _written_in(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a part of an expression writes to."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if writes(method):
            yield value
        case ast.keyword(arg="out", value=value):
            yield value
        case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[ast.Name() as holder, name, *_]):
            text = _literal(name)
            if isinstance(text, str):
                yield ast.Attribute(holder, text)


def _viewed(value: ast.expr) -> Iterator[str]:
    """Yield the local name whose memory a value may share: t, t[0], t.T, t.view(2)."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.Subscript(value=inner) | ast.Attribute(value=inner, attr="T" | "mT" | "data" | "real"):
            yield from _viewed(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in VIEWS:
            yield from _viewed(inner)


def _names(target: ast.expr) -> set[str]:
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    if not isinstance(target, ast.Name):
        return set()
    return {target.id}


# What runs later


def runs_hooks(text: str) -> bool:
    """Whether a file registers code that runs in a backward pass, or around the calls of modules and ops.

    Such code prints, logs and draws where no statement of a repair can be read: `t.register_hook(report)`, a class of
    torch.autograd.Function or of a dispatch mode. Doubt counts as a hook.
    """
    tree = parsed(text)
    return tree is None or any(map(_is_hook, ast.walk(tree)))


def _is_hook(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
            last = name.rpartition(".")[2]
            return "hook" in last or last in _HOOKING
        case ast.FunctionDef(name=name):
            return name in ("__torch_function__", "__torch_dispatch__")
    return False


def further_constants(node: ast.AST, named: frozenset[str]) -> Iterator[int | float]:
    """Yield the numbers that a node of a class or function names, cuts by, or takes where a call passes none.

    Args:
        node: the node alone, without those below it but for a slice.
        named: the names that the classes and functions of the file read.
    """
    match node:
        case ast.Subscript(slice=index):
            # A slice needs no comparison to decide: `x[:, 12:]` is empty up to a size of 12.
            yield from _numbers(_parts(index))
        case ast.arguments(defaults=defaults, kw_defaults=others):
            yield from _numbers(each for each in (*defaults, *others) if each is not None)
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value) if name in named:
            yield from _numbers([value])
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), value=ast.expr() as value) if (
            name in named
        ):
            yield from _numbers([value])


def names_read(tree: ast.Module) -> frozenset[str]:
    """Return the names and attributes that the functions of a file read."""
    found: set[str] = set()
    for function in ast.walk(tree):
        if not isinstance(function, _CALLABLES):
            continue
        for each in ast.walk(function):
            match each:
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                    found.add(name)
    return frozenset(found)


def _parts(index: ast.expr) -> Iterator[ast.expr]:
    """Yield the single numbers of an index: `12` of `x[:, 12:]`."""
    for each in index.elts if isinstance(index, ast.Tuple) else (index,):
        ends: tuple[ast.expr | None, ...] = (each,)
        if isinstance(each, ast.Slice):
            ends = (each.lower, each.upper, each.step)
        yield from (end for end in ends if end is not None)


def _numbers(values: Iterable[ast.expr]) -> Iterator[int | float]:
    for value in values:
        try:
            number = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(number, int) and not isinstance(number, bool) and abs(number) > 1:
            yield abs(number)  # `x[-12:]` has no other rows up to a size of 12
        elif isinstance(number, float):
            yield number


def other_callers(file: str, before: str, after: str) -> Iterator[Condition]:
    """Yield the lines of methods that call a changed function, or a changed method of another object.

    A helper that brings images to the unit range may get tensors from a model, and NumPy arrays from a dataset in the
    same file. `torch.where` refuses the arrays, and no call of the model shows it. A method that calls the helper with
    its own `prior` passes what has another shape, which only the branch kept from being used.

    Functions that call it are left alone: a program's `main` need not run in the proof, and what they pass is asked
    about where they use arrays (`open_questions`).
    """
    tree, lines = parsed(before), replaced_lines(before, after)
    if tree is None or not lines:
        return
    functions = {each.name for each in tree.body if isinstance(each, FUNCTIONS) and _is_in(each, lines)}
    classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    changed = {method.name for cls in classes for method in _methods(cls) if _is_in(method, lines)}
    names = [method.name for cls in classes for method in _methods(cls)]
    # A call tells the name alone, so a method that two classes have may be the other one's.
    methods = {name for name in changed - _TOO_COMMON if names.count(name) == 1 and not name.startswith("__")}
    for cls in classes:
        for method in _methods(cls):
            for statement, call in _calls(method):
                is_called = isinstance(call.func, ast.Name) and call.func.id in functions
                is_other = isinstance(call.func, ast.Attribute) and not is_self(call.func.value)
                if is_called or (is_other and last_name(call.func) in methods):
                    yield Condition(file, statement.lineno if not has_body(statement) else call.lineno, "")


def _methods(cls: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (each for each in cls.body if isinstance(each, FUNCTIONS))


def _is_in(function: ast.stmt, lines: Collection[int]) -> bool:
    return any(function.lineno <= line <= (function.end_lineno or function.lineno) for line in lines)


def _calls(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """Yield the calls in a method, each with the innermost statement that it stands in."""
    for statement, _ in statements(method.body, is_certain=True):
        heads = [getattr(statement, name, None) for name in ("test", "iter", "subject")]
        if has_body(statement):
            parts = [*(each for each in heads if each), *getattr(statement, "items", ())]
        else:
            parts = [statement]
        for each in (below for part in parts for below in ast.walk(part)):
            if isinstance(each, ast.Call):
                yield statement, each


def chosen_attributes(tree: ast.Module, lines: Collection[int]) -> tuple[str, ...]:
    """Return the attributes that statements on some lines compute with and that callers choose, without `self.`.

    Of what a caller passes as a whole, each part: `config.rate`, `options['rate']`.

    `Net(rate=2)` and `Net(rate=1.5)` are objects of one class, and the file makes one of them. A rate that is an
    integer leaves lengths integers on both sides of a branch; torch.where makes all of them floats where it is a
    fraction. A proof sets such attributes to values of other types and forms (child/other_objects.py).
    """
    found: dict[str, None] = {}
    functions = [each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)]
    for function in functions:
        nodes = [each for each in ast.walk(function) if getattr(each, "lineno", 0) in lines]
        if nodes:
            values = assigned_values(function.body)
            found |= {name: None for each in nodes for name in _read(each, values, 0)}
            found |= dict.fromkeys(_passed(tree, function))
    return tuple(each for each in found if _is_chosen(tree, functions, each))[:_MOST_OF_CALLERS]


class PassedParameter(NamedTuple):
    """What a file says of a parameter that an attribute is assigned from as it is."""

    is_annotated: bool
    has_default: bool


def parameters_behind(tree: ast.Module, names: Iterable[str]) -> dict[str, PassedParameter]:
    """Return the parameters of methods that attributes of these names are, as in `self.rate = rate`.

    Of several, the one that says least: a caller may use any of the methods.
    """
    wanted, found = frozenset(names), dict[str, PassedParameter]()
    for function in (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)):
        given = _parameters(function)
        for each in ast.walk(function):
            match each:
                case ast.Assign() | ast.AnnAssign():
                    for name, value in _assigned_attributes(each):
                        if name in wanted and isinstance(value, ast.Name) and value.id in given:
                            found[name] = min(given[value.id], found.get(name, given[value.id]))
    return found


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, PassedParameter]:
    """Return the parameters of a function by name, without `self`."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    # Defaults belong to the last parameters, and the list has no entries for those before.
    plain = [None] * (len(positional) - len(given.defaults))
    pairs = [
        *zip(positional, [*plain, *given.defaults], strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return {
        each.arg: PassedParameter(each.annotation is not None, default is not None)
        for each, default in pairs
        if each.arg != "self"
    }


def _read(node: ast.AST, values: Mapping[str, list[ast.expr]], depth: int) -> Iterator[str]:
    """Yield the attributes of self in a node, and in what its names were computed from."""
    match node:
        case ast.Attribute() | ast.Subscript():
            yield from _path(node)
        case ast.Name(id=name) if depth < _DEEPEST:
            for value in values.get(name, ()):
                for each in ast.walk(value):
                    yield from _read(each, values, depth + 1)


def _path(node: ast.Attribute | ast.Subscript) -> Iterator[str]:
    """Yield an attribute of self, or a part of one, without `self.`."""
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute) or (
        isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant)
    ):
        inner = inner.value
    if is_self(inner):
        yield ast.unparse(node).removeprefix("self.")


def _passed(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the attributes that calls pass to a function of the file that is no method."""
    if function in tree.body:
        for each in ast.walk(tree):
            if isinstance(each, ast.Call) and last_name(each.func) == function.name:
                for given in (*each.args, *(word.value for word in each.keywords)):
                    # No name is followed: what it stands for is assigned in the caller.
                    yield from _read(given, {}, _DEEPEST)


def _is_chosen(tree: ast.Module, functions: list[ast.FunctionDef | ast.AsyncFunctionDef], name: str) -> bool:
    """Whether what an attribute holds depends on the caller of a method: it is its argument, or one of two choices."""
    root = re.split(r"[.\[]", name)[0]
    for function in functions:
        given = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)} - {"self"}
        for each in ast.walk(function):
            match each:
                case ast.Assign() | ast.AnnAssign():
                    held = [value for found, value in _assigned_attributes(each) if found == root]
                    if any(_depends(value, given) or _has_chosen_dtype(value, given) for value in held):
                        return True
                case ast.Call(func=ast.Attribute(attr="register_buffer"), args=[ast.Constant(value=found), value, *_]):
                    if found == root and (_depends_as_buffer(value, given) or _has_chosen_dtype(value, given)):
                        return True
    return False


def _assigned_attributes(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes of self that a statement assigns, each with its value: `self.rate, self.pad = rate, pad`."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if node.value is None:
        return
    pairs = [(target, node.value) for target in targets]
    for target, value in pairs:
        match target, value:
            case ast.Tuple(elts=parts) | ast.List(elts=parts), ast.Tuple(elts=values) | ast.List(elts=values):
                # The loop also comes to what is added here, so nested tuples are taken apart as well.
                if len(parts) == len(values):
                    pairs += zip(parts, values, strict=True)
            case ast.Attribute(value=holder, attr=name), _ if is_self(holder):
                yield name, value


def _depends_as_buffer(value: ast.expr, given: Collection[str]) -> bool:
    """Whether a buffer is what a caller gives, or one of two tensors; one that may be None is asked about instead."""
    sides = [side for each in ast.walk(value) if isinstance(each, ast.IfExp) for side in (each.body, each.orelse)]
    return _depends(value, given) and not any(map(is_none, sides))


def _is_given(value: ast.expr, given: Collection[str]) -> bool:
    return isinstance(value, ast.Name) and value.id in given


def _has_chosen_dtype(value: ast.expr, given: Collection[str]) -> bool:
    """Whether a call makes a tensor of a dtype that is an argument, or that of an argument: an array has float64."""
    for each in ast.walk(value):
        if isinstance(each, ast.Call):
            dtype = keyword_of(each, "dtype")
            if dtype is None and last_name(each.func) in _KEEPING_DTYPE:
                dtype = next(iter(each.args), None)
            if dtype is not None and _is_given(dtype, given):
                return True
    return False


def _depends(value: ast.expr, given: Collection[str]) -> bool:
    if isinstance(value, ast.Name):
        return _is_given(value, given)
    return any(isinstance(each, ast.IfExp | ast.BoolOp) for each in ast.walk(value))
