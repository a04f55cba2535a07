"""Turn the function that launches a kernel into an operator: its arguments, what it writes, its branch for the CPU."""

import ast
from collections.abc import Iterator, Mapping

from msgspec import Struct

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.kernel_reading import called_name, parameters_of
from ctrace.inspector.features.workshop.triton_op_model import JitFunction, JitLaunch

_TENSOR_USES = {"shape", "numel", "device", "dtype", "stride", "is_cuda", "is_contiguous", "contiguous", "size",
                "dim", "ndim", "view", "reshape", "flatten", "data_ptr", "new_empty", "T", "detach"}  # fmt: skip
_VIEWS = {"view", "reshape", "contiguous", "flatten", "detach", "transpose", "permute", "squeeze", "unsqueeze", "to",
          "narrow", "select", "expand", "t", "view_as", "unflatten", "movedim", "swapaxes", "as_strided"}  # fmt: skip
"""Methods whose result may share memory with the tensor."""
_SIMPLE = ("Tensor", "int", "float", "bool", "str", "None", "torch.Tensor", "Optional", "List", "list", "Sequence",
           "torch.dtype", "torch.device", "torch")  # fmt: skip


class OperatorArgument(Struct, frozen=True):
    """An argument of the operator."""

    name: str
    type: str
    default: str = ""
    is_assumed: bool = False
    """Whether the type is a guess, because the source names none."""


class OperatorFunction(Struct, frozen=True):
    """The user's function as an operator."""

    name: str
    arguments: tuple[OperatorArgument, ...]
    returns: str
    mutates: tuple[str, ...]
    branch: ast.If | None
    """The user's own branch for tensors on the CPU."""
    node: ast.FunctionDef


class Unsuitable(Exception):  # noqa: N818 - a reason to write another form
    """The function cannot become an operator as it is."""


def function_of(kernel: JitFunction, written: tuple[str, ...], launch: JitLaunch) -> OperatorFunction:
    """Read the function that launches a kernel.

    Raises:
        Unsuitable: it cannot become an operator; the message is the reason.
    """
    node = launch.function
    if node is None:
        raise Unsuitable("the launch is at the top of the module")
    if launch.is_method or launch.is_nested:
        raise Unsuitable(f"the launch is in {node.name}, {'a method' if launch.is_method else 'a nested function'}")
    if node.args.vararg or node.args.kwarg:
        raise Unsuitable(f"{node.name} takes *args or **kwargs, which an operator cannot have")
    names = parameters_of(node)
    aliases = _Aliases(node)
    mutates = tuple(name for name in names if any(name in aliases.of(launch.arguments[each]) for each in written
                                                  if each in launch.arguments))  # fmt: skip
    returned = [each.value for each in _returns(node)]
    shared = sorted({name for each in returned if each is not None for name in aliases.of(each, views=False)})
    if shared:
        raise Unsuitable(f"{node.name} returns its argument {shared[0]}, and an operator returns new tensors only")
    return OperatorFunction(
        name=node.name,
        arguments=tuple(_argument(node, name, kernel, launch) for name in names),
        returns=_return_type(node, returned),
        mutates=mutates,
        branch=cpu_branch(node),
        node=node,
    )


class _Aliases:
    """Finds the arguments of a function that a value may share memory with."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self._arguments = frozenset(parameters_of(node))
        self._values: dict[str, list[ast.expr]] = {}
        for each in ast.walk(node):
            match each:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._values.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, of in zip(target.elts, value.elts, strict=False):
                self._assign(each, of)

    def of(self, node: ast.expr, *, views: bool = True, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        match node:
            case ast.Name(id=name):
                found = frozenset([name]) & self._arguments
                # `x = x.contiguous()` leads to itself.
                if name in seen:
                    return found
                values = self._values.get(name, [])
                return found.union(*(self.of(each, views=views, seen=seen | {name}) for each in values))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return frozenset[str]().union(*(self.of(each, views=views, seen=seen) for each in elements))
            case ast.IfExp(body=body, orelse=other):
                return self.of(body, views=views, seen=seen) | self.of(other, views=views, seen=seen)
            case ast.Subscript(value=value) if views:
                return self.of(value, seen=seen)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _VIEWS:
                return self.of(value, views=views, seen=seen)
        return frozenset()


def _returns(node: ast.FunctionDef) -> Iterator[ast.Return]:
    """Yield the returns of a function, not those of functions in it."""
    todo: list[ast.AST] = list(node.body)
    while todo:
        each = todo.pop(0)
        if isinstance(each, ast.Return):
            yield each
        elif not isinstance(each, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            todo.extend(ast.iter_child_nodes(each))


def _return_type(node: ast.FunctionDef, returned: list[ast.expr | None]) -> str:
    if node.returns is not None:
        text = _plain(ast.unparse(node.returns))
        if _is_simple(node.returns):
            return text
    values = [each for each in returned if each is not None and not _is_none(each)]
    if not values:
        return "None"
    sizes = {len(each.elts) if isinstance(each, ast.Tuple) else 0 for each in values}
    if len(sizes) > 1:
        raise Unsuitable(f"{node.name} returns different numbers of values")
    size = sizes.pop()
    if size:
        return f"tuple[{', '.join(['Tensor'] * size)}]"
    return "Tensor"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_simple(annotation: ast.expr) -> bool:
    """Whether torch infers a schema from an annotation."""
    names = {each.id for each in ast.walk(annotation) if isinstance(each, ast.Name)}
    return names <= {*_SIMPLE, "tuple", "Tuple", "Union"}


def _plain(text: str) -> str:
    return text.replace("torch.Tensor", "Tensor")


def _argument(node: ast.FunctionDef, name: str, kernel: JitFunction, launch: JitLaunch) -> OperatorArgument:
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    annotation = next(each.annotation for each in every if each.arg == name)
    default = _defaults(node).get(name)
    text = ""
    if default is not None:
        text = ast.unparse(default)
    if annotation is not None:
        if _is_simple(annotation):
            return OperatorArgument(name, _plain(ast.unparse(annotation)), text)
        raise Unsuitable(f"an operator takes no {ast.unparse(annotation)}, the type of {node.name}'s argument {name}")
    # A default is surer than a use: `eps=1e-5` is a float, though `x.new_empty(n)` takes any number.
    if isinstance(default, ast.Constant) and isinstance(default.value, bool | int | float | str):
        return OperatorArgument(name, type(default.value).__name__, text, is_assumed=True)
    if _is_used_as_tensor(node, name, kernel, launch):
        is_optional = default is not None and _is_none(default)
        return OperatorArgument(name, "Tensor | None" if is_optional else "Tensor", text, is_assumed=True)
    return OperatorArgument(name, "float" if name in ("eps", "scale", "alpha", "p") else "int", text, is_assumed=True)


def _defaults(node: ast.FunctionDef) -> dict[str, ast.expr]:
    positional = [*node.args.posonlyargs, *node.args.args]
    # From the back, since defaults belong to the last parameters.
    named = dict(zip([each.arg for each in positional][::-1], node.args.defaults[::-1], strict=False))
    keyword = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return named | {each.arg: value for each, value in keyword if value is not None}


def _is_used_as_tensor(node: ast.FunctionDef, name: str, kernel: JitFunction, launch: JitLaunch) -> bool:
    pointers = {*kernel.read, *kernel.written}
    if any(isinstance(value, ast.Name) and value.id == name for each, value in launch.arguments.items()
           if each in pointers):  # fmt: skip
        return True
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner == name and attribute in _TENSOR_USES:
                return True
            case ast.Call() if called_name(each).endswith("_like"):
                if any(isinstance(one, ast.Name) and one.id == name for one in each.args):
                    return True
    return False


def cpu_branch(node: ast.FunctionDef) -> ast.If | None:
    """Return the `if` at the top of a function that handles tensors on the CPU and returns."""
    for each in node.body:
        if isinstance(each, ast.If) and _asks_for_cpu(each.test) and not each.orelse:
            # Without a return, what follows would run for tensors on the CPU as well, with the launch in it.
            if isinstance(each.body[-1], ast.Return):
                return each
            return None
    return None


def _asks_for_cpu(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr="is_cuda")):
            return True
        case ast.Attribute(attr="is_cpu"):
            return True
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=value)]):
            is_device = ast.unparse(left).endswith((".device.type", ".type"))
            is_cpu = isinstance(op, ast.Eq) and value == "cpu"
            return is_device and (is_cpu or (isinstance(op, ast.NotEq) and value == "cuda"))
    return False


def local_values(node: ast.FunctionDef) -> Mapping[str, ast.expr]:
    """Return the local variables of a function that are assigned once, with their values."""
    found: dict[str, list[ast.expr]] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
            found.setdefault(each.targets[0].id, []).append(each.value)
    # Of several values, which one the grid reads depends on the branch that ran.
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def refuse_wrapped(launch: JitLaunch, kernel: JitFunction, path: object) -> None:
    """Refuse a kernel that is inside an operator already.

    Raises:
        TargetError: it is.
    """
    if launch.is_wrapped:
        where = f"{path}:{launch.line}"
        name = "an operator"
        if launch.function is not None:
            name = launch.function.name
        todo = "nothing to do: ctrace kernels shows its kernels"
        raise TargetError(f"{kernel.name} is in an operator already: {name} at {where}", todo)
