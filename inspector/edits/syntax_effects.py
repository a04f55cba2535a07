"""Effects of an expression besides its value. Nothing runs, so doubt counts as an effect."""

from __future__ import annotations

import libcst as cst

from ctrace.inspector.edits.syntax_code import ParsedFile, walk
from ctrace.inspector.edits.syntax_names import assigned, dotted, full_name
from ctrace.inspector.knowledge.counting import words

REDUCTIONS = frozenset({"sum", "mean", "amax", "amin"})
"""Ops of all elements, or of those along `dim`."""
TESTS = words(
    """
    any all isnan isinf isfinite eq ne lt le gt ge logical_and logical_or logical_not
    """
)
SMOOTH = (
    words(
        """
    abs add sub mul neg relu tanh sigmoid clamp clip sin cos gelu silu leaky_relu elu softplus softmax
    log_softmax minimum maximum addmm mm bmm matmul linear conv1d conv2d where zeros_like ones_like einsum lerp
    logsigmoid sign erf floor ceil round trunc
    """
    )
    | REDUCTIONS
)
"""Ops without effects, whose gradients are finite for finite inputs; they return new tensors."""
SHAPING = words(
    """
    view reshape flatten unsqueeze squeeze permute transpose t expand expand_as narrow unfold chunk split select
    contiguous clone repeat flip roll tril triu cat stack pad view_as reshape_as unbind swapaxes movedim
    """
)
"""Ops without effects that choose or move elements."""
CASTS = words("to type type_as float double half bfloat16 int long short bool byte")
FACTS = words("size dim numel ndimension is_floating_point element_size stride")
"""Methods that answer from the tensor's header."""
OTHER_OPS = words(
    """
    exp exp2 expm1 square log log2 log10 log1p sqrt rsqrt reciprocal div true_divide floor_divide remainder fmod pow
    norm std var prod max min argmax argmin topk sort cumsum cumprod acos asin atan atan2 sinh cosh tan
    layer_norm normalize logsumexp median cosine_similarity dot outer cross baddbmm hypot erfinv lgamma digamma
    softmin scaled_dot_product nan_to_num count_nonzero isclose allclose equal gather index_select
    take_along_dim ones zeros full tensor arange full_like new_zeros new_ones new_full empty_like cdist
    vector_norm det inv trace masked_fill
    """
)
"""More ops without effects: their gradients may be infinite or NaN, or they may raise for some values."""
FILLING = "masked_fill"
"""Sets elements to a value: with a literal number, the gradient of its operand is that of the result, or zero."""
REDUCED = REDUCTIONS | {"max", "min", "norm"}
"""Ops that reduce all elements to one if they have no argument; their gradients are finite."""
_SHAPE_KEEPING = words(
    """
    clone contiguous exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square pow normalize layer_norm flip roll
    masked_fill
    """
)
PURE = SMOOTH | SHAPING | CASTS | FACTS | TESTS | OTHER_OPS
_BUILTINS = frozenset({"len", "abs", "min", "max", "float", "int", "bool"})
_TORCH = ("torch.", "torch.nn.functional.", "torch.linalg.", "torch.special.")


def op_of(code: ParsedFile, call: cst.Call) -> str:
    """Return the op that a call runs, as a torch function or a method; empty: it is something else."""
    whole = full_name(code, call.func)
    if whole.startswith("torch."):
        package, _, name = whole.rpartition(".")
        if f"{package}." not in _TORCH:
            return ""
        return name
    if whole.split(".")[0] in {name.split(".")[0] for name in code.imports.values()}:
        return ""  # another module's function, such as `np.max`
    if isinstance(call.func, cst.Attribute) and not dotted(call.func.value).startswith("self"):
        return call.func.attr.value
    if isinstance(call.func, cst.Attribute):
        # `self.weight.sum()` is a method of an attribute, `self.scale(x)` may be anything.
        if not isinstance(call.func.value, cst.Attribute):
            return ""
        return call.func.attr.value
    return ""


def operand_of(code: ParsedFile, call: cst.Call) -> cst.BaseExpression | None:
    """Return what an op works on: the first argument of a function of torch, or what a method belongs to."""
    if full_name(code, call.func).startswith("torch."):
        return next((arg.value for arg in call.args), None)
    if isinstance(call.func, cst.Attribute):
        return call.func.value
    return None


def is_along(code: ParsedFile, call: cst.Call) -> bool:
    """Whether a reduction is along some dimensions, or of two tensors: `x.sum(1)`, `torch.sum(x, 1)`."""
    is_function = full_name(code, call.func).startswith(_TORCH)
    is_method = isinstance(call.func, cst.Attribute) and not is_function
    if is_method:
        return bool(call.args)
    return len(call.args) > 1  # the first one is the tensor


def is_pure(code: ParsedFile, node: cst.CSTNode, extra: frozenset[str] = frozenset()) -> bool:
    """Whether evaluating an expression only computes its value: no unknown call, no assignment, no random number."""
    for one in walk(node):
        if isinstance(one, cst.NamedExpr | cst.Await | cst.Yield | cst.Lambda | cst.GeneratorExp | cst.BaseComp):
            return False
        # An f-string calls `__format__`, which reads the value of a tensor.
        if isinstance(one, cst.FormattedString):
            return False
        if isinstance(one, cst.Call) and not is_pure_call(code, one, extra):
            return False
    return True


def may_let_write(argument: cst.Arg) -> bool:
    """Whether an argument may let an op write to a tensor: `out=y`, `inplace=True`, or True in `F.relu(x, True)`."""
    if argument.keyword is not None:
        return argument.keyword.value in {"out", "inplace"}
    # Without its name, it may be `inplace`; in `F.dropout(x, 0.5, True)`, it is `training`.
    return isinstance(argument.value, cst.Name) and argument.value.value == "True"


def is_pure_call(code: ParsedFile, call: cst.Call, extra: frozenset[str] = frozenset()) -> bool:
    """Whether a call runs a known op that only computes its value; its arguments may do more."""
    if any(map(may_let_write, call.args)):
        return False
    if isinstance(call.func, cst.Name) and call.func.value in _BUILTINS:
        return full_name(code, call.func) == call.func.value
    if full_name(code, call.func).startswith("math."):
        return True
    op = op_of(code, call)
    return op in PURE or op in extra


def is_smooth(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether the gradient of a pure expression stays finite, so that selecting zero of it leaves no NaN behind."""
    for one in walk(node):
        if isinstance(one, cst.Call) and op_of(code, one) not in SMOOTH | SHAPING | CASTS | FACTS:
            return False
        if isinstance(one, cst.Divide) and not _divides_by_number(code, one):
            return False
        if isinstance(one, cst.Power | cst.FloorDivide | cst.Modulo | cst.LeftShift | cst.RightShift):
            return False
    return True


def _divides_by_number(code: ParsedFile, operator: cst.CSTNode) -> bool:
    around = code.parent(operator)
    return isinstance(around, cst.BinaryOperation) and is_number(around.right) and number(around.right) != 0


def is_safe_divisor(code: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether dividing by an expression cannot raise: it is a number, or a tensor that an op of the function made."""
    if is_number(node):
        return number(node) != 0
    if isinstance(node, cst.Call):
        # A size is a Python number, and dividing by 0 then raises; a tensor gives infinity.
        return op_of(code, node) not in FACTS | {""}
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add | cst.Subtract | cst.Multiply):
        return any(not is_number(side) and is_safe_divisor(code, side) for side in (node.left, node.right))
    if not isinstance(node, cst.Name):
        return False
    values = assigned(code, node)
    return bool(values) and all(isinstance(one, cst.Call) and op_of(code, one) not in FACTS | {""} for one in values)


def fills_number(code: ParsedFile, call: cst.Call) -> bool:
    """Whether a call sets elements to a literal number, which is finite: `x.masked_fill(mask, 0.0)`."""
    return op_of(code, call) == FILLING and bool(call.args) and is_number(call.args[-1].value)


def is_number(node: cst.CSTNode) -> bool:
    """Whether an expression is a literal number, with or without a sign."""
    # Python's grammar has no negative literals: `-1` is a minus before 1.
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus | cst.Plus):
        node = node.expression
    return isinstance(node, cst.Integer | cst.Float)


def number(node: cst.CSTNode) -> float | int:
    """Return the value of a literal number."""
    if isinstance(node, cst.UnaryOperation):
        value = number(node.expression)
        if isinstance(node.operator, cst.Minus):
            return -value
        return value
    if isinstance(node, cst.Integer | cst.Float):
        value = node.evaluated_value
        assert isinstance(value, int | float)
        return value
    raise TypeError(type(node).__name__)


def is_literal(node: cst.CSTNode) -> bool:
    """Whether an expression is certainly no tensor: a number, text, a display, a constant, a comparison with `is`."""
    if isinstance(node, cst.UnaryOperation):
        return is_literal(node.expression) or isinstance(node.operator, cst.Not)
    if isinstance(node, cst.BinaryOperation):
        return is_literal(node.left) and is_literal(node.right)
    if isinstance(node, cst.Name):
        return node.value in {"None", "True", "False", "Ellipsis"}
    if isinstance(node, cst.Call):
        return dotted(node.func) in {"len", "int", "float", "bool", "str", "list", "tuple", "dict", "set", "range"}
    if isinstance(node, cst.Attribute):
        return node.attr.value in {"shape", "dtype", "device", "ndim", "training"}
    return isinstance(
        node,
        cst.BaseNumber
        | cst.BaseString
        | cst.List
        | cst.Tuple
        | cst.Dict
        | cst.Set
        | cst.Lambda
        | cst.Ellipsis
        | cst.BaseComp,
    )


def shape_of(code: ParsedFile, node: cst.CSTNode) -> list[str]:
    """Return, as text, what decides the shape and dtype of an expression: sides with different texts may differ."""
    found = []
    inside = {id(below) for one in walk(node) if _is_number_beside(code, one) for below in walk(one)}
    for one in walk(node):
        if id(one) in inside:
            continue
        if isinstance(one, cst.Call) and op_of(code, one) in (REDUCTIONS | SHAPING | CASTS | TESTS | OTHER_OPS) - FACTS:
            op = op_of(code, one)
            # One side may have such an op, and the other none.
            same = op in _SHAPE_KEEPING
            args = [code.text(arg) for arg in one.args if arg.keyword or not isinstance(arg.value, cst.Name)]
            if not same:
                found.append(f"{op}({','.join(args)})")
        elif isinstance(one, cst.Subscript):
            found.append("".join(code.text(index) for index in one.slice))
        elif isinstance(one, cst.Attribute) and one.attr.value in {"T", "mT", "H", "real", "imag", "data", "grad"}:
            found.append(one.attr.value)
        elif isinstance(one, cst.MatrixMultiply):
            found.append("@")
        elif isinstance(one, cst.Comparison):
            found.append("bool")
    return sorted(found)


def _is_number_beside(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether a node reduces all elements to one, beside an operand that keeps its shape: `y / y.abs().max()`."""

    def reduces(one: cst.CSTNode) -> bool:
        return isinstance(one, cst.Call) and op_of(code, one) in REDUCED and not is_along(code, one)

    other = code.beside(node)
    if not reduces(node) or other is None:
        return False
    return not reduces(other) and not is_number(other)
