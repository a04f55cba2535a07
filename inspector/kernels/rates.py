"""How much arithmetic a GPU can do at most: operations a second, by compute capability, number format and clock.

Source of what a multiprocessor does in a cycle: NVIDIA's white papers on Volta, Turing, Ampere (GA100 and GA102), Ada
and Hopper, held against the data sheets of T4, V100, A100, A10, L4, L40S and H100; of Blackwell, the data sheet of
HGX B200 and what XLA notes of its units (xla/backends/gpu/target_config/specs/b200.txtpb). Without sparsity; a product
and a sum count as two operations. The clock is the highest that the driver tells: a bound, not what is usual.
"""

from collections.abc import Iterable

from ctrace.inspector.gpus.gpu import FORMATS
from ctrace.inspector.model.built import Gpu

_VECTOR: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float32": 128, "float64": 64},
    (7, 5): {"float32": 128, "float64": 4},
    (8, 0): {"float32": 128, "float64": 64},
    (8, 6): {"float32": 256, "float64": 4},
    (8, 9): {"float32": 256, "float64": 4},
    (9, 0): {"float32": 256, "float64": 128},
    (10, 0): {"float32": 256, "float64": 128},
}
"""Operations of a multiprocessor in a cycle, of its ordinary units; Triton takes short formats as float32 there."""
_MATRIX: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float16": 1024},
    (7, 5): {"float16": 1024},
    (8, 0): {"float16": 2048, "bfloat16": 2048, "tf32": 1024, "float64": 128},
    (8, 6): {"float16": 1024, "bfloat16": 1024, "tf32": 512},
    (8, 9): {"float16": 1024, "bfloat16": 1024, "tf32": 512, "float8": 2048},
    (9, 0): {"float16": 4096, "bfloat16": 4096, "tf32": 2048, "float8": 8192, "float64": 256},
    (10, 0): {"float16": 8192, "bfloat16": 8192, "tf32": 4096, "float8": 16384, "float64": 128},
}
"""The same of its units for products of matrices."""


def most_operations(gpu: Gpu, dtypes: Iterable[str], *, products: bool, tf32: bool) -> float | None:
    """Give the most operations a second on values of these formats; None: not known.

    What the maker tells of the GPU goes before what its units and clock amount to. `products`: units for products of
    matrices may be used, and those for float32 that keep fewer bits with `tf32`.
    """
    found: list[float | None] = []
    for dtype in dtypes:
        if dtype.startswith(("float", "bfloat")):
            found.append(vector_rate(gpu, "float64" if dtype == "float64" else "float32"))
        if products and (format_ := _format(dtype, tf32=tf32)):
            found.append(matrix_rate(gpu, format_))
    return None if None in found else max((rate for rate in found if rate is not None), default=0) or None


def matrix_rate(gpu: Gpu, format_: str) -> float | None:
    """Give the most operations a second of the units for products of matrices; 0: it has none; None: not known."""
    return gpu.rates[format_] if format_ in gpu.rates else _computed(_MATRIX, gpu, format_)


def vector_rate(gpu: Gpu, format_: str) -> float | None:
    """Give the most operations a second of the ordinary units; None: not known."""
    return gpu.vector_rates[format_] if format_ in gpu.vector_rates else _computed(_VECTOR, gpu, format_)


def peaks_by(gpu: Gpu) -> str:
    """Say what the most operations a second rest on."""
    if not gpu.rates and not gpu.vector_rates:
        return "its units and clock"
    return "the data sheet; what that does not name, by its units and clock"


def _computed(units: dict[tuple[int, int], dict[str, int]], gpu: Gpu, format_: str) -> float | None:
    of_one = units.get(gpu.multiprocessor.capability)
    if of_one is None or gpu.clock is None:
        return None
    return of_one.get(format_, 0) * gpu.processors * gpu.clock


def _format(dtype: str, *, tf32: bool) -> str:
    """Name a format as the units for products of matrices do; empty: they do not take it."""
    if dtype == "float32":
        return "tf32" if tf32 else ""
    return "float8" if dtype.startswith("float8") else dtype if dtype in FORMATS else ""
