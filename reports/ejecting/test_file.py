"""Write `cases.py` and `test_<op>.py`: what a package is checked on, and its tests, which need nothing beside it."""

import math
from collections.abc import Mapping

from ctrace.inspector.features.workshop.ejecting.expressions import symbols_of, value
from ctrace.inspector.features.workshop.ejecting.package import Package
from ctrace.reports.dump.signatures import bounds
from ctrace.reports.ejecting.op_file import shape
from ctrace.reports.ejecting.texts import text


def cases_file(package: Package) -> str:
    """Write the cases."""
    fields = {
        "NAME": package.name,
        "INPUTS": "\n".join(_inputs(package)),
        "SIZES": "\n".join(_sizes(package)),
        "SYMBOLS": ", ".join(each.name for each in package.sizes) or "*_",
        "SET": "".join(f'    {each.name} = sizes["{each.name}"]\n' for each in package.sizes),
        "PASSED": ", ".join(each.name for each in package.sizes if not each.source),
        "SMALL": repr(_has_small(package)),
        "MAXIMUM": repr(_has_maximum(package)),
    }
    return _filled("cases", fields)


def test_file(package: Package) -> str:
    """Write the tests."""
    fields = {
        "NAME": package.name,
        "INTERPRETABLE": repr(package.cpp is None and not any(part.triton.imports for part in package.parts)),
        "DEVICE": "cuda" if package.cpp is None else "cpu",
        "GRADCHECK": repr(_is_smooth(package)),
    }
    return _filled("test", fields)


def _filled(name: str, fields: Mapping[str, str]) -> str:
    written = text(name)
    for field, content in fields.items():
        written = written.replace(f"${field}$", content)
    return written


def _inputs(package: Package) -> list[str]:
    below: dict[str, int] = {}
    for part, pointers in zip(package.parts, package.region.pointers, strict=True):
        limits = bounds(part.kernel.source)
        for pointer, (read, _) in pointers.items():
            if pointer in limits and read:
                below[read] = min(limits[pointer], below.get(read, limits[pointer]))
    return [
        f'        ("{each.name}", torch.{each.dtype}, {shape(package, each.shape)}, {shape(package, each.stride)}, '
        f"{below.get(each.name, 2)}),"
        for each in package.region.inputs
    ]


_LONG = 1 << 13
"""A length that is larger than constants that a kernel of one loop may contain by mistake, such as a mask's."""
_MOST_VALUES = 1 << 17
"""The most values of a tensor in a size that nobody asked for: Triton's interpreter is to run it in a second or so."""


def _sizes(package: Package) -> list[str]:
    """Choose sizes: that of the run, small ones, odd ones that no block divides, and several blocks with a rest."""
    if not package.sizes:
        return ["    {},"]
    hints = {each.name: max(each.hint, 2) for each in package.sizes}
    if _is_divided(package):  # only multiples are known to fit
        rows = [{name: hint * times for name, hint in hints.items()} for times in (1, 2, 3)]
    else:
        least = 2 if any("int" in each.dtype for each in package.region.inputs) else 1  # an index is 0 or 1
        rows = [
            hints,
            {name: 3 + 2 * at for at, name in enumerate(hints)},
            dict.fromkeys(hints, least),
            {name: (hint + 13 + 4 * at) | 1 for at, (name, hint) in enumerate(hints.items())},
        ]
        rows.append(_several_blocks(package, rows[-1]))
    for row in rows:
        row |= {each.name: 0 for each in package.sizes if not each.hint}  # the op covers no other value
    return [f"    {row!r}," for row in {str(row): row for row in rows}.values()]


def _is_divided(package: Package) -> bool:
    texts = [each for part in package.parts for _, each in (*part.call.numels, *part.call.sizes)]
    texts += [
        size for each in (*package.region.inputs, *package.region.outputs) for size in (*each.shape, *each.stride)
    ]
    return any("//" in each or "%" in each for each in texts)


def _several_blocks(package: Package, start: Mapping[str, int]) -> dict[str, int]:
    """Double odd sizes until each loop is longer than its largest block, or a tensor is too large."""
    sizes = dict(start)
    while (name := _too_short(package, sizes)) is not None:
        grown = {**sizes, name: 2 * sizes[name] + 1}
        if _values(package, grown) > _MOST_VALUES:
            break
        sizes = grown
    return sizes


def _too_short(package: Package, sizes: Mapping[str, int]) -> str | None:
    """Return a size of a loop that one block may cover: of a loop of one dimension, that four blocks may."""
    for part in package.parts:
        blocks = [*(each.blocks for each in part.triton.configs), part.triton.fixed]
        loops = {name: length for name, length in part.numels.items() if length != "1"}
        for loop, length in loops.items():
            largest = max(each.get(f"{loop.removesuffix('numel').upper()}BLOCK", 1) for each in blocks)
            wanted = max(largest * 4, _LONG) if len(loops) == 1 else largest
            own = [name for name in symbols_of(length) if name in sizes]
            if own and (value(length, sizes) or 0) <= wanted:
                return min(own, key=lambda name: sizes[name])
    return None


def _values(package: Package, sizes: Mapping[str, int]) -> float:
    """Return how many values the largest tensor has."""
    tensors = (*package.region.inputs, *package.region.outputs, *package.region.scratch)
    return max(math.prod(value(package.text(size), sizes) or 0 for size in each.shape) for each in tensors)


def _is_smooth(package: Package) -> bool:
    """Whether the definition keeps float64: it casts to no other dtype."""
    return not any("torch.float" in line.text or "torch.bfloat" in line.text for line in package.definition.lines)


_EXACT = frozenset(("eq", "ne", "argmax", "argmin", "max", "min", "sort", "topk", "floor", "ceil", "round", "trunc"))
"""Operators whose result jumps where two values are nearly equal, as small ones are after a sigmoid."""


def _has_small(package: Package) -> bool:
    """Whether values near 0.001 give results that rounding does not change: no float16, and no choice among values."""
    dtypes = [each.dtype for each in (*package.region.inputs, *package.region.outputs)]
    ops = {step.target.split(".")[1] for step in package.region.steps if "." in step.target}
    return "float16" not in dtypes and not any(each in _EXACT or "max_pool" in each for each in ops)


_MAXIMA = ("aten.amax.", "aten._softmax.", "aten._log_softmax.", "aten.logsumexp.", "prims.prepare_softmax_online.")
"""Operators that a softmax starts with: the result does not depend on the maximum, unless `exp` overflows."""


def _has_maximum(package: Package) -> bool:
    """Whether the region subtracts a row's maximum, for values that float16 would not overflow with."""
    dtypes = [each.dtype for each in (*package.region.inputs, *package.region.outputs)]
    return "float16" not in dtypes and any(step.target.startswith(_MAXIMA) for step in package.region.steps)
