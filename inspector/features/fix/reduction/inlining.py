"""Edits of a reduction that need more than one place of a program.

`inline` puts values in the place of names: constants, variables that are read once, functions without parameters, and a
function in the place of a module without state. `drop` drops parameters together with the arguments for them.
"""

import ast
import copy
from collections.abc import Iterator

from ctrace.inspector.features.fix.reduction.reduced_program import (
    Edit,
    at,
    blocks,
    is_anchor,
    is_pinned,
    move_anchor,
    numbered,
    put,
)


def inline(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that make a name unnecessary."""
    # By number and position, since an edit is carried out on a copy of the tree.
    for number, block in enumerate(blocks(tree)):
        for index, node in enumerate(block):
            if is_pinned(node):
                continue
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(
                    values
                ):
                    yield _splitting(number, index)
                case ast.Assign(targets=[ast.Name(id=name)]) if not is_anchor(node):
                    yield _inlining(number, index, name)
                case ast.FunctionDef(body=[ast.Return(value=ast.expr())]) if _has_no_parameters(node):
                    yield _inlining_function(number, index)
                case ast.ClassDef():
                    yield _to_function(number, index)


def _at(tree: ast.Module, number: int, index: int) -> tuple[list[ast.stmt], ast.stmt]:
    block = next(block for at, block in enumerate(blocks(tree)) if at == number)
    return block, block[index]


def _splitting(number: int, index: int) -> Edit:
    """Write `a, b = 1, 2` as two constants wherever they are read."""

    def edit(tree: ast.Module) -> bool:
        block, node = _at(tree, number, index)
        assert isinstance(node, ast.Assign)
        names, values = node.targets[0].elts, node.value.elts  # type: ignore[attr-defined]
        if not all(isinstance(each, ast.Name) for each in names):
            return False
        del block[index]
        for name, value in zip(names, values, strict=True):
            _replace_reads(tree, name.id, value)
        return True

    return edit


def _inlining(number: int, index: int, name: str) -> Edit:
    """Write the value of `name = value` where the name is read: everywhere if it is simple and nothing else assigns the
    name, and otherwise in the first read behind it.
    """

    def edit(tree: ast.Module) -> bool:
        block, node = _at(tree, number, index)
        assert isinstance(node, ast.Assign)
        uses = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == name]
        reads = [each for each in uses if isinstance(each.ctx, ast.Load)]
        writes = [each for each in uses if not isinstance(each.ctx, ast.Load)]
        is_simple = isinstance(node.value, ast.Constant | ast.Name | ast.Attribute)
        if is_simple and len(writes) == 1:
            del block[index]
            return bool(reads) and _replace_reads(tree, name, node.value)
        later = [each for part in block[index + 1 :] for each in ast.walk(part) if each in reads]
        if not later:
            return False
        # Further reads are fine where something else assigns the name, here or in another function, and they may be
        # reads of that; whether the smaller program still shows the finding decides.
        is_assigned_elsewhere = any(each is not node.targets[0] for each in writes)
        if len(later) > 1 and not is_assigned_elsewhere:
            return False
        del block[index]
        return put(tree, later[0], copy.deepcopy(node.value))

    return edit


def _replace_reads(tree: ast.AST, name: str, value: ast.expr) -> bool:
    reads = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
    ]
    return bool([put(tree, each, copy.deepcopy(value)) for each in reads])


def _has_no_parameters(node: ast.FunctionDef) -> bool:
    args = node.args
    return not (args.posonlyargs or args.args or args.kwonlyargs or args.vararg or args.kwarg or node.decorator_list)


def _inlining_function(number: int, index: int) -> Edit:
    """Put what a function without parameters returns in the place of its calls."""

    def edit(tree: ast.Module) -> bool:
        block, node = _at(tree, number, index)
        assert isinstance(node, ast.FunctionDef)
        returned = node.body[0]
        # The marked statement would be gone, and with it the line where the finding has to show.
        if is_anchor(returned) or is_anchor(node):
            return False
        assert isinstance(returned, ast.Return)
        calls = [
            each
            for each in ast.walk(tree)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == node.name
        ]
        del block[index]
        value = returned.value
        # A list, not a generator: every call gets its copy, not only the first.
        return value is not None and bool([put(tree, each, copy.deepcopy(value)) for each in calls])

    return edit


def _to_function(number: int, index: int) -> Edit:
    """Write a module whose `forward` does not use `self` as a function."""

    def edit(tree: ast.Module) -> bool:
        block, node = _at(tree, number, index)
        assert isinstance(node, ast.ClassDef)
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        forward = next((each for each in methods if each.name in ("forward", "__call__")), None)
        if forward is None or not forward.args.args or forward.decorator_list:
            return False
        self = forward.args.args[0].arg
        if any(isinstance(each, ast.Name) and each.id == self for part in forward.body for each in ast.walk(part)):
            return False
        del forward.args.args[0]
        forward.name = "f"
        move_anchor(node, forward)
        block[index] = forward
        # `Net()` made the module; the function is there already, so its name stands for the call.
        for call in [each for each in ast.walk(tree) if isinstance(each, ast.Call)]:
            if isinstance(call.func, ast.Name) and call.func.id == node.name:
                put(tree, call, ast.Name("f"))
        return True

    return edit


def drop(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that drop one parameter of a function, and what calls pass for it."""
    for number, node in numbered(tree):
        if isinstance(node, ast.FunctionDef):
            for index, arg in enumerate([*node.args.posonlyargs, *node.args.args]):
                if not (index == 0 and arg.arg in ("self", "cls")):
                    yield _dropping(number, index)
            if node.args.vararg is not None or node.args.kwarg is not None:
                yield _without_stars(number)
            if node.args.kwonlyargs:
                yield _without_keywords(number)


def _dropping(number: int, index: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.FunctionDef)
        args = node.args
        # One list for both kinds, as the index counts them: a parameter that also takes a keyword changes no call.
        if args.posonlyargs:
            args.args, args.posonlyargs = [*args.posonlyargs, *args.args], []
        gone = args.args[index]
        # Defaults belong to the last parameters.
        plain = len(args.args) - len(args.defaults)
        if index >= plain:
            del args.defaults[index - plain]
        del args.args[index]
        is_method = bool(args.args) and args.args[0].arg in ("self", "cls")
        for call in _calls(tree, node):
            # What `*args` of a call fills is not known.
            if index - is_method < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args):
                del call.args[index - is_method]
            call.keywords = [each for each in call.keywords if each.arg != gone.arg]
        return True

    return edit


def _calls(tree: ast.Module, function: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls that may be of a function, by name; a `forward` is called through any variable."""
    known = {each.name for each in ast.walk(tree) if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    owner = next((each.name for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and function in each.body), "")
    found = []
    for call in [each for each in ast.walk(tree) if isinstance(each, ast.Call)]:
        match call.func:
            case ast.Name(id=name) if function.name == "__init__":
                is_call = name == owner
            case ast.Name(id=name):
                is_call = name == function.name or (name not in known and _is_compiled(tree, name, function, owner))
            case ast.Attribute(attr=name):
                is_call = name == function.name and function.name != "__init__"
            case ast.Call():  # torch.compile(...)(...)
                is_call = function.name in ("forward", "__call__") or _names(call.func, function.name)
            case _:
                is_call = False
        if is_call:
            found.append(call)
    return found


def _is_compiled(tree: ast.Module, name: str, function: ast.FunctionDef, owner: str) -> bool:
    """Whether a variable may hold the function, or a module whose `forward` it is."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in each.targets):
            return _names(each.value, function.name) or function.name in ("forward", "__call__") or not owner
    return False


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def _without_stars(number: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.FunctionDef)
        node.args.vararg = node.args.kwarg = None
        return True

    return edit


def _without_keywords(number: int) -> Edit:
    def edit(tree: ast.Module) -> bool:
        node = at(tree, number)
        assert isinstance(node, ast.FunctionDef)
        gone = {each.arg for each in node.args.kwonlyargs}
        node.args.kwonlyargs, node.args.kw_defaults = [], []
        for call in _calls(tree, node):
            call.keywords = [each for each in call.keywords if each.arg not in gone]
        return True

    return edit
