"""Choose what an ejected kernel is checked on: sizes, the largest integers, and which unusual values make sense."""

import math
from collections.abc import Mapping

from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage
from ctrace.inspector.features.workshop.size_expressions import symbols_of, value
from ctrace.reports.dump.kernel_parameters import bounds


def integer_bounds(package: EjectedPackage) -> dict[str, int]:
    """Return the exclusive upper bound of each input's integers, if a kernel shows it."""
    below: dict[str, int] = {}
    for part, pointers in zip(package.parts, package.region.pointers, strict=True):
        limits = bounds(part.kernel.source)
        for pointer, (read, _) in pointers.items():
            if pointer in limits and read:
                below[read] = min(limits[pointer], below.get(read, limits[pointer]))
    return below


_LONG = 1 << 13
"""A length that is larger than constants that a kernel of one loop may contain by mistake, such as a mask's."""
_MOST_VALUES = 1 << 17
"""The most values of a tensor in a size that nobody asked for: Triton's interpreter is to run it in a second or so."""


def sizes_to_check(package: EjectedPackage) -> list[dict[str, int]]:
    """Choose sizes: that of the run, small ones, odd ones that no block divides, and several blocks with a rest."""
    if not package.sizes:
        return [{}]
    hints = {each.name: max(each.hint, 2) for each in package.sizes}
    if _is_divided(package):  # only multiples are known to fit
        rows = [{name: hint * times for name, hint in hints.items()} for times in (1, 2, 3)]
    else:
        least = 1
        if any("int" in each.dtype for each in package.region.inputs):
            least = 2  # an index is 0 or 1
        rows = [
            hints,
            {name: 3 + 2 * at for at, name in enumerate(hints)},
            dict.fromkeys(hints, least),
            {name: (hint + 13 + 4 * at) | 1 for at, (name, hint) in enumerate(hints.items())},
        ]
        rows.append(_several_blocks(package, rows[-1]))
    for row in rows:
        row |= {each.name: 0 for each in package.sizes if not each.hint}  # the op covers no other value
    return list({str(row): row for row in rows}.values())


def _is_divided(package: EjectedPackage) -> bool:
    texts = [each for part in package.parts for _, each in (*part.call.numels, *part.call.sizes)]
    texts += [
        size for each in (*package.region.inputs, *package.region.outputs) for size in (*each.shape, *each.stride)
    ]
    return any("//" in each or "%" in each for each in texts)


def _several_blocks(package: EjectedPackage, start: Mapping[str, int]) -> dict[str, int]:
    """Double odd sizes until each loop is longer than its largest block, or a tensor is too large."""
    sizes = dict(start)
    while (name := _too_short(package, sizes)) is not None:
        grown = {**sizes, name: 2 * sizes[name] + 1}
        if _values(package, grown) > _MOST_VALUES:
            break
        sizes = grown
    return sizes


def _too_short(package: EjectedPackage, sizes: Mapping[str, int]) -> str | None:
    """Return a size of a loop that one block may cover: of a loop of one dimension, that four blocks may."""
    for part in package.parts:
        blocks = [*(each.blocks for each in part.triton.configs), part.triton.fixed]
        loops = {name: length for name, length in part.numels.items() if length != "1"}
        for loop, length in loops.items():
            largest = max(each.get(f"{loop.removesuffix('numel').upper()}BLOCK", 1) for each in blocks)
            wanted = largest
            if len(loops) == 1:
                wanted = max(largest * 4, _LONG)
            own = [name for name in symbols_of(length) if name in sizes]
            if own and (value(length, sizes) or 0) <= wanted:
                return min(own, key=lambda name: sizes[name])
    return None


def _values(package: EjectedPackage, sizes: Mapping[str, int]) -> float:
    """Return how many values the largest tensor has."""
    tensors = (*package.region.inputs, *package.region.outputs, *package.region.scratch)
    return max(math.prod(value(package.text(size), sizes) or 0 for size in each.shape) for each in tensors)


def keeps_float64(package: EjectedPackage) -> bool:
    """Whether the definition keeps float64: it casts to no other dtype."""
    return not any("torch.float" in line.text or "torch.bfloat" in line.text for line in package.definition.lines)


_EXACT = frozenset(("eq", "ne", "argmax", "argmin", "max", "min", "sort", "topk", "floor", "ceil", "round", "trunc"))
"""Operators whose result jumps where two values are nearly equal, as small ones are after a sigmoid."""


def has_small(package: EjectedPackage) -> bool:
    """Whether values near 0.001 give results that rounding does not change: no float16, and no choice among values."""
    dtypes = [each.dtype for each in (*package.region.inputs, *package.region.outputs)]
    ops = {step.target.split(".")[1] for step in package.region.steps if "." in step.target}
    return "float16" not in dtypes and not any(each in _EXACT or "max_pool" in each for each in ops)


_MAXIMA = ("aten.amax.", "aten._softmax.", "aten._log_softmax.", "aten.logsumexp.", "prims.prepare_softmax_online.")
"""Operators that a softmax starts with: the result does not depend on the maximum, unless `exp` overflows."""


def has_maximum(package: EjectedPackage) -> bool:
    """Whether the region subtracts a row's maximum, for values that float16 would not overflow with."""
    dtypes = [each.dtype for each in (*package.region.inputs, *package.region.outputs)]
    return "float16" not in dtypes and any(step.target.startswith(_MAXIMA) for step in package.region.steps)
