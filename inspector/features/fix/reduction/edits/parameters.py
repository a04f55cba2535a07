"""Drop parameters together with the arguments for them."""

import ast
from collections.abc import Iterator

from ctrace.inspector.features.fix.reduction.edits.reduce_nodes import at, numbered
from ctrace.inspector.features.fix.reduction.reduced_program import Edit


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
        if args.posonlyargs:
            args.args, args.posonlyargs = [*args.posonlyargs, *args.args], []
        gone = args.args[index]
        plain = len(args.args) - len(args.defaults)
        if index >= plain:
            del args.defaults[index - plain]
        del args.args[index]
        is_method = bool(args.args) and args.args[0].arg in ("self", "cls")
        for call in _calls(tree, node):
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
