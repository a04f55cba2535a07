"""How much arithmetic a GPU can do at most: operations a second, by compute capability, number format and clock.

Source of what a multiprocessor does in a cycle: NVIDIA's white papers on Volta, Turing, Ampere (GA100 and GA102), Ada
and Hopper, held against the data sheets of T4, V100, A100, A10, L4, L40S and H100. Without sparsity; a product
and a sum count as two operations. The clock is the highest that the driver tells: a bound, not what is usual.
"""

from collections.abc import Iterable

from ctrace.inspector.built import Gpu

_VECTOR: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float32": 128, "float64": 64},
    (7, 5): {"float32": 128, "float64": 4},
    (8, 0): {"float32": 128, "float64": 64},
    (8, 6): {"float32": 256, "float64": 4},
    (8, 9): {"float32": 256, "float64": 4},
    (9, 0): {"float32": 256, "float64": 128},
}
"""Operations of a multiprocessor in a cycle, of its ordinary units; Triton takes short formats as float32 there."""
_MATRIX: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float16": 1024},
    (7, 5): {"float16": 1024},
    (8, 0): {"float16": 2048, "bfloat16": 2048, "tf32": 1024, "float64": 128},
    (8, 6): {"float16": 1024, "bfloat16": 1024, "tf32": 512},
    (8, 9): {"float16": 1024, "bfloat16": 1024, "tf32": 512, "float8": 2048},
    (9, 0): {"float16": 4096, "bfloat16": 4096, "tf32": 2048, "float8": 8192, "float64": 256},
}
"""The same of its units for products of matrices."""


def most_operations(gpu: Gpu, dtypes: Iterable[str], *, products: bool, tf32: bool) -> float | None:
    """Give the most operations a second on values of these formats; None: not known.

    `products`: units for products of matrices may be used, and those for float32 that keep fewer bits with `tf32`.
    """
    capability = gpu.multiprocessor.capability
    vector, matrix = _VECTOR.get(capability), _MATRIX.get(capability, {})
    if vector is None or gpu.clock is None:
        return None
    found = [_of_vector(vector, dtype) for dtype in dtypes if dtype.startswith(("float", "bfloat"))]
    if products:
        found += [_of_matrix(matrix, dtype, tf32=tf32) for dtype in dtypes]
    return max(found, default=0) * gpu.processors * gpu.clock or None


def _of_vector(rates: dict[str, int], dtype: str) -> int:
    return rates.get("float64" if dtype == "float64" else "float32", 0)


def _of_matrix(rates: dict[str, int], dtype: str, *, tf32: bool) -> int:
    if dtype == "float32":
        return rates.get("tf32", 0) if tf32 else 0
    return rates.get("float8" if dtype.startswith("float8") else dtype, 0)
