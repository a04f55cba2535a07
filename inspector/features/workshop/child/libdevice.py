"""CPU code for CUDA's math library, which Triton's interpreter lacks: its functions return nothing there.

A value in the interpreter is a `tl.tensor` around a `TensorHandle` with a NumPy array (3.6 and 3.7,
triton/runtime/interpreter.py). NumPy computes in the array's dtype, as the library does.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched

_NUMPY = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "ceil": "ceil", "copysign": "copysign", "cos": "cos", "cosh": "cosh", "exp": "exp",
    "exp2": "exp2", "expm1": "expm1", "floor": "floor", "fmod": "fmod", "hypot": "hypot", "log": "log",
    "log10": "log10", "log1p": "log1p", "log2": "log2", "pow": "power", "rint": "rint", "nearbyint": "rint",
    "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
"""Functions of the library, and NumPy's names for them."""
_ELEMENTWISE: dict[str, Callable[[float], float]] = {"erf": math.erf, "erfc": math.erfc}


@contextmanager
def on_cpu() -> Iterator[None]:
    """Let kernels in the interpreter call the library in the block."""
    import numpy
    from triton.language.extra import libdevice

    functions = {name: getattr(numpy, of) for name, of in _NUMPY.items()}
    functions |= {name: numpy.vectorize(of, otypes=[float]) for name, of in _ELEMENTWISE.items()}
    functions["rsqrt"] = lambda x: 1 / numpy.sqrt(x)
    with ExitStack() as patches:
        for name, function in functions.items():
            if hasattr(libdevice, name):
                patches.enter_context(patched(libdevice, name, _interpreted(function)))
        yield


def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any, _semantic: Any = None, _builder: Any = None) -> Any:
        import numpy
        from triton import language as tl
        from triton.runtime.interpreter import TensorHandle

        first = next(each for each in values if isinstance(each, tl.tensor))
        arrays = [each.handle.data if isinstance(each, tl.tensor) else each for each in values]
        with numpy.errstate(all="ignore"):
            found = numpy.asarray(function(*arrays)).astype(first.handle.data.dtype)
        return tl.tensor(TensorHandle(found, first.handle.dtype), first.type)

    return call
