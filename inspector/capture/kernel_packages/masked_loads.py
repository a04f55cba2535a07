"""Give what a masked load does not read a value that shows: on a GPU it may be any, in Triton's interpreter it is zero.

A kernel that needs `other=` or `tl.where` and lacks it is right in the interpreter, and wrong on a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched

_INTEGER = 113
_BFLOAT16_NAN = 0x7FC0
"""NaN as the interpreter keeps it: a bfloat16 is an integer there (3.6 and 3.7, triton/runtime/interpreter.py)."""


@contextmanager
def undefined() -> Iterator[None]:
    """Let masked loads without `other` give NaN, and integers other than zero, in the block."""
    from triton.runtime.interpreter import InterpreterBuilder

    original = InterpreterBuilder.create_masked_load

    def load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        return original(self, ptrs, mask, _filled(ptrs) if other is None else other, *rest, **named)

    with patched(InterpreterBuilder, "create_masked_load", load):
        yield


def _filled(pointers: Any) -> Any:
    import numpy
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    kind = pointers.get_element_ty()
    dtype = numpy.dtype(_get_np_dtype(kind))
    value: float = float("nan") if dtype.kind == "f" else _BFLOAT16_NAN if kind.is_bf16() else _INTEGER
    return TensorHandle(numpy.full_like(pointers.data, value, dtype=dtype), kind)
