"""Which sides of a choice autocast runs in float32 on a GPU, where the other side keeps 16 bits.

`torch.where(c, h ** 2, h)` has the dtype of both sides promoted: float32 on a GPU under autocast, where `h` of a linear
layer has 16 bits, while a branch gave either. The CPU runs `**` in 16 bits, so no call there shows it.

Reads Python without running it.
"""

import ast
from collections.abc import Collection, Mapping

from ctrace.inspector.source.attribute_writes import FUNCTIONS

_WIDE = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm rms_norm
group_norm norm vector_norm matrix_norm normalize cosine_similarity logsumexp prod sum cumprod cumsum softmax softmin
log_softmax dist pdist cdist renorm interpolate nll_loss cross_entropy poisson_nll_loss kl_div l1_loss smooth_l1_loss
huber_loss mse_loss binary_cross_entropy_with_logits cosine_embedding_loss triplet_margin_loss
"""
_WIDENED = frozenset(_WIDE.split())
"""Operations with a float32 result under autocast on a GPU (AT_FORALL_FP32 of ATen/autocast_mode.h, 2.13), and
functions of torch.nn.functional that end with one."""
_REDUCING = frozenset(("sum", "norm", "prod", "vector_norm", "matrix_norm", "logsumexp"))
"""Without an argument, they have no dimensions: such a result does not promote what is beside it."""
_NARROW = """
linear conv1d conv2d conv3d matmul mm bmm addmm baddbmm einsum scaled_dot_product_attention Linear Conv1d Conv2d
Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LSTM GRU MultiheadAttention TransformerEncoderLayer autocast
"""
_LOWERED = frozenset(_NARROW.split())
"""What gives 16 bits under autocast (AT_FORALL_LOWER_PRECISION_FP there), its layers, and autocast by name."""
_CHOOSING = frozenset(("where", "cond"))
# Chosen: assignments between a name and its value; further away, the answer is "not known".
_DEEPEST = 4


def autocast_sides(tree: ast.Module, lines: Collection[int]) -> tuple[str, ...]:
    """Return a question for each choice on some lines of which autocast widens one side on a GPU."""
    # Without an operation that autocast lowers nothing has 16 bits, so float32 on one side is no difference.
    if not any(_is_lowered(each) for each in ast.walk(tree)):
        return ()
    asked: dict[str, None] = {}
    for function in (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)):
        values = _values(function)
        for each in ast.walk(function):
            match each:
                case ast.Call(func=ast.Attribute(attr=name), args=[_, yes, no]) if name in _CHOOSING:
                    one, other = _widened(yes, values, 0), _widened(no, values, 0)
                    # Two sides of float32 give what one does; only a difference shows in the result.
                    if each.lineno in lines and bool(one) != bool(other):
                        asked[
                            f"Does autocast never run this on a GPU? `{one or other}` is float32 there, and so is the "
                            "result, also where the other side is selected."
                        ] = None
    return tuple(asked)


def _is_lowered(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.MatMult()):
            return True
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in _LOWERED
    return False


def _values(function: ast.AST) -> Mapping[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            found.setdefault(each.targets[0].id, []).append(each.value)
    return found


def _widened(node: ast.expr, values: Mapping[str, list[ast.expr]], depth: int) -> str:
    """Return the operation that gives a result float32, as text; empty: none does."""
    match node:
        case ast.Lambda(body=body):
            return _widened(body, values, depth)
        case ast.BinOp(op=ast.Pow()):
            return ast.unparse(node)
        # A number divided by a tensor is `reciprocal`, which is in the list.
        case ast.BinOp(left=ast.Constant(), op=ast.Div()):
            return ast.unparse(node)
        case ast.BinOp(left=left, right=right):
            return _widened(left, values, depth) or _widened(right, values, depth)
        case ast.UnaryOp(operand=operand) | ast.Subscript(value=operand):
            return _widened(operand, values, depth)
        case ast.Call(func=ast.Attribute(attr=name), args=[_, yes, no]) if name in _CHOOSING:
            return _widened(yes, values, depth) or _widened(no, values, depth)
        case ast.Call(func=ast.Attribute(value=held, attr=name), args=args):
            return _called(node, held, name, args, values, depth)
        # With several values, which of them is meant is not known.
        case ast.Name(id=name) if depth < _DEEPEST and len(values.get(name, ())) == 1:
            return _widened(values[name][0], values, depth + 1)
    return ""


def _called(
    node: ast.Call, held: ast.expr, name: str, args: list[ast.expr], values: Mapping[str, list[ast.expr]], depth: int
) -> str:
    is_function = ast.unparse(held) in (
        "torch",
        "F",
        "torch.nn.functional",
        "nn.functional",
        "torch.special",
        "torch.linalg",
    )
    if is_function:
        operands = args
    else:
        operands = [held]
    if name in ("to", "type_as", "half", "bfloat16", "float", "double", "type"):
        return ""  # its dtype is as written
    if name in _REDUCING and len(args) + len(node.keywords) <= is_function:
        return ""
    if name in _WIDENED:
        return ast.unparse(node)
    return next((found for each in operands if (found := _widened(each, values, depth))), "")
