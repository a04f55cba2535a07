"""Inductor's helper functions in terms of plain Triton."""

import ast
import re

from ctrace.inspector.features.workshop.size_expressions import SEE_DUMP, RefusalError

_OF_TL = frozenset(
    ("rsqrt", "erf", "exp", "exp2", "log", "log2", "floor", "ceil", "fma", "abs", "sin", "cos", "sqrt_rn", "div_rn")
)
"""Functions of libdevice that `triton.language` has too."""
_MATH = frozenset(("exp", "log", "abs", "sin", "cos", "sqrt", "rsqrt", "exp2", "log2", "floor", "ceil", "erf", "fma"))


def _choosing(name: str, sign: str) -> str:
    """Write the function that chooses one of two values with its index; NaN comes first, then the lower index."""
    return f"""\
@triton.jit
def {name}(a_value, a_index, b_value, b_index):
    is_nan_a, is_nan_b = a_value != a_value, b_value != b_value
    is_first = (a_value {sign} b_value) | (is_nan_a & ~is_nan_b)
    is_equal = (a_value == b_value) | (is_nan_a & is_nan_b)
    is_a = is_first | (is_equal & (a_index < b_index))
    return tl.where(is_a, a_value, b_value), tl.where(is_a, a_index, b_index)
"""


HELPERS = {
    "maximum": '''\
@triton.jit
def maximum(a, b):
    """The larger of two values; NaN if one of them is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "minimum": '''\
@triton.jit
def minimum(a, b):
    """The smaller of two values; NaN if one of them is NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "max2": '''\
@triton.jit
def max2(a, dim):
    """The largest value along a dimension; NaN if one of them is NaN."""
    return tl.reduce(a, dim, maximum)
''',
    "min2": '''\
@triton.jit
def min2(a, dim):
    """The smallest value along a dimension; NaN if one of them is NaN."""
    return tl.reduce(a, dim, minimum)
''',
    "either": """\
@triton.jit
def either(a, b):
    return a | b
""",
    "any": '''\
@triton.jit
def any_of(a, dim):
    """Whether one of the values along a dimension is true."""
    return tl.reduce(a, dim, either)
''',
    "multiply": """\
@triton.jit
def multiply(a, b):
    return a * b
""",
    "prod": '''\
@triton.jit
def prod(a, dim):
    """The product of the values along a dimension."""
    return tl.reduce(a, dim, multiply)
''',
    "select_one": '''\
@triton.jit
def select_one(x, mask, dim, keep_dims: tl.constexpr = False):
    """The one value along a dimension whose mask is set."""
    return tl.sum(tl.where(mask, x, 0), dim, keep_dims=keep_dims).to(x.dtype)
''',
    "promote_to_tensor": '''\
@triton.jit
def promote_to_tensor(x):
    """Make a tensor of a scalar."""
    return tl.broadcast_to(x, (1,))
''',
    "div_floor_integer": '''\
@triton.jit
def div_floor_integer(a, b):
    """Divide integers and round down, as Python does; `//` rounds towards zero."""
    quotient = a // b
    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)
''',
    "remainder_integer": '''\
@triton.jit
def remainder_integer(a, b):
    """The remainder with the sign of the divisor, as Python has it."""
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), remainder + b, remainder)
''',
    "maximum_with_index": _choosing("larger_with_index", ">"),
    "max_with_index": '''\
@triton.jit
def max_with_index(value, index, dim):
    """The largest value along a dimension and its index, the first one if there are several."""
    return tl.reduce((value, index), dim, larger_with_index)
''',
    "minimum_with_index": _choosing("smaller_with_index", "<"),
    "min_with_index": '''\
@triton.jit
def min_with_index(value, index, dim):
    """The smallest value along a dimension and its index, the first one if there are several."""
    return tl.reduce((value, index), dim, smaller_with_index)
''',
    "welford_reduce": '''\
@triton.jit
def welford_reduce(value, mean, m2, weight, first_iteration):
    """Add a value to a running mean and sum of squared differences, which start as zeros."""
    new_weight = weight + 1
    delta = value - mean
    new_mean = mean + delta / new_weight
    new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_weight
''',
    "welford_combine": '''\
@triton.jit
def welford_combine(mean_a, m2_a, weight_a, mean_b, m2_b, weight_b):
    """Join the means and sums of squared differences of two sets."""
    delta = mean_b - mean_a
    weight = weight_a + weight_b
    share = tl.where(weight == 0.0, 0.0, weight_b / weight)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * weight_a * share, weight
''',
    "welford": '''\
@triton.jit
def welford(mean, m2, weight, dim):
    """Join the means and sums of squared differences along a dimension."""
    return tl.reduce((mean, m2, weight), dim, welford_combine)
''',
    "exp": '''\
@triton.jit
def exp(x, use_fast_math: tl.constexpr):
    """The exponential function; Inductor's fast form is exp2 with a scaled argument."""
    return tl.exp(x)
''',
    "online_softmax_combine": '''\
@triton.jit
def online_softmax_combine(a_max, a_sum, b_max, use_fast_math: tl.constexpr):
    """Add values to a running maximum and the sum of exponentials relative to it."""
    new_max = maximum(a_max, b_max)
    a_scale = tl.where(a_max == float("-inf"), 0.0, tl.exp(a_max - new_max))
    b_scale = tl.where(b_max == float("-inf"), 0.0, tl.exp(b_max - new_max))
    return new_max, a_sum * a_scale + b_scale
''',
    "online_softmax_combine_with_sum": '''\
@triton.jit
def online_softmax_combine_with_sum(a_max, a_sum, b_max, b_sum, use_fast_math: tl.constexpr):
    """Join the maxima of two sets and the sums of exponentials relative to them."""
    new_max = maximum(a_max, b_max)
    a_scale = tl.where(new_max == float("-inf"), 1.0, tl.exp(a_max - new_max))
    b_scale = tl.where(new_max == float("-inf"), 1.0, tl.exp(b_max - new_max))
    return new_max, a_sum * a_scale + b_sum * b_scale
''',
    "online_softmax_reduce": '''\
@triton.jit
def online_softmax_reduce(values_max, values_sum, dim, use_fast_math: tl.constexpr):
    """The maximum along a dimension, and the sum of exponentials relative to it."""
    largest = max2(values_max, dim)
    largest_wide = tl.expand_dims(largest, dim)
    scale = tl.where(values_max == float("-inf"), 0.0, tl.exp(values_max - largest_wide))
    return largest, tl.sum(values_sum * scale, dim)
''',
}
_NEEDS = {
    "max2": ("maximum",), "min2": ("minimum",), "any": ("either",), "prod": ("multiply",),
    "max_with_index": ("maximum_with_index",), "min_with_index": ("minimum_with_index",),
    "welford": ("welford_combine",), "online_softmax_combine": ("maximum",),
    "online_softmax_combine_with_sum": ("maximum",),
    "online_softmax_reduce": ("maximum", "max2"),
}  # fmt: skip


def replaced(body: list[ast.stmt]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace Inductor's helpers in place; return the helper functions to define and the imports.

    Raises:
        RefusalError: a helper has no plain form.
    """
    helpers, imports = dict[str, None](), dict[str, None]()
    # First, since a helper of `triton_helpers` becomes a plain name, which has no module.
    for each in body:
        for node in ast.walk(each):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                _replace_module(node, node.value, imports)
    found = _Helpers()
    for each in body:
        found.visit(each)
    for name in found.used:
        for needed in (*_NEEDS.get(name, ()), name):
            helpers[needed] = None
    # In the order of HELPERS, where each stands below those that it calls.
    return tuple(name for name in HELPERS if name in helpers), tuple(imports)


def _replace_module(node: ast.Attribute, module: ast.Name, imports: dict[str, None]) -> None:
    """Write a function of Inductor's math modules as one of Triton's."""
    match module.id:
        case "libdevice" if node.attr in _OF_TL:
            module.id = "tl"
        case "libdevice":
            imports["from triton.language.extra import libdevice"] = None
        case "tl_math" if node.attr in _MATH:
            module.id = "tl"
        # Inductor's `tl_math` is `tl.math` (_inductor/runtime/triton_compat.py, 2.13).
        case "tl_math":
            node.value = ast.parse("tl.math", mode="eval").body


class _Helpers(ast.NodeTransformer):
    """Replaces `triton_helpers.name` by the name of our own function."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "triton_helpers":
            if node.attr not in HELPERS:
                raise RefusalError(f"it calls Inductor's {node.attr}, which has no plain form in Triton", SEE_DUMP)
            self.used.append(node.attr)
            head = re.search(r"^def (\w+)", HELPERS[node.attr], re.MULTILINE)
            assert head is not None
            return ast.copy_location(ast.Name(head[1], ast.Load()), node)
        return self.generic_visit(node)  # type: ignore[return-value]
