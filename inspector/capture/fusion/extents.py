"""Find which elements of a buffer an access touches, and how many they are.

Patterns of equal elements are equal, however the loops over them are split or ordered. Counts are exact for sums of
`stride * variable` (even if windows overlap), and upper bounds for indices that depend on data or divide.
"""

from collections.abc import Hashable, Iterable
from math import prod
from typing import Any

from msgspec import Struct


class ElementSet(Struct, frozen=True):
    """A set of elements of a buffer."""

    key: Hashable
    elements: int


def hint(expr: Any) -> int:
    """Return a size as a number: for a symbol, the size when the graph was compiled, or torch's guess."""
    from torch._inductor.virtualized import V

    if isinstance(expr, int) or expr.is_Integer:
        return int(expr)
    return int(V.graph.sizevars.optimization_hint(expr))


def of_layout(size: Iterable[Any], stride: Iterable[Any], offset: Any) -> ElementSet:
    """Return the elements of a strided tensor; dimensions with stride 0 count once."""
    dims = [(hint(step), hint(count)) for step, count in zip(stride, size, strict=True)]
    return _strided(hint(offset), dims)


def of_dep(dep: Any, within: str) -> ElementSet:
    """Return the elements of a `MemoryDep`; `within` distinguishes data-dependent places."""
    import sympy  # sympy comes with torch; a program without torch must not wait for the import

    sizes = {name: hint(size) for name, size in zip(dep.var_names, dep.size, strict=True)}
    index = sympy.sympify(dep.index)
    symbols = index.free_symbols - set(sizes)
    if dep.is_indirect():
        return ElementSet((within, index, dep.size), prod(sizes.values()))
    index = index.xreplace({symbol: sympy.Integer(hint(symbol)) for symbol in symbols})
    affine = _affine(index, sizes)
    if affine is None:
        used = {name: size for name, size in sizes.items() if name in index.free_symbols}
        return ElementSet((index, tuple(used.items())), prod(used.values()))
    return _strided(*affine)


def _affine(index: Any, sizes: dict[Any, int]) -> tuple[int, list[tuple[int, int]]] | None:
    """Split `8*d0 + d1 + 3` into an offset and (stride, size) pairs; return None for another form."""
    from sympy import Add

    offset, dims = 0, []
    for term in Add.make_args(index):
        factor, variable = term.as_coeff_Mul()
        if not factor.is_Integer:
            return None
        if variable in sizes:
            dims.append((int(factor), sizes[variable]))
        elif variable == 1:
            offset += int(factor)
        else:
            return None
    return offset, dims


def _strided(offset: int, dims: list[tuple[int, int]]) -> ElementSet:
    if any(size == 0 for _, size in dims):
        return ElementSet(0, 0)
    # A loop that runs backwards touches the same elements; counted from its lowest address, its key is the same.
    offset += sum(stride * (size - 1) for stride, size in dims if stride < 0)
    merged = _merged(dims)
    return ElementSet((offset, merged), prod(size for _, size in merged))


def _merged(dims: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge dimensions that continue or overlap each other: 3 windows of 5 with stride 2 are 9 elements."""
    merged: list[tuple[int, int]] = []
    # Smallest stride first, since a dimension can only continue one that is denser.
    for stride, size in sorted((abs(stride), size) for stride, size in dims if stride and size > 1):
        step, count = merged[-1] if merged else (0, 0)
        if step and stride % step == 0 and stride <= step * count:
            merged[-1] = (step, count + (size - 1) * (stride // step))
        else:
            merged.append((stride, size))
    return tuple(merged)
