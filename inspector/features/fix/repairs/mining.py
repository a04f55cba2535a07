"""What the code of a target compares with, and who else writes what a repair changes: what a proof has to try.

Reads Python without running it.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping

from ctrace.inspector.facts.trial import Condition, Mined
from ctrace.inspector.features.fix.repairs.chosen_attributes import (
    PassedParameter,
    chosen_attributes,
    parameters_behind,
)
from ctrace.inspector.features.fix.repairs.further_constants import further_constants, names_read
from ctrace.inspector.features.fix.repairs.other_callers import other_callers
from ctrace.inspector.features.fix.repairs.other_writers import other_writers
from ctrace.inspector.features.fix.repairs.syntax.shared_names import VIEWS
from ctrace.inspector.source.attribute_writes import family, writes
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
        (near if is_near else far).append(owner)
    for owner in (*near, *far):
        yield from ast.walk(owner)


def _covers(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _compared(node: ast.AST, tree: ast.Module) -> Iterator[int | float | str]:
    """Yield the literals of a comparison; a name in capitals stands for the literal that the file assigns to it."""
    if not isinstance(node, ast.Compare):
        return
    for side in (node.left, *node.comparators):
        for each in side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else (side,):
            value = _literal(each) if not isinstance(each, ast.Name) else _global(tree, each.id)
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield value


def _literal(node: ast.expr) -> object:
    try:
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
    return _stored(tree, frozenset(replaced_lines(after, before))) if tree is not None else set()


def _attributes_of(node: ast.stmt) -> set[str]:
    found: set[str] = set()
    head = node.body[:0] if isinstance(node, ast.If | ast.While | ast.For | ast.With | ast.Try) else [node]
    for each in (below for part in head for below in ast.walk(part)):
        match each:
            case ast.Assign(targets=targets):
                found |= {name for target in targets for name in _roots(target)}
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                found |= set(_roots(target))
            case ast.Call(func=ast.Attribute(attr="register_buffer" | "register_parameter"), args=[first, *_]):
                text = _literal(first)
                found |= {text} if isinstance(text, str) else set()
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[first]) if name in _COPIES:
                found |= set(_roots(first))
    return found


def _roots(node: ast.expr) -> Iterator[str]:
    """Yield `n` for self.n, self.n.m and self.n[0]."""
    if isinstance(node, ast.Tuple | ast.List):
        for each in node.elts:
            yield from _roots(each)
        return
    above: ast.expr | None = None
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        above, node = node, node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Name) and node.id == "self" and isinstance(above, ast.Attribute):
            yield above.attr


def _bound_on(function: ast.AST, lines: Collection[int]) -> set[str]:
    """Return the local names that statements of a function on some lines assign."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno in lines:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
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
    return {target.id} if isinstance(target, ast.Name) else set()


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
