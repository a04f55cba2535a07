"""Peak arithmetic rates of GPUs in operations per second, by compute capability, number format and clock.

Sources of the operations per cycle and multiprocessor: NVIDIA's white papers on Volta, Turing, Ampere (GA100 and
GA102), Ada and Hopper, checked against the data sheets of T4, V100, A100, A10, L4, L40S and H100; for Blackwell, the
data sheet of HGX B200 and XLA's specification (xla/backends/gpu/target_config/specs/b200.txtpb). Rates are without
sparsity; a multiply-add counts as two operations. The clock is the maximum that the driver reports: an upper bound, not
a typical value.
"""

from collections.abc import Iterable

from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.knowledge.gpus.gpu import FORMATS

_VECTOR: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float32": 128, "float64": 64},
    (7, 5): {"float32": 128, "float64": 4},
    (8, 0): {"float32": 128, "float64": 64},
    (8, 6): {"float32": 256, "float64": 4},
    (8, 9): {"float32": 256, "float64": 4},
    (9, 0): {"float32": 256, "float64": 128},
    (10, 0): {"float32": 256, "float64": 128},
}
"""Operations per cycle of a multiprocessor's vector units; there, Triton computes shorter formats as float32."""
_MATRIX: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float16": 1024},
    (7, 5): {"float16": 1024},
    (8, 0): {"float16": 2048, "bfloat16": 2048, "tf32": 1024, "float64": 128},
    (8, 6): {"float16": 1024, "bfloat16": 1024, "tf32": 512},
    (8, 9): {"float16": 1024, "bfloat16": 1024, "tf32": 512, "float8": 2048},
    (9, 0): {"float16": 4096, "bfloat16": 4096, "tf32": 2048, "float8": 8192, "float64": 256},
    (10, 0): {"float16": 8192, "bfloat16": 8192, "tf32": 4096, "float8": 16384, "float64": 128},
}
"""Operations per cycle of a multiprocessor's Tensor Cores."""


def most_operations(gpu: Gpu, dtypes: Iterable[str], *, products: bool, tf32: bool) -> float | None:
    """Return the peak operations per second on values of these formats, or None if not known.

    A value from a data sheet takes precedence over one computed from units and clock. With `products`, Tensor Cores
    count; with `tf32`, they also count for float32.
    """
    found: list[float | None] = []
    for dtype in dtypes:
        if dtype.startswith(("float", "bfloat")):
            found.append(vector_rate(gpu, "float64" if dtype == "float64" else "float32"))
        if products and (format_ := _format(dtype, tf32=tf32)):
            found.append(matrix_rate(gpu, format_))
    if None in found:
        return None
    return max((rate for rate in found if rate is not None), default=0) or None


def matrix_rate(gpu: Gpu, format_: str) -> float | None:
    """Return the peak operations per second of the Tensor Cores; 0 if the GPU has none, None if not known."""
    if format_ in gpu.rates:
        return gpu.rates[format_]
    return _computed(_MATRIX, gpu, format_)


def vector_rate(gpu: Gpu, format_: str) -> float | None:
    """Return the peak operations per second of the vector units, or None if not known."""
    if format_ in gpu.vector_rates:
        return gpu.vector_rates[format_]
    return _computed(_VECTOR, gpu, format_)


def peaks_by(gpu: Gpu) -> str:
    """Describe where the peak rates come from."""
    if not gpu.rates and not gpu.vector_rates:
        return "its units and clock"
    return "the data sheet, and its units and clock for formats that the sheet omits"


def _computed(units: dict[tuple[int, int], dict[str, int]], gpu: Gpu, format_: str) -> float | None:
    of_one = units.get(gpu.capability)
    if of_one is None or gpu.clock is None:
        return None
    return of_one.get(format_, 0) * gpu.processors * gpu.clock


def _format(dtype: str, *, tf32: bool) -> str:
    """Return the Tensor Core format for a dtype; empty if they do not support it."""
    if dtype == "float32":
        return "tf32" if tf32 else ""
    if dtype.startswith("float8"):
        return "float8"
    return dtype if dtype in FORMATS else ""
