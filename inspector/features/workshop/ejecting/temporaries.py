"""Names for the temporaries of a kernel, which Inductor numbers, and constants written where they are used."""

import ast
import re
from collections import Counter

_TEMPORARY = re.compile(r"_?tmp\d+(?:_\w+)?$")
_SIGNS = {
    ast.Add: "added", ast.Sub: "difference", ast.Mult: "product", ast.Div: "quotient", ast.FloorDiv: "quotient",
    ast.Mod: "remainder", ast.BitAnd: "both", ast.BitOr: "either", ast.BitXor: "differ",
}  # fmt: skip
_CALLS = {
    "where": "chosen", "broadcast_to": "spread", "full": "constant", "load": "loaded", "maximum": "larger",
    "minimum": "smaller", "max2": "largest", "min2": "smallest", "sum": "total", "promote_to_tensor": "value",
    "reshape": "reshaped", "sigmoid": "sigmoid",
}  # fmt: skip
_PLAIN = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def readable(body: list[ast.stmt]) -> list[ast.stmt]:
    """Rename temporaries, write constants where they are used, and drop what nothing uses."""
    body = _without_unused(_with_constants(body))
    names = _names(body)
    for each in body:
        for node in ast.walk(each):
            if isinstance(node, ast.Name) and node.id in names:
                node.id = names[node.id]
    return body


def _assigned(body: list[ast.stmt]) -> list[ast.Assign]:
    return [node for each in body for node in ast.walk(each) if isinstance(node, ast.Assign)]


def _with_constants(body: list[ast.stmt]) -> list[ast.stmt]:
    """Write `x * 0.5` for `tmp1 = tl.full([1], 0.5, tl.float32)` and `x * tmp1`."""
    counts = Counter(target.id for each in _assigned(body) for target in each.targets if isinstance(target, ast.Name))
    constants = {
        each.targets[0].id: each.value
        for each in _assigned(body)
        if isinstance(each.targets[0], ast.Name)
        and _TEMPORARY.match(each.targets[0].id)
        and counts[each.targets[0].id] == 1
        and _is_float(each.value)
    }
    return [_Constants(constants).visit(each) for each in body]


def _is_float(value: ast.expr) -> bool:
    """Whether an expression is a float32 constant, finite or not."""
    return (
        isinstance(value, ast.Call)
        and ast.unparse(value.func) == "tl.full"
        and len(value.args) == 3
        and ast.unparse(value.args[2]) == "tl.float32"
        and isinstance(value.args[1], ast.Constant | ast.UnaryOp)
    )


class _Constants(ast.NodeTransformer):
    """Replaces operands of arithmetic, whose type the other operand decides, and other uses by the constant."""

    def __init__(self, constants: dict[str, ast.expr]) -> None:
        self._constants = constants

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, _PLAIN):
            is_left, is_right = self._is(node.left), self._is(node.right)
            if is_left != is_right:
                node.left = self._number(node.left) if is_left else node.left
                node.right = self._number(node.right) if is_right else node.right
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._constants.get(node.id, node) if isinstance(node.ctx, ast.Load) else node

    def _is(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._constants

    def _number(self, node: ast.expr) -> ast.expr:
        assert isinstance(node, ast.Name)
        call = self._constants[node.id]
        assert isinstance(call, ast.Call)
        return call.args[1]


def _without_unused(body: list[ast.stmt]) -> list[ast.stmt]:
    while True:
        used = {
            node.id
            for each in body
            for node in ast.walk(each)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        kept = _kept(body, used)
        if kept == body:
            return body
        body = kept


def _targets(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target):
            return [target]
    return []


def _kept(body: list[ast.stmt], used: set[str]) -> list[ast.stmt]:
    kept = []
    for each in body:
        if isinstance(each, ast.For):
            each.body = _kept(each.body, used) or [ast.Pass()]
        names = [node.id for target in _targets(each) for node in ast.walk(target) if isinstance(node, ast.Name)]
        if not names or any(name in used for name in names):
            kept.append(each)
    return kept


def _names(body: list[ast.stmt]) -> dict[str, str]:
    """Choose a name for each temporary: of the tensor that it is loaded from or stored to, else of its operation."""
    stored = _stored(body)
    taken = Counter(node.id for each in body for node in ast.walk(each) if isinstance(node, ast.Name))
    names: dict[str, str] = {}
    for each in _assigned(body):
        for target in each.targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and _TEMPORARY.match(node.id) and node.id not in names:
                    stem = stored.get(node.id) or _stem(each.value)
                    names[node.id] = _unique(stem, taken)
    return names


def _unique(stem: str, taken: Counter[str]) -> str:
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken[name] += 1
    return name


def _stored(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for each in body:
        for node in ast.walk(each):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.store" and len(node.args) > 1:
                stored = node.args[1]
                if isinstance(stored, ast.Name):
                    found[stored.id] = _tensor(node)
    return found


def _tensor(call: ast.Call) -> str:
    """Return the tensor behind the pointer of a load or store."""
    names = (node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name))
    return next((name.removesuffix("_ptr") for name in names if name.endswith("_ptr")), "")


def _stem(value: ast.expr) -> str:
    match value:
        case ast.Subscript(value=inner):
            return _stem(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="to")):
            return _stem(inner)
        case ast.Call(func=func):
            name = ast.unparse(func).rpartition(".")[2]
            if name == "load" and (tensor := _tensor(value)):
                return tensor
            return _CALLS.get(name, name if name.isidentifier() else "value")
        case ast.BinOp(op=op):
            return _SIGNS.get(type(op), "value")
        case ast.Compare():
            return "is_so"
        case ast.UnaryOp(op=ast.USub()):
            return "negative"
    return "value"
