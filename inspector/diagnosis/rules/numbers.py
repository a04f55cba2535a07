"""Advice on constant numbers that reach compiled code as NumPy arrays or as tensors in buffers."""

import ast
from collections.abc import Iterator, Mapping, Sized
from functools import lru_cache

from msgspec import Struct

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene, in_library
from ctrace.inspector.diagnosis.naming import at, place_ahead
from ctrace.inspector.diagnosis.number_uses import number_use
from ctrace.inspector.edits.line_edits import (
    Change,
    covers,
    functions_at,
    line_edits,
    shortened,
    source_of,
    statement_at,
)
from ctrace.inspector.edits.numpy_functions import REPLACEMENTS, ROUNDING, in_python
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.knowledge.counting import named
from ctrace.inspector.source.text import nodes_of, parsed

_TO_INTEGER = frozenset(("to", "long", "int"))
_WRITERS = frozenset(("copy_", "add_", "sub_", "mul_", "fill_", "zero_", "div_"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


def numpy_on_numbers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer Python's function instead of NumPy's, whose array Dynamo treats as a tensor."""
    for cause in scene.causes:
        for file in dict.fromkeys(each.file for each in scene.breaks(cause)):
            lines = [each.line for each in scene.breaks(cause) if each.file == file]
            text = scene.session.listings.get(file, "")
            every = sorted(_numpy_calls(text, _near(text, lines)), key=lambda call: call[0].lineno)
            # Those of the break alone, too: an array elsewhere, for which Python has no function, refutes all of them.
            broken = [call for call in every if any(covers(call[0], line) for line in lines)]
            offers = [(86, every)]
            if broken != every:
                offers.append((85, broken))
            for worth, calls in offers:
                changes: list[Change] = [(call, new) for call, _, new in calls]
                needs = ""
                if any("math." in new for _, new in changes):
                    needs = "math"
                edits = line_edits(file, text, changes, needs=needs)
                if edits:
                    advice, short = _of_numpy(file, text, calls)
                    trial = Trial(edits=edits)
                    yield Candidate(advice, (cause.id,), trial, worth=worth, only_checked=True, short=short)


def numpy_sequences(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a list for an array of sizes over which Python loops: the items of an array are tensors for Dynamo."""
    for cause, each in scene.breaks_of((RootKind.TENSOR_VALUE, RootKind.TENSOR_BRANCH)):
        text = scene.session.listings.get(each.file, "")
        found = _looped_array(text, each.line)
        if found is None:
            continue
        call, sequence = found
        edits = line_edits(each.file, text, [(call, f"list({sequence})")])
        if edits:
            advice = (
                f"{_place(each.file, call)}: `list({sequence})` instead of `{source_of(text, call)}`"
                f"{in_library(each.file)}: the items of a NumPy array are tensors for Dynamo, and Python needs numbers."
            )
            yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=84, only_checked=True)


def _looped_array(text: str, line: int) -> tuple[ast.Call, str] | None:
    """Return the call that makes a NumPy array of a variable, and the variable, if a loop over it has a line."""
    numpy = _numpy_names(text)
    nodes = [node for function in functions_at(text, line)[-1:] for node in ast.walk(function)]
    iterated = [node.iter for node in nodes if isinstance(node, ast.For) and covers(node, line)]
    for node in nodes:
        if isinstance(node, _COMPREHENSIONS) and covers(node, line):
            iterated += [part.iter for part in node.generators]
    names = {each.id for each in iterated if isinstance(each, ast.Name)}
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=module), attr="array" | "asarray"),
                    args=[ast.Name(id=sequence)],
                    keywords=[],
                ) as call,
            ) if target in names and module in numpy:
                return call, sequence
    return None


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def numpy_attributes(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer Python's value for what a module's constructor computes with NumPy, where its forward branches on it or
    needs it as a number: for Dynamo, a value of NumPy is a tensor.
    """
    for cause, each in scene.breaks_of((RootKind.TENSOR_VALUE, RootKind.TENSOR_BRANCH)):
        text = scene.session.listings.get(each.file, "")
        found = list(_numpy_attributes(text, each.line))
        edits = line_edits(each.file, text, found)
        if edits:
            value, new = found[0]
            advice = (
                f"{_place(each.file, value)}: `{shortened(new)}` for `{shortened(source_of(text, value))}`"
                f"{in_library(each.file)}: a value that NumPy computes is a tensor for Dynamo, and line {each.line} "
                "needs it in Python."
            )
            yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=88, only_checked=True)


def _numpy_attributes(text: str, line: int) -> Iterator[Change]:
    """Yield the values of NumPy that a constructor keeps in attributes which a line reads, with Python's for them."""
    owner, numpy = _class_at(text, line), _numpy_names(text)
    if owner is None or not numpy:
        return
    read = {
        node.attr
        for node in ast.walk(owner)
        if isinstance(node, ast.Attribute) and _last_name(node.value) == "self" and node.lineno == line
    }
    makers = [node for node in owner.body if isinstance(node, Function) and node.name == "__init__"]
    for node in (node for each in makers for node in ast.walk(each)):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value) if name in read:
                if new := _as_python(text, value, numpy):
                    yield value, new


def _as_python(text: str, value: ast.expr, numpy: set[str]) -> str:
    """Write an expression that NumPy computes as Python's value; empty if NumPy does not compute it."""
    written = source_of(text, value)
    if not any(_is_of_numpy(node, numpy) for node in ast.walk(value)):
        return ""
    match value:
        # `and` and `or` return one operand, which may be none of NumPy's, and then has no `tolist`.
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return f"bool({written})"
        # `tolist` keeps the type of the number, which `float()` would change for an integer.
        case ast.BinOp() | ast.UnaryOp():
            return f"({written}).tolist()"
        case ast.Call(func=ast.Attribute(value=inner)) if _is_of_numpy(value, numpy) or _is_of_numpy(inner, numpy):
            return f"{written}.tolist()"
    return ""


def _is_of_numpy(node: ast.AST, numpy: set[str]) -> bool:
    """Whether an expression is a call of a function of NumPy."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module))):
            return module in numpy
    return False


def limits_of_numpy(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer torch.finfo for NumPy's limits of a tensor's dtype: `np.finfo(x.numpy().dtype)` leaves the graph."""
    for cause in scene.causes:
        for each in scene.breaks(cause):
            torch, text = scene.torch_name(each.file), scene.session.listings.get(each.file, "")
            call = None
            if torch:
                call = next(_limits_at(text, each.line), None)
            if call is None:
                continue
            old, dtype = call
            new = f"{torch}.{_last_name(old.func)}({dtype})"
            edits = line_edits(each.file, text, [(old, new)])
            advice = (
                f"{at(cause)}: `{new}` instead of `{shortened(source_of(text, old))}`{in_library(each.file)}: its "
                "limits are Python numbers, and NumPy needs the values of a tensor."
            )
            if edits:
                yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=87, only_checked=True)
            break


def _limits_at(text: str, line: int) -> Iterator[tuple[ast.Call, str]]:
    """Yield calls of `np.finfo` or `np.iinfo` for the dtype of `x.numpy()` in a line, and the dtype of `x`."""
    numpy, tree = _numpy_names(text), parsed(text)
    for node in nodes_of(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=module), attr="finfo" | "iinfo"),
                args=[ast.Attribute(value=ast.Call(func=ast.Attribute(attr="numpy", value=tensor)), attr="dtype")],
                keywords=[],
            ) if module in numpy and covers(node, line):
                yield node, _dtype_of(text, tensor)


def _dtype_of(text: str, tensor: ast.expr) -> str:
    """Return the source of a tensor's dtype: what the call that makes it names, else its attribute."""
    match tensor:
        case ast.Call(func=made, keywords=keywords) if _last_name(made) in ("tensor", "zeros", "ones", "empty"):
            named = next((each.value for each in keywords if each.arg == "dtype"), None)
            if named is not None:
                return source_of(text, named)
        # Both keep the dtype, and asking for it needs no copy on the host.
        case ast.Call(func=ast.Attribute(attr="detach" | "cpu", value=inner), args=[], keywords=[]):
            return _dtype_of(text, inner)
    return f"{source_of(text, tensor)}.dtype"


def changing_arguments(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Say of a number that changes, and that torch takes only as a number, whether a dynamic one helps."""
    for cause in scene.causes:
        if cause.expected:
            continue
        use = number_use(scene, cause)
        if use is None:
            continue
        place = place_ahead(cause)
        what = f"{use.op}() takes `{use.argument}` only as a Python number"
        trial = Trial(dynamic=True)
        text = f"{place}compile with dynamic=True, which makes {use.subject} dynamic from the start: {what}."
        yield Candidate(text, (cause.id,), trial, worth=64, only_checked=True)
        tried = ""
        if scene.tried(trial) is not None:
            tried = " dynamic=True was tried and does not help."
        text = (
            f"{place}Not known how to change {use.subject} without a graph for each value: {what}, so a tensor does "
            f"not help.{tried} Fewer different values cost fewer graphs."
        )
        yield Candidate(text, (cause.id,))


def random_numbers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to draw random numbers before the call: Dynamo does not trace functions of Python's module `random`."""
    for cause in scene.causes:
        for each in scene.breaks(cause):
            text = scene.session.listings.get(each.file, "")
            called, why = _draw_at(text, each.line), ""
            ids = _PYTHON_RESULT
            if called.startswith("random."):
                ids = _SKIPPED
            if called and _ITERATED in each.gb:
                why = f"Dynamo does not trace a loop over what {called} draws."
            elif called and ids & {*each.gb}:
                why = f"Dynamo does not trace {called}."
            elif not called and _OPERATOR in each.gb and (drawn := _drawn_before(text, each.line)):
                called, line = drawn
                why = f"{called} draws it at line {line}, and this line needs it as a Python number."
            if not why:
                continue
            yield Candidate(
                f"{at(cause)}: draw the number before the compiled call and pass it as an argument: {why} Where Python "
                "does not need the number, torch.rand(()) stays in the graph.",
                (cause.id,),
                worth=60,
            )
            break


def _drawn_before(text: str, line: int) -> tuple[str, int] | None:
    """Return the function of Python's `random` that draws a number which a line uses, and where it draws it."""
    statement = statement_at(text, line)
    used = set()
    if statement is not None:
        used = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}
    for function in functions_at(text, line)[-1:]:
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]) if name in used and node.lineno < line:
                    called = _draw_at(text, node.lineno)
                    if called.startswith("random."):
                        return called, node.lineno
    return None


_OPERATOR = "GB0033"
"""The id of an operation whose result is a Python value: a drawn number is a tensor for Dynamo until it is needed."""
_ITERATED = "GB0160"
"""The id of a break at `next()`: the end of a range is not known."""
_SKIPPED = frozenset(("GB0007", "GB0008"))
"""Ids of breaks at a function that Dynamo skips."""
_PYTHON_RESULT = frozenset(("GB0033", *_SKIPPED))
"""Also the id of an operation whose result is a Python value, which NumPy's random functions are for Dynamo."""


def permutations(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer torch.randperm for NumPy's permutation of a number, the function of its `random` that torch has not.

    The others of common use draw in the graph (2.11 to 2.13, torch/_numpy/random.py).
    """
    for cause in scene.causes:
        for each in scene.breaks(cause):
            torch, text = scene.torch_name(each.file), scene.session.listings.get(each.file, "")
            call = _permutation(text, each.line)
            if call is None or not torch or not scene.is_users(each.file):
                continue
            drawn = f"{torch}.randperm({source_of(text, call.args[0])}).numpy()"
            edits = line_edits(each.file, text, [(call, drawn)])
            advice = f"{at(cause)}: `{drawn}` instead of `{source_of(text, call)}`: torch draws it in the graph."
            if edits:
                yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=78, only_checked=True)
            break


def _permutation(text: str, line: int) -> ast.Call | None:
    tree = parsed(text)
    for node in nodes_of(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="permutation"), args=[_], keywords=[]) if node.lineno == line:
                if _draw_at(text, line).endswith(".random.permutation()"):
                    return node
                return None
    return None


def _draw_at(text: str, line: int) -> str:
    """Return the function of `random` or NumPy that a line calls, such as `random.random()`; empty if it calls none."""
    tree = parsed(text)
    for node in nodes_of(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="random"), attr=name)) if node.lineno == line:
                return f"random.{name}()"
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id="np" | "numpy" as module), attr="random"), attr=name
                )
            ) if node.lineno == line:
                return f"{module}.random.{name}()"
    return ""


def _of_numpy(file: str, text: str, calls: list[tuple[ast.Call, str, str]]) -> tuple[str, str]:
    """Return the advice with its reason, and the change in a few words."""
    first, name, _ = calls[0]
    more = ""
    if len(calls) > 1:
        more = f" ({len(calls)} places)"
    python = REPLACEMENTS[name.rpartition(".")[2]]
    change = f"use Python's {python}() for {name}()"
    advice = (
        f"{_place(file, first)}: {change} in `{shortened(source_of(text, first))}`{more}"
        f"{in_library(file)}: NumPy returns an array, which Dynamo treats as a tensor."
    )
    return advice, f"{change}{more} at {_place(file, first)}"


def _near(text: str, lines: list[int]) -> list[Function]:
    """Return the functions that contain the lines, and the functions in the same file that they call."""
    holding = [found[-1] for line in lines if (found := functions_at(text, line))]
    called = {_last_name(node.func) for each in holding for node in ast.walk(each) if isinstance(node, ast.Call)}
    tree = parsed(text)
    every = [node for node in nodes_of(tree) if isinstance(node, Function)]
    return [each for each in every if each in holding or each.name in called]


def _numpy_calls(text: str, functions: list[Function]) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield calls of NumPy on plain numbers, outermost first: the call, its function and its replacement."""
    numpy = _numpy_names(text)
    taken: set[ast.AST] = set()
    made_int: set[ast.AST] = set()
    for call in (node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id == "int":
            made_int.update(call.args)
        if call not in taken and (found := _of_call(text, call, numpy, is_made_int=call in made_int)) is not None:
            # The replacement of `np.ceil(np.sqrt(n))` has that of the inner call in it.
            taken.update(ast.walk(call))
            yield call, *found


def _of_call(text: str, node: ast.expr, numpy: set[str], *, is_made_int: bool = False) -> tuple[str, str] | None:
    """Return NumPy's function of a call on plain numbers, and what to write for the call; None: it is another one.

    That includes what turns NumPy's result into a Python number, as in `np.ceil(n).astype("int").item()`.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), keywords=[]) if module in numpy:
            inner = [_of_call(text, each, numpy) for each in node.args]
            written = [new[1] if new else source_of(text, each) for new, each in zip(inner, node.args, strict=True)]
            new = in_python(name, written, is_made_int=is_made_int)
            if not new:
                return None
            return f"{module}.{name}", new
        case ast.Call(func=ast.Attribute(value=made, attr="item" | "tolist"), args=[], keywords=[]):
            return _of_call(text, made, numpy, is_made_int=is_made_int)
        case ast.Call(func=ast.Attribute(value=made, attr="astype"), args=[kind], keywords=[]):
            cast = _python_type(kind)
            found = _of_call(text, made, numpy, is_made_int=cast == "int")
            if found is None or not cast:
                return None
            return found[0], f"{cast}({found[1]})"
    return None


def _python_type(kind: ast.expr) -> str:
    """Return Python's type for a dtype of NumPy, such as `int` for `np.int64` or "int"; empty for others."""
    match kind:
        case ast.Constant(value=str(name)) | ast.Name(id=name) | ast.Attribute(attr=name):
            return next((each for each in ("int", "float") if name.rstrip("0123456789_") == each), "")
    return ""


def _numpy_names(text: str) -> set[str]:
    tree = parsed(text)
    imports = [node for node in nodes_of(tree) if isinstance(node, ast.Import)]
    return {alias.asname or "numpy" for node in imports for alias in node.names if alias.name == "numpy"}


def integer_buffers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer Python numbers for constant integers that are kept in buffers."""
    found: dict[tuple[str, str], list[RootCause]] = {}
    for cause in scene.causes:
        for file, line in _places(scene, cause):
            owner = _class_at(scene.session.listings.get(file, ""), line)
            if owner is not None and scene.breaks(cause):
                # All buffers of a class together: one that stays a tensor makes tensors of what is computed with it.
                found.setdefault((file, owner.name), []).append(cause)
    for (file, name), causes in found.items():
        yield from _of_buffers(scene, file, name, tuple(dict.fromkeys(cause.id for cause in causes)))


def _places(scene: DiagnosisScene, cause: RootCause) -> Iterator[tuple[str, int]]:
    """Yield the lines of a cause's breaks and of the frames that lead to them."""
    for each in scene.breaks(cause):
        yield each.file, each.line
        yield from ((frame.file, frame.line) for path in each.paths for frame in path)


def _of_buffers(scene: DiagnosisScene, file: str, name: str, ids: tuple[str, ...]) -> Iterator[Candidate]:
    text = scene.session.listings[file]
    tree = parsed(text)
    every = nodes_of(tree)
    owner = next(each for each in every if isinstance(each, ast.ClassDef) and each.name == name)
    buffers = {each.name: each for each in _buffers(text, owner) if _is_only_read(owner, each.name)}
    replaced = [each.change for each in buffers.values()]
    if not replaced:
        return
    inner = dict.fromkeys(change for each in buffers.values() for change in each.inner)
    rounding = list(_rounded(text, owner, set(buffers)))
    initial = _initialized(tree or ast.Module([], []), name, set(buffers))
    needs, rounds = "", ""
    if rounding:
        needs, rounds = "math", f", and round with {rounding[0][1].partition('(')[0]}"
    edits = line_edits(file, text, [*replaced, *inner, *rounding, *initial], needs=needs)
    if edits:
        lines = ", ".join(f"`self.{each.name} = {each.value}`" for each in list(buffers.values())[:2])
        it, its = named(len(buffers), "it", "them"), named(len(buffers), "its value", "their values")
        advice = (
            f"{_place(file, replaced[0][0])}: keep {', '.join(buffers)} as {_integers(buffers)} ({lines}){rounds}"
            f"{in_library(file)}: nothing changes {it}, and Python needs {its}."
        )
        short = f"keep {', '.join(buffers)} as {_integers(buffers)} at {_place(file, replaced[0][0])}"
        yield Candidate(advice, ids, Trial(edits=edits), worth=87, only_checked=not scene.is_users(file), short=short)


def _class_at(text: str, line: int) -> ast.ClassDef | None:
    innermost = None
    for node in _classes(text):
        if covers(node, line):
            innermost = node
    return innermost


@lru_cache(maxsize=64)
def _classes(text: str) -> tuple[ast.ClassDef, ...]:
    tree = parsed(text)
    if tree is not None:
        return tuple(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return ()


def _integers(buffers: Sized) -> str:
    if len(buffers) == 1:
        return "a Python integer"
    return "Python integers"


class _Buffer(Struct, frozen=True):
    """A buffer with an integer, and the edit that turns it into a Python number."""

    name: str
    value: str
    change: Change
    inner: tuple[Change, ...] = ()
    """Edits that also turn the tensors in the buffer's expression into numbers."""


def _buffers(text: str, owner: ast.ClassDef) -> Iterator[_Buffer]:
    for method in (node for node in owner.body if isinstance(node, Function)):
        tensors = dict(_integer_tensors(method))
        for node in ast.walk(method):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer"),
                    args=[ast.Constant(value=str(name)), tensor, *_],
                ):
                    whole: ast.expr = node
                    begins = f"self.{name} = "
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                    value=ast.Call(func=made, args=[tensor, *_]) as whole,
                ) if _last_name(made) == "Buffer":
                    begins = ""
                case _:
                    continue
            integer = _integer_in(tensor)
            if integer is not None:
                yield _Buffer(name, source_of(text, integer), (whole, f"{begins}{source_of(text, integer)}"))
            elif used := _tensors_in(tensor, tensors):
                inner = tuple((tensors[each][0], source_of(text, tensors[each][1])) for each in used)
                yield _Buffer(name, source_of(text, tensor), (whole, f"{begins}{source_of(text, tensor)}"), inner)


def _integer_tensors(method: Function) -> Iterator[tuple[str, tuple[ast.expr, ast.expr]]]:
    """Yield variables that are assigned a tensor of one integer, with the tensor and the integer."""
    for node in ast.walk(method):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (integer := _integer_in(value)) is not None:
                yield name, (value, integer)


def _integer_in(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(func=made, args=[value], keywords=keywords):
            if _last_name(made) == "tensor" and _is_integer(value, keywords):
                return value
    return None


def _tensors_in(node: ast.expr, tensors: Mapping[str, tuple[ast.expr, ast.expr]]) -> tuple[str, ...]:
    """Return the integer tensors in an arithmetic expression that has only names and numbers; empty for any other."""
    parts = [each for each in ast.walk(node) if isinstance(each, ast.expr)]
    plain = all(isinstance(each, ast.Name | ast.Constant | ast.BinOp) for each in parts)
    if plain:
        return tuple(each.id for each in parts if isinstance(each, ast.Name) and each.id in tensors)
    return ()


def _is_integer(value: ast.expr, keywords: list[ast.keyword]) -> bool:
    """Whether a value in the source is one integer: by its dtype if it has one, else by its constants."""
    dtype = next((_last_name(each.value) for each in keywords if each.arg == "dtype"), "")
    # `torch.tensor([3])` has a dimension, which a number has not.
    plain = not any(isinstance(node, ast.List | ast.Tuple | ast.ListComp) for node in ast.walk(value))
    constants = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    if dtype:
        return plain and dtype in ("int64", "int32", "int16", "int8", "long", "int", "short")
    return plain and bool(constants) and all(type(each) is int for each in constants)


def _is_only_read(owner: ast.ClassDef, name: str) -> bool:
    """Whether the class reads a buffer, and does not write to it after it registers the buffer."""
    found = [node for node in ast.walk(owner) if isinstance(node, ast.Attribute)]
    mine = [node for node in found if node.attr == name and _last_name(node.value) == "self"]
    stores = sum(not isinstance(node.ctx, ast.Load) for node in mine)
    in_place = any(each.attr in _WRITERS and each.value in mine for each in found)
    made_by_assignment = sum(isinstance(node, ast.Assign) and _is_buffer(node, name) for node in ast.walk(owner))
    # A buffer that the class does not read is there for other code, which this edit does not reach.
    return stores == made_by_assignment and not in_place and len(mine) > stores


def _is_buffer(node: ast.Assign, name: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=attr)], value=ast.Call(func=made)):
            return attr == name and _last_name(made) == "Buffer"
    return False


def _initialized(tree: ast.Module, owner: str, names: set[str]) -> Iterator[Change]:
    """Yield edits that remove writes to the buffers during weight initialization: `init.copy_(module.stride, 1)`."""
    for branch in (node for node in ast.walk(tree) if isinstance(node, ast.If)):
        if any(_last_name(node) == owner for node in ast.walk(branch.test)):
            for statement in branch.body:
                match statement:
                    case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method)) as call) if method in _WRITERS:
                        if any(isinstance(node, ast.Attribute) and node.attr in names for node in ast.walk(call)):
                            yield statement, "pass"


def _rounded(text: str, owner: ast.ClassDef, names: set[str]) -> Iterator[Change]:
    """Yield edits that replace torch.ceil and torch.floor with `math` in methods that read the buffers."""
    for method in (node for node in owner.body if isinstance(node, Function)):
        read = {node.attr for node in ast.walk(method) if isinstance(node, ast.Attribute)}
        if method.name == "__init__" or not read & names:
            continue
        inner: set[ast.AST] = set()
        for node in ast.walk(method):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Call() as call, attr=cast)) if (
                    cast in _TO_INTEGER and _rounds(call)
                ):
                    # `torch.ceil(n).long()` is one change, and the walk comes to `torch.ceil(n)` next.
                    inner.add(call)
                    yield node, _rounded_by_python(text, call)
                case ast.Call() if _rounds(node) and node not in inner:
                    yield node, _rounded_by_python(text, node)


def _rounded_by_python(text: str, call: ast.Call) -> str:
    """Write Python's rounding, an integer: `math.ceil(n)` for `torch.ceil(n)`."""
    return in_python(_last_name(call.func), [source_of(text, call.args[0])], is_made_int=True)


def _rounds(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return name in ROUNDING and len(call.args) == 1 and not call.keywords
    return False


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _place(file: str, node: ast.expr | ast.stmt) -> str:
    return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{node.lineno}"
