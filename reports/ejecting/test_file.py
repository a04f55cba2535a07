"""Write `test_<op>.py`: pytest tests of the package, which need nothing beside it."""

from ctrace.inspector.ejecting.package import Package
from ctrace.reports.dump.signatures import bounds
from ctrace.reports.ejecting.op_file import shape
from ctrace.reports.ejecting.texts import text


def test_file(package: Package) -> str:
    """Write the tests."""
    fields = {
        "NAME": package.name,
        "INPUTS": "\n".join(_inputs(package)),
        "SIZES": "\n".join(_sizes(package)),
        "SYMBOLS": ", ".join(each.name for each in package.sizes) or "*_",
        "SET": "".join(f'    {each.name} = sizes["{each.name}"]\n' for each in package.sizes),
        "PASSED": ", ".join(each.name for each in package.sizes if not each.source),
        "INTERPRETABLE": repr(package.cpp is None and not any(part.triton.imports for part in package.parts)),
        "DEVICE": "cuda" if package.cpp is None else "cpu",
        "GRADCHECK": repr(_is_smooth(package)),
        "SMALL": repr(_has_small(package)),
        "MAXIMUM": repr(_has_maximum(package)),
    }
    written = text("test")
    for name, value in fields.items():
        written = written.replace(f"${name}$", value)
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


def _sizes(package: Package) -> list[str]:
    """Choose three sizes: that of the run, a small one, and one that no block size divides."""
    if not package.sizes:
        return ["    {},"]
    texts = [each for part in package.parts for _, each in (*part.call.numels, *part.call.sizes)]
    texts += [
        size for each in (*package.region.inputs, *package.region.outputs) for size in (*each.shape, *each.stride)
    ]
    is_divided = any("//" in each or "%" in each for each in texts)
    rows = []
    for change in range(3):
        row = {}
        for at, each in enumerate(package.sizes):
            hint = max(each.hint, 2)
            row[each.name] = (
                (hint, hint * 2, hint * 3)[change] if is_divided else (hint, 3 + at, hint + 13 + 4 * at)[change]
            )
            if not each.hint:  # the op covers no other value
                row[each.name] = 0
        rows.append(f"    {row!r},")
    return rows


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
