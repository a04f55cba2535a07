"""What reading a change leaves open: only the author knows it, and no call of a trial or a proof shows it.

Besides values that may be missing (`absent_values.py`), a change may combine in each call what some calls left alone:

- a slice, such as `self.table[:n]`: where the table is shorter, Python cuts it without a word, and only the call that
  adds it to `n` rows raises. Sizes above that of a table may be too large to try.
- a tensor that code makes on the CPU, such as `torch.arange(n)`, wherever the model is. A number can be combined with a
  tensor of any device, but a tensor of a GPU cannot be combined with one of the CPU, which shows only on a GPU.
- an attribute that has another size in another object: `h + self.slots` has the shape of `h` for one slot only.
- what a caller passed: `copy.deepcopy` refuses a tensor with an autograd history, `clone` cuts its gradient.
- a number of the model and lengths that callers leave on the CPU: a tensor of a GPU cannot be combined with them.
- a layer or a function that a caller chooses: torch.where calls both sides, of which one may be None, or do more than
  compute.
- numbers, of which torch.where makes a tensor of the default dtype: it rounds 0.1, not the 0.5 of the objects that run.
- what another function of the file passes: a dataset may call the same helper with NumPy arrays, a schedule with
  numbers.
- what other code does with a function that gets it, and a class that decides what ops do with its objects.
- what is done with the model: what differentiates, exports or runs `if` in several threads may refuse torch.cond, and
  TorchScript some functions of Python.
- one number for all elements, or one for each channel: `y[m] * self.slope` refuses the latter, and `y * self.slope`
  does not.
- when a statement runs: what a constructor makes now, on the device and in the dtype that hold there, and what a file
  imports when it is loaded.
- which sides autocast runs in float32 on a GPU (`autocast_sides.py`).

Reads Python without running it.
"""

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from ctrace.inspector.source.absent_values import absent_values, assigned_values
from ctrace.inspector.source.attribute_writes import FUNCTIONS, family, is_self, keyword_of, last_name
from ctrace.inspector.source.autocast_sides import autocast_sides
from ctrace.inspector.source.certain_attributes import CONSTRUCTORS
from ctrace.inspector.source.text import parsed, replaced_lines

Values = Mapping[str, list[ast.expr]]
"""What a function assigns to its names."""


def open_questions(before: str, after: str) -> tuple[str, ...]:
    """Return questions about a change of a file, given its text before and after; none if either is not Python."""
    old, new = parsed(before), parsed(after)
    if old is None or new is None or before == after:
        return ()
    removed, added = replaced_lines(before, after), replaced_lines(after, before)
    asked = [*absent_values(before, after)]
    for function in _changed(new, added):
        asked += function.cut_slices()
        asked += function.made_on_cpu(_modules(new))
        asked += function.chosen_elsewhere()
        asked += function.numbers_elsewhere()
        asked += function.numbers_selected(new)
        asked += function.chosen_by_callers(new)
    asked += _other_sizes(old, new, added)
    asked += _copies_of_arguments(old, removed)
    asked += _arrays_from_callers(old, removed)
    asked += _numbers_from_callers(old, removed)
    asked += _passed_on(old, removed)
    asked += _items_of_arrays(old, removed)
    asked += _other_tensors(old)
    asked += _refusing(old, new, added)
    asked += _beside_elements(old, removed)
    asked += _made_by_constructors(old, new, added)
    asked += _imported_at_load(old, new, added)
    asked += autocast_sides(new, added)
    return tuple(dict.fromkeys(asked))


class _Changed(Struct, frozen=True):
    """A function with changed lines."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    lines: Collection[int]
    values: Values

    def operations(self) -> Iterator[ast.BinOp]:
        """Yield the operations on changed lines."""
        for each in ast.walk(self.node):
            if isinstance(each, ast.BinOp) and each.lineno in self.lines:
                yield each

    def cut_slices(self) -> Iterator[str]:
        """Yield a question for each slice up to a computed size that a changed operation combines."""
        for operation in self.operations():
            for side in (operation.left, operation.right):
                for each in self.values.get(side.id, ()) if isinstance(side, ast.Name) else (side,):
                    if isinstance(each, ast.Subscript) and any(map(_is_computed, _upper_bounds(each))):
                        yield (
                            f"Is `{ast.unparse(each)}` always as long as its bound? Python cuts a shorter one, and "
                            "each call reads it now."
                        )

    def made_on_cpu(self, modules: Collection[str]) -> Iterator[str]:
        """Yield a question for each tensor of the CPU that a changed statement combines with something else."""
        for statement in ast.walk(self.node):
            if isinstance(statement, _COMPUTING) and statement.lineno in self.lines:
                for text in _combined(statement, self.values, modules):
                    yield (
                        f"Is this only run on the CPU? `{text}` is made there, wherever the model is, and cannot be "
                        "combined with a tensor of another device."
                    )

    def chosen_elsewhere(self) -> Iterator[str]:
        """Yield a question for each choice between arguments alone on a condition that the model computes.

        A branch takes a condition of any device, torch.where of a GPU none between tensors of the CPU, such as lengths.
        """
        given = _parameters(self.node)
        for each in ast.walk(self.node):
            match each:
                case ast.Call(func=ast.Attribute(attr="where"), args=[test, yes, no]) if each.lineno in self.lines:
                    # Without the choice itself: `x = torch.where(c, x, y)` gives no other value.
                    others = {name: [one for one in found if one is not each] for name, found in self.values.items()}
                    sides = {name for side in (yes, no) for name in _names(side)}
                    is_given = sides and all(name in given and not others.get(name) for name in sides - {"torch"})
                    if is_given and not sides & _names(test) and _is_of_model(test, others, 0):
                        names = " and ".join(f"`{name}`" for name in sorted(sides - {"torch"}))
                        yield (
                            f"Is what callers pass as {names} always on the device of the model? On the CPU, it cannot "
                            f"be selected by `{ast.unparse(test)}` of a GPU."
                        )

    def numbers_elsewhere(self) -> Iterator[str]:
        """Yield a question for each number of the model, a tensor now, that is combined with what callers pass beside.

        A number can be combined with a tensor of any device. The argument that the model computes with is where the
        model is; lengths beside it often stay on the CPU, and cannot be combined with a tensor of a GPU.
        """
        numbers = {name for name, found in self.values.items() if any(map(self._is_number_of_model, found))}
        given = _parameters(self.node)
        beside = {name for name in given if not self.values.get(name)} - _reaching(self.node)
        if beside == given:
            return  # whichever argument the model is called with is its input
        for each in ast.walk(self.node):
            if not isinstance(each, ast.BinOp):
                continue
            for one, other in ((each.left, each.right), (each.right, each.left)):
                is_number = isinstance(one, ast.Name) and one.id in numbers
                names = _names(other) - {"torch"}
                if (is_number or self._is_number_of_model(one)) and names and names <= beside and not _calls(other):
                    yield (
                        f"Is what callers pass as {' and '.join(f'`{name}`' for name in sorted(names))} always on the "
                        f"device of the model? On the CPU, it cannot be combined with `{ast.unparse(one)}` of a GPU."
                    )

    def _is_number_of_model(self, node: ast.expr) -> bool:
        """Whether a changed line makes a tensor without a gradient of what the model computes or keeps."""
        match node:
            case ast.Call(func=ast.Attribute(attr="to" | "long" | "double" | "reshape" | "clone", value=inner)):
                return self._is_number_of_model(inner)
            case ast.Call(func=ast.Attribute(attr="detach", value=inner)) if node.lineno in self.lines:
                return _is_of_model(inner, self.values, 0)
        return False

    def numbers_selected(self, tree: ast.Module) -> Iterator[str]:
        """Yield a question for each choice by torch.where of two sides in which nothing is certainly a tensor."""
        for each in ast.walk(self.node):
            match each:
                case ast.Call(func=ast.Attribute(attr="where"), args=[_, yes, no]) if each.lineno in self.lines:
                    if not any(self._has_tensor(tree, side, 0) for side in (yes, no)):
                        yield (
                            f"Is `{ast.unparse(yes)}` or `{ast.unparse(no)}` always a tensor? Of two numbers, "
                            "torch.where makes a tensor of the default dtype."
                        )

    def chosen_by_callers(self, tree: ast.Module) -> Iterator[str]:
        """Yield a question for each call, in a side of torch.where, of what a caller passes."""
        for each in ast.walk(self.node):
            match each:
                case ast.Call(func=ast.Attribute(attr="where"), args=[_, yes, no]) if each.lineno in self.lines:
                    for call in (node for side in (yes, no) for node in ast.walk(side) if isinstance(node, ast.Call)):
                        if self._is_passed(tree, call.func, 0):
                            name = ast.unparse(call.func)
                            yield (
                                f"Can `{name}` run in each call, whatever a caller chooses for it? torch.where "
                                "computes both sides; what did not run before may be None, or change something."
                            )

    def _is_passed(self, tree: ast.Module, node: ast.expr, depth: int) -> bool:
        """Whether an expression is an argument, or an attribute that keeps one, or an item that an argument selects."""
        match node:
            case ast.Name(id=name):
                if depth < _DEEPEST:
                    values = self.values.get(name, ())
                else:
                    values = ()
                return name in _parameters(self.node) or any(
                    self._is_passed(tree, value, depth + 1) for value in values
                )
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                classes = (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef))
                cls = next((each for each in classes if self.node in each.body), None)
                return cls is not None and name in _kept_arguments(cls)
            case ast.Subscript(value=held, slice=index):
                names = _names(index) & _parameters(self.node)
                return bool(names) or self._is_passed(tree, held, depth)
        return False

    def _has_tensor(self, tree: ast.Module, node: ast.expr, depth: int) -> bool:
        """Whether an expression certainly has a tensor in it: what a call returns, or what some line uses as one."""
        for each in ast.walk(node):
            match each:
                case ast.Call(func=ast.Name(id=name)) if name in _OF_NUMBERS:
                    continue
                case ast.Call():
                    return True
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    if _is_made_by_torch(tree, name):
                        return True
                case ast.Name(id=name) if name != "self":
                    if depth < _DEEPEST:
                        values = self.values.get(name, ())
                    else:
                        values = ()
                    is_given = self.node in tree.body and _is_given_tensors(tree, self.node, name)
                    if (
                        is_given
                        or _is_used_as_tensor(self.node, name)
                        or any(
                            self._has_tensor(tree, value, depth + 1) for value in values if name not in _names(value)
                        )
                    ):
                        return True
        return False


_OF_NUMBERS = frozenset(("abs", "float", "int", "len", "max", "min", "pow", "round", "sum"))


def _is_made_by_torch(tree: ast.Module, name: str) -> bool:
    """Whether a line of the file registers an attribute, or sets it to what a call returns, or is a method."""
    for each in ast.walk(tree):
        match each:
            case ast.Call(func=ast.Attribute(attr="register_buffer" | "register_parameter"), args=[first, *_]):
                if isinstance(first, ast.Constant) and first.value == name:
                    return True
            case ast.Assign(targets=targets, value=ast.Call(func=made)):
                if last_name(made) not in _OF_NUMBERS and any(
                    isinstance(target, ast.Attribute) and target.attr == name for target in targets
                ):
                    return True
    return False


def _is_given_tensors(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether a name is a parameter of a function of the file that no call and no default gives a literal number.

    Calls with numbers that are not literal are asked about, or run (`_numbers_from_callers`).
    """
    every = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if name not in every:
        return False
    position = every.index(name)
    defaults = dict(zip(every[::-1], function.args.defaults[::-1], strict=False))
    given = [defaults.get(name)]
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == function.name:
            given += [*each.args[position : position + 1], keyword_of(each, name)]
    numbers = [each for each in given if isinstance(each, ast.Constant) and isinstance(each.value, int | float)]
    return not numbers


def _is_used_as_tensor(function: ast.AST, name: str) -> bool:
    """Whether a function calls a method of a name, reads an attribute or an item of it, or passes it to a call."""
    for each in ast.walk(function):
        match each:
            case ast.Attribute(value=ast.Name(id=used)) | ast.Subscript(value=ast.Name(id=used)) if used == name:
                return True
            case ast.Call(func=called, args=given) if last_name(called) not in (*_OF_NUMBERS, "where", "as_tensor"):
                if any(isinstance(one, ast.Name) and one.id == name for one in given):
                    return True
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                if name in _names(left) | _names(right):
                    return True
    return False


def _kept_arguments(cls: ast.ClassDef, *, numbers: bool = True) -> set[str]:
    """Return the attributes that a constructor sets to a parameter; `numbers`: also to one that is a number."""
    found = set()
    for method in cls.body:
        if isinstance(method, FUNCTIONS) and method.name in CONSTRUCTORS:
            for each in ast.walk(method):
                match each:
                    case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                        if isinstance(value, ast.Name) and value.id in _parameters(method):
                            kind = next((one.annotation for one in method.args.args if one.arg == value.id), None)
                            if numbers or not (isinstance(kind, ast.Name) and kind.id in ("int", "float")):
                                found.add(name)
    return found


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_of_model(node: ast.expr, values: Values, depth: int) -> bool:
    """Whether an expression is computed with a layer, a parameter or a buffer of self."""
    if any(isinstance(each, ast.expr) and is_self(each) for each in ast.walk(node)):
        return True
    if depth >= _DEEPEST:
        return False
    names = _names(node)
    return any(_is_of_model(value, values, depth + 1) for name in names for value in values.get(name, ()))


def _reaching(function: ast.AST) -> set[str]:
    """Return the names that a function passes to a layer, or combines with a tensor of self: they are on its device."""
    found: set[str] = set()
    for each in ast.walk(function):
        match each:
            case ast.Call(func=called, args=args, keywords=keywords) if is_self(_root(called)):
                found |= {name for one in (*args, *(word.value for word in keywords)) for name in _names(one)}
            case ast.BinOp(left=left, right=right):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, ast.Attribute) and is_self(one.value):
                        found |= _names(other)
    return found


def _root(node: ast.expr) -> ast.expr:
    """Return what the attributes and items of an expression are read from."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _calls(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


_COMPUTING = (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)


def _changed(tree: ast.Module, lines: Collection[int]) -> Iterator[_Changed]:
    for each in ast.walk(tree):
        if isinstance(each, FUNCTIONS) and any(getattr(one, "lineno", 0) in lines for one in ast.walk(each)):
            yield _Changed(each, lines, assigned_values(each.body))


def _modules(tree: ast.Module) -> set[str]:
    """Return the names of imported modules."""
    imports = (each for each in ast.walk(tree) if isinstance(each, ast.Import | ast.ImportFrom))
    return {(alias.asname or alias.name).partition(".")[0] for each in imports for alias in each.names}


# Slices


def _upper_bounds(node: ast.Subscript) -> Iterator[ast.expr]:
    if isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
    else:
        parts = [node.slice]
    yield from (each.upper for each in parts if isinstance(each, ast.Slice) and each.upper is not None)


def _is_computed(bound: ast.expr) -> bool:
    """Whether a bound is no constant, and not counted from the end."""
    return not isinstance(bound, ast.Constant | ast.UnaryOp)


# Devices

_RANGES = frozenset(("arange", "linspace", "logspace", "eye"))
"""Functions of torch whose first argument is a number of elements, never of dimensions."""
_OF_SIZES = frozenset(("zeros", "ones", "empty", "full", "rand", "randn"))
_OF_VALUES = frozenset(("tensor", "as_tensor", "from_numpy", "FloatTensor", "LongTensor", "Tensor"))
_MOVING = frozenset(("to", "cuda", "type_as", "item", "tolist"))
"""Methods whose result is elsewhere, or no tensor."""
_DEEPEST = 6
"""Names that are followed back to their values; longer chains are not written by hand."""


def _combined(statement: ast.stmt, values: Values, modules: Collection[str]) -> Iterator[str]:
    """Yield, as text, what a statement combines with something else and is on the CPU."""
    nodes = list(ast.walk(statement))
    read = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)} - {*modules}
    made = {name for name in read if any(_is_made_on_cpu(value, values, 0) for value in values.get(name, ()))}
    inline = [each for each in nodes if isinstance(each, ast.Call) and _is_factory(each)]
    # A single operand is combined with nothing, and several names of the CPU count as one: they fit each other.
    if len(read - made) + bool(made) + len(inline) > 1:
        yield from sorted(made)
        # `y = torch.zeros(3)` alone combines nothing.
        is_alone = isinstance(statement, ast.Assign | ast.Return) and _is_factory(statement.value)
        yield from (ast.unparse(each) for each in inline if not is_alone)


def _is_made_on_cpu(value: ast.expr, values: Values, depth: int) -> bool:
    """Whether an expression is a tensor with dimensions that is made on the CPU."""
    if depth > _DEEPEST:
        return False
    match value:
        case ast.Name(id=name):
            return any(_is_made_on_cpu(each, values, depth + 1) for each in values.get(name, ()))
        case ast.BinOp(left=left, right=right):
            return _is_made_on_cpu(left, values, depth + 1) or _is_made_on_cpu(right, values, depth + 1)
        case ast.UnaryOp(operand=operand) | ast.Subscript(value=operand):
            return _is_made_on_cpu(operand, values, depth + 1)
        case ast.Call() if _is_factory(value):
            return True
        # A method of a tensor returns one on the same device, unless it is made to move it.
        case ast.Call(func=ast.Attribute(value=held, attr=method)) if method not in _MOVING:
            return _is_made_on_cpu(held, values, depth + 1)
    return False


def _is_factory(call: ast.expr | None) -> bool:
    """Whether a call of torch makes a tensor with dimensions, and names no device; one without mixes with any."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[first, *_]):
            pass
        case _:
            return False
    if keyword_of(call, "device") is not None:
        return False
    if name in _OF_SIZES:
        return not isinstance(first, ast.Tuple | ast.List) or bool(first.elts)
    return name in _RANGES or (name in _OF_VALUES and isinstance(first, ast.List | ast.Tuple | ast.ListComp))


# Other objects, and callers


def _other_sizes(old: ast.Module, new: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each attribute in a changed operation whose size an argument of the class decides."""
    classes = [each for each in ast.walk(old) if isinstance(each, ast.ClassDef)]
    for cls in (each for each in ast.walk(new) if isinstance(each, ast.ClassDef)):
        operations = [each for function in _changed_methods(cls, lines) for each in function.operations()]
        sides = [side for each in operations for side in (each.left, each.right)]
        read = {each.attr for each in sides if isinstance(each, ast.Attribute) and is_self(each.value)}
        related = set()
        if read:
            related = family(classes, [cls.name])
        line = 0
        if related:
            line = _made_otherwise(old, related)
        sized = set()
        if line:
            sized = {name for each in classes if each.name in related for name in _sized(each)}
        for name in sorted(read & sized):
            yield (
                f"Does `self.{name}` have the same shape in each object of {cls.name}, up to broadcasting? "
                f"Line {line} makes one with other arguments."
            )


def _changed_methods(cls: ast.ClassDef, lines: Collection[int]) -> Iterator[_Changed]:
    return _changed(ast.Module([*cls.body], []), lines)


def _made_otherwise(tree: ast.Module, names: Collection[str]) -> int:
    """Return the line that constructs some classes with other arguments than the first one; 0: there is none.

    A call whose arguments a table of names has, as in `Net(**SIZES["tiny"])`, makes several, and so does one in a
    function that several calls give other arguments.
    """
    calls = _calls_by_name(tree)
    made = [each for name in names for each in calls.get(name, ())]
    # What a table has for a name makes several objects, of which only one need run.
    several = [each.lineno for each in made if any(map(_is_named, _given(each)))]
    for function in (each for each in tree.body if isinstance(each, FUNCTIONS)):
        texts = {ast.unparse(each) for each in calls.get(function.name, ())}
        if made and len(texts) > 1:
            inside = [each for each in ast.walk(function) if each in made]
            taken = _parameters(function)
            several += [each.lineno for each in inside if any(_mentions(one, taken) for one in _given(each))]
    if several:
        return min(several)
    # From the last to the first, so that each text keeps the line of its first call.
    lines = {ast.unparse(each): each.lineno for each in sorted(made, key=lambda call: -call.lineno)}
    if len(lines) > 1:
        return sorted(lines.values())[1]
    return 0


@lru_cache(maxsize=8)
def _calls_by_name(tree: ast.Module) -> Mapping[str, list[ast.Call]]:
    found: dict[str, list[ast.Call]] = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.Call):
            found.setdefault(last_name(each.func), []).append(each)
    return found


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def _is_named(node: ast.expr) -> bool:
    """Whether an expression is what a table has for a name."""
    match node:
        case ast.Subscript(value=ast.Name() | ast.Attribute(), slice=ast.Constant(value=str())):
            return True
        case ast.Subscript(value=ast.Name(id=table), slice=ast.Name()):
            return table.isupper()
    return False


def _sized(cls: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes that a constructor makes by a call with one of its parameters in it."""
    for method in cls.body:
        if isinstance(method, FUNCTIONS) and method.name in CONSTRUCTORS:
            parameters = _parameters(method)
            for each in ast.walk(method):
                match each:
                    case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                        is_sized = isinstance(value, ast.Call) and _mentions(value, parameters)
                    case ast.Call(func=ast.Attribute(attr=kind), args=[ast.Constant(value=str(name)), value, *_]):
                        is_sized = kind in ("register_buffer", "register_parameter") and _mentions(value, parameters)
                    case _:
                        continue
                if is_sized:
                    yield name


def _copies_of_arguments(tree: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each attribute whose deep copy is replaced and that a method sets to what callers pass."""
    for each in ast.walk(tree):
        match each:
            case ast.Call(func=called, args=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                if last_name(called) == "deepcopy" and each.lineno in lines and (line := _set_by_caller(tree, name)):
                    yield (
                        f"Is what `self.{name}` holds always without an autograd history? A deep copy refuses a tensor "
                        f"with one, a clone cuts its gradient, and line {line} keeps what a caller passes."
                    )


def _set_by_caller(tree: ast.Module, name: str) -> int:
    """Return the line where a method keeps its argument in an attribute, or in an item of it; 0: none does."""
    for method in ast.walk(tree):
        if not isinstance(method, FUNCTIONS) or method.name in CONSTRUCTORS:
            continue
        parameters = _parameters(method)
        for each in ast.walk(method):
            if isinstance(each, ast.Assign) and _mentions(each.value, parameters):
                targets = [one.value if isinstance(one, ast.Subscript) else one for one in each.targets]
                if any(isinstance(one, ast.Attribute) and is_self(one.value) and one.attr == name for one in targets):
                    return each.lineno
    return 0


def _beside_elements(tree: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each attribute beside chosen elements, `y[m] * self.slope`, that may be no number.

    torch refuses a tensor with one number for each channel there, and computes with it beside all elements.
    """
    for cls in (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)):
        kept = _kept_arguments(cls, numbers=False)
        for each in ast.walk(cls):
            if isinstance(each, ast.BinOp) and each.lineno in lines:
                for one, other in ((each.left, each.right), (each.right, each.left)):
                    chosen = isinstance(one, ast.Subscript) and not isinstance(one.slice, ast.Constant | ast.Slice)
                    if chosen and isinstance(other, ast.Attribute) and is_self(other.value) and other.attr in kept:
                        yield (
                            f"Is `{ast.unparse(other)}` always one number? A tensor of several is refused beside "
                            f"`{ast.unparse(one)}`, and not beside all elements."
                        )


def _parameters(method: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {each.arg for each in (*method.args.args, *method.args.kwonlyargs)} - {"self"}


def _mentions(node: ast.AST, names: Iterable[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))


# Other callers

_OF_ARRAYS = frozenset(("numpy", "PIL", "cv2", "jax", "pandas", "scipy"))
"""Packages whose arrays a function may take as well as tensors."""


def _arrays_from_callers(tree: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each function of the file that uses arrays and calls a changed function."""
    aliases = {name for name, package in _imported(tree).items() if package in _OF_ARRAYS}
    functions = [each for each in tree.body if isinstance(each, FUNCTIONS)]
    changed = {each.name for each in functions if any(getattr(one, "lineno", 0) in lines for one in ast.walk(each))}
    for each in functions:
        nodes = list(ast.walk(each))
        if any(isinstance(one, ast.Name) and one.id in aliases for one in nodes):
            for one in nodes:
                if (
                    isinstance(one, ast.Call)
                    and isinstance(one.func, ast.Name)
                    # Calls of a function by itself pass what it got.
                    and one.func.id in changed - {each.name}
                ):
                    yield f"Does line {one.lineno} pass no arrays to `{one.func.id}`? {each.name} uses some."


def _numbers_from_callers(tree: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each call of a changed function by another one, or by the file itself, with numbers alone.

    A method that calls it must run in the proof; a function need not.
    """
    functions = {each.name: each for each in tree.body if isinstance(each, FUNCTIONS)}
    changed = {
        name for name, each in functions.items() if any(getattr(one, "lineno", 0) in lines for one in ast.walk(each))
    }
    callers: list[tuple[ast.AST, Values]] = [(each, assigned_values(each.body)) for each in functions.values()]
    outside = [each for each in tree.body if not isinstance(each, (*FUNCTIONS, ast.ClassDef))]
    callers += [(each, assigned_values(outside)) for each in outside]
    for caller, values in callers:
        if getattr(caller, "name", "") in changed:
            continue
        loops = {
            each.target.id: each.iter
            for each in ast.walk(caller)
            if isinstance(each, ast.For | ast.comprehension) and isinstance(each.target, ast.Name)
        }
        for each in ast.walk(caller):
            match each:
                case ast.Call(func=ast.Name(id=name), args=[_, *_] as given) if name in changed:
                    numbers = _Numbers(caller, values, loops)
                    if all(numbers.may_be(one, 0) for one in given):
                        yield (
                            f"Does line {each.lineno} call `{name}` with tensors? It returned a number for numbers, "
                            "and returns a tensor now."
                        )


def _passed_on(tree: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each call of code that is not in the file and gets a changed function: it may call it.

    A schedule calls it with the number of a step, `map` with each element.
    """
    defined = [each for each in tree.body if isinstance(each, (*FUNCTIONS, ast.ClassDef))]
    names = {each.name for each in defined}
    changed = {
        each.name
        for each in defined
        if isinstance(each, FUNCTIONS) and any(getattr(one, "lineno", 0) in lines for one in ast.walk(each))
    }
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and last_name(each.func) not in names | _CALLING_WITH_TENSORS:
            for given in (one.value if isinstance(one, ast.Starred) else one for one in _given(each)):
                if isinstance(given, ast.Name) and given.id in changed:
                    yield (
                        f"Does line {each.lineno} lead to calls of `{given.id}` with tensors only? "
                        f"`{ast.unparse(each.func)}` gets it."
                    )


_CALLING_WITH_TENSORS = frozenset(
    ("compile", "checkpoint", "checkpoint_sequential", "disable", "export", "script", "trace", "vmap", "grad")
)
"""Functions of torch that call what they get with the tensors that their own call gets."""
_OF_OTHER_TENSORS = ("__torch_function__", "__torch_dispatch__", "__array_function__", "__array_ufunc__")


def _other_tensors(tree: ast.Module) -> Iterator[str]:
    """Yield a question for each class of the file that decides what ops do with its objects."""
    for cls in (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)):
        names = {each.name for each in cls.body if isinstance(each, FUNCTIONS)}
        is_tensor = any(ast.unparse(base) in ("torch.Tensor", "Tensor") for base in cls.bases)
        if is_tensor or names & set(_OF_OTHER_TENSORS):
            yield f"Do the changed lines never get a {cls.name}? It decides what each op does with it."


class _Numbers(Struct, frozen=True):
    """What may be numbers in a function."""

    function: ast.AST
    values: Values
    loops: Mapping[str, ast.expr]

    def may_be(self, node: ast.expr, depth: int) -> bool:
        """Whether an expression is made of literals, lengths, rounds of a loop and parameters, and computes with them.

        A parameter alone may be a tensor as well; one that is divided by a literal may be the step of a schedule.
        """
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int | float)
            case ast.BinOp(left=left, right=right):
                return all(self.may_be(side, depth) or self._is_parameter(side) for side in (left, right))
            case ast.UnaryOp(operand=operand):
                return self.may_be(operand, depth)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name in _NUMBERS
            case ast.Name(id=name) if name in self.loops:
                return self._are_numbers(self.loops[name])
            case ast.Name(id=name) if depth < _DEEPEST and self.values.get(name):
                return all(self.may_be(each, depth + 1) for each in self.values[name])
            case ast.Name():
                return self._is_parameter(node, numeric=True)
        return False

    def _are_numbers(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="range")):
                return True
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return all(self.may_be(each, 0) for each in elements)
        return False

    def _is_parameter(self, node: ast.expr, *, numeric: bool = False) -> bool:
        """Whether a name is a parameter, with `numeric` one whose annotation or default is a number."""
        if not isinstance(node, ast.Name) or not isinstance(self.function, FUNCTIONS):
            return False
        arguments = self.function.args
        every = [*arguments.posonlyargs, *arguments.args]
        found = next((each for each in (*every, *arguments.kwonlyargs) if each.arg == node.id), None)
        if found is None or not numeric:
            return found is not None
        defaults = dict(zip([each.arg for each in every][::-1], arguments.defaults[::-1], strict=False))
        default = defaults.get(node.id)
        kind = found.annotation
        is_kind = isinstance(kind, ast.Name) and kind.id in ("int", "float")
        return is_kind or (isinstance(default, ast.Constant) and isinstance(default.value, int | float))


_NUMBERS = frozenset(("len", "int", "float", "item", "size", "numel", "sqrt", "cos", "sin", "log", "exp", "time"))
"""Functions that return a number for what `_Numbers` takes as one, and methods that do for a tensor."""


_OF_BOTH = frozenset(("abs", "max", "mean", "min", "prod", "reshape", "squeeze", "std", "sum", "var"))
"""Methods of tensors and of arrays."""
_TAKING_TENSORS = ("forward", "__call__")


def _items_of_arrays(tree: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each `.item()` that a change removes where an array may be what has it."""
    # Without a package of arrays in the file, nothing but a tensor has an `item`.
    if not set(_imported(tree).values()) & _OF_ARRAYS:
        return
    for function in (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)):
        for each in ast.walk(function):
            match each:
                case ast.Call(func=ast.Attribute(value=held, attr="item"), args=[]) if each.lineno in lines:
                    if _may_be_array(tree, function, _held(held)):
                        yield f"Is `{ast.unparse(_held(held))}` always a tensor? An array has item(), too."


def _held(node: ast.expr) -> ast.expr:
    """Return what an expression is a method or an item of: `self.mean` for `self.mean[0].max()`."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _OF_BOTH:
                node = inner
            case ast.Subscript(value=inner):
                node = inner
            case _:
                return node


def _may_be_array(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.expr) -> bool:
    """Whether an expression is an attribute that code not of torch makes, or an argument of a helper."""
    match node:
        case ast.Name(id=name):
            return name in _parameters(function) and function.name not in _TAKING_TENSORS
        case ast.Attribute(attr=name):
            made = [
                each.value
                for each in ast.walk(tree)
                if isinstance(each, ast.Assign)
                and any(isinstance(target, ast.Attribute) and target.attr == name for target in each.targets)
            ]
            calls = [each for each in made if isinstance(each, ast.Call)]
            return any(not isinstance(each, ast.Call) for each in made) or any(
                not ast.unparse(each.func).startswith(("torch.", "nn.")) for each in calls
            )
    return False


# What is done with the model

_CALLERS_OF_COND = {
    "script": "torch.jit refuses torch.cond",
    "trace": "torch.jit refuses torch.cond",
    "jvp": "forward-mode differentiation refuses torch.cond",
    "make_dual": "forward-mode differentiation refuses torch.cond",
    "jacfwd": "forward-mode differentiation refuses torch.cond",
    "jacrev": "torch.func refuses torch.cond around layers",
    "functional_call": "torch.func refuses torch.cond around layers",
    "vjp": "torch.func refuses torch.cond around layers",
    "hessian": "torch.cond has no second gradients",
    "jacobian": "torch.cond has no second gradients, nor vectorized ones",
    "Thread": "two threads that compile torch.cond at a time may fail",
    "ThreadPoolExecutor": "two threads that compile torch.cond at a time may fail",
    "ThreadPool": "two threads that compile torch.cond at a time may fail",
    "DataParallel": "two threads that compile torch.cond at a time may fail",
    "set_stance": "eager calls of torch.cond compile, which a stance may refuse",
    "symbolic_trace": "torch.fx refuses torch.cond",
}
"""What takes a branch and not torch.cond (measured with torch 2.13), by the names that a file uses for it."""


_REFUSED = {"cond": _CALLERS_OF_COND, "math.prod": {"script": "TorchScript does not know math.prod"}}
"""What refuses a call that a change adds, by the function that it calls."""


def _refusing(old: ast.Module, new: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each use of the file of what may refuse a call, where a change adds that."""
    added = [each for each in ast.walk(new) if isinstance(each, ast.Call) and each.lineno in lines]
    names = {name for each in added for name in (last_name(each.func), ast.unparse(each.func))}
    refusing = {word: text for name in names for word, text in _REFUSED.get(name, {}).items()}
    imported = _imported(old)
    if not refusing:
        return
    for each in ast.walk(old):
        if not isinstance(each, ast.Name | ast.Attribute):
            continue
        name = last_name(each)
        is_jit = isinstance(each, ast.Attribute) and last_name(each.value) == "jit"
        is_named = isinstance(each, ast.Name) and imported.get(name) == "torch"
        # `script` and `trace` are common names; only those of torch.jit refuse.
        if name in refusing and (name not in ("script", "trace") or is_jit or is_named):
            yield f"Does line {each.lineno} never run the changed code? There, {refusing[name]}."


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return the names that a file imports, with the package that each comes from."""
    found: dict[str, str] = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            found |= {(one.asname or one.name).partition(".")[0]: one.name.partition(".")[0] for one in each.names}
        elif isinstance(each, ast.ImportFrom):
            found |= {one.asname or one.name: (each.module or "").partition(".")[0] for one in each.names}
    return found


# Earlier than before

_NOT_EVERYWHERE = frozenset(
    (
        *("bz2", "crypt", "curses", "dbm", "fcntl", "grp", "idlelib", "lzma", "msvcrt", "nis", "ossaudiodev", "posix"),
        *("pty", "pwd", "readline", "resource", "spwd", "sqlite3", "ssl", "syslog", "termios", "tkinter", "tty"),
        *("turtle", "winreg", "winsound", "asynchat", "asyncore", "cgi", "cgitb", "chunk", "distutils", "graphlib"),
        *("imghdr", "imp", "lib2to3", "mailcap", "nntplib", "pipes", "smtpd", "sndhdr", "telnetlib", "tomllib", "uu"),
        *("xdrlib", "zoneinfo"),
    )
)
"""Modules of Python that some systems, builds or versions do without."""
_ALWAYS_THERE = frozenset((*sys.stdlib_module_names, "torch")) - _NOT_EVERYWHERE
_REPLACING = frozenset(("sys", "warnings"))
"""Modules whose objects programs replace, such as `sys.stdout` and `warnings.filters`."""
_OF_TORCH = ("torch", "torch.nn", "torch.nn.functional", "torch.utils", "torch.autograd", "torch.utils.data")
"""Packages of torch that each version of it loads itself."""


def _made_by_constructors(old: ast.Module, new: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each attribute that a constructor sets now, and that the first call made or did without."""
    before = {name for each in ast.walk(old) for name in _set_by_constructor(each)}
    for cls in (each for each in ast.walk(new) if isinstance(each, ast.ClassDef)):
        for method in cls.body:
            if not isinstance(method, FUNCTIONS) or method.name not in CONSTRUCTORS:
                continue
            for each in ast.walk(method):
                match each:
                    case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                        is_new = each.lineno in lines and name not in before
                    case _:
                        continue
                if is_new and isinstance(value, ast.Call):
                    yield (
                        f"Is each {cls.name} constructed on the device and with the default dtype of its calls? Its "
                        f"constructor makes `self.{name}` now: under `torch.device('meta')`, it stays there."
                    )
                if is_new:
                    yield (
                        f"Does each {cls.name} come from this constructor? One that was pickled before has no "
                        f"`self.{name}`."
                    )


def _set_by_constructor(node: ast.AST) -> Iterator[str]:
    if isinstance(node, FUNCTIONS) and node.name in CONSTRUCTORS:
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and is_self(each.value):
                yield each.attr


def _imported_at_load(old: ast.Module, new: ast.Module, lines: Collection[int]) -> Iterator[str]:
    """Yield a question for each import that the load of the file makes now, unless it can neither fail nor differ."""
    loaded = {name for each in old.body for name in _packages(each)}
    for each in new.body:
        if each.lineno not in lines or not isinstance(each, ast.Import | ast.ImportFrom):
            continue
        for part in _parts_of_torch(each):
            yield (
                f"May the file import `{part}` when it is loaded? It is not loaded before: another version or build of "
                "torch may be without it."
            )
        for package in dict.fromkeys(_packages(each)):
            if package not in _ALWAYS_THERE | loaded:
                yield (
                    f"May the file import `{package}` when it is loaded? It is not loaded before: it may be missing "
                    "elsewhere, or import this file itself."
                )
            if isinstance(each, ast.ImportFrom) and package not in _ALWAYS_THERE - _REPLACING:
                names = ", ".join(f"`{one.name}`" for one in each.names)
                yield f"Does {names} of `{each.module}` stay the same object? Each call read it again before."


def _parts_of_torch(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the modules of torch that an import needs and `import torch` may not load."""
    if isinstance(node, ast.Import):
        names = [one.name for one in node.names]
    else:
        names = [node.module or ""]
    yield from (name for name in names if name.startswith("torch.") and name not in _OF_TORCH)


def _packages(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (one.name.partition(".")[0] for one in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield (node.module or "").partition(".")[0]
