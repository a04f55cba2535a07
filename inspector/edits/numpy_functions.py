"""Functions of Python for those of NumPy: what Python's numbers need, for which NumPy returns arrays.

Both advice and repairs write what stands here. Which calls have numbers only is their own question: advice tries its
edit, and a repair has to know by reading.
"""

from ctrace.inspector.knowledge.counting import words

REPLACEMENTS = {
    "sum": "sum", "max": "max", "min": "min", "amax": "max", "amin": "min", "abs": "abs", "absolute": "abs",
    "prod": "math.prod", "ceil": "math.ceil", "floor": "math.floor", "sqrt": "math.sqrt", "log": "math.log",
    "log2": "math.log2", "log10": "math.log10", "exp": "math.exp", "lcm": "math.lcm", "gcd": "math.gcd",
    "int64": "int", "int32": "int", "power": "pow", "maximum": "max", "minimum": "min",
}  # fmt: skip
"""Python's functions for plain numbers, keyed by NumPy function."""
ROUNDING = words("ceil floor")
"""Functions that return a float in NumPy and an integer in Python."""
_OF_TWO = words("lcm gcd power maximum minimum")


def in_python(name: str, arguments: list[str], *, math: str = "math", is_made_int: bool = False) -> str:
    """Return Python's call for NumPy's function `name`; empty: there is none, or not with so many arguments.

    Args:
        name: NumPy's function.
        arguments: the arguments as written.
        math: the file's name for the module `math`.
        is_made_int: whether the result goes into `int()`, for which what is rounded need not be a float.
    """
    # `np.max(x, 0)` has an axis, where Python's `max(x, 0)` compares two values.
    number = 2 if name in _OF_TWO else 1
    if name not in REPLACEMENTS or len(arguments) != number:
        return ""
    function = REPLACEMENTS[name]
    if function.startswith("math."):
        function = f"{math}.{function.removeprefix('math.')}"
    call = f"{function}({', '.join(arguments)})"
    if name in ROUNDING and not is_made_int:
        # Python's integer would make `x * np.ceil(n)` a tensor of integers where `x` is one.
        return f"float({call})"
    return call
