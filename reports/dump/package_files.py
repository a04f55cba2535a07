"""Fill the templates of a package's files from the kernel that was taken out of a run."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage, EjectedPart
from ctrace.inspector.features.workshop.kernel_region import FUNCTIONS, RegionTensor
from ctrace.inspector.features.workshop.triton_helpers import HELPERS
from ctrace.inspector.install_folders import PACKAGES
from ctrace.reports.dump import package_cases
from ctrace.reports.dump.templates import rendered

NAMESPACE = "ejected"
CHECKS = PACKAGES / "inspector/features/workshop/child/checks.py"
"""What the commands check a kernel with; a package has a copy, since its tests do not need ctrace."""
_VIEWS = (
    "aten.view.", "aten.reshape.", "aten._unsafe_view.", "aten.permute.", "aten.transpose.", "aten.t.", "aten.expand.",
    "aten.unsqueeze.", "aten.squeeze.", "aten.slice.", "aten.select.", "aten.alias.",
)  # fmt: skip
"""Operators that may return the memory of their input."""


def package_files(package: EjectedPackage) -> dict[str, str]:
    """Return the text of each file of a package, by its name."""
    name = package.name
    fields: dict[str, object] = {"package": package, "name": name, **_tensors(package)}
    return {
        "__init__.py": rendered("package_init", **fields),
        **_kernel_files(package),
        "op.py": rendered("package_op", **fields, **_op(package)),
        "place.py": _place_file(package),
        "sources.py": rendered("package_sources"),
        "cases.py": rendered("package_cases", **fields, **_cases(package)),
        "checks.py": CHECKS.read_text(encoding="utf-8"),
        f"test_{name}.py": rendered("package_test", **_tests(package)),
        "bench.py": rendered("package_bench", **fields),
        "README.md": rendered("package_readme", **fields, code_lines=_code_lines(package)),
    }


class PackageTensor(Struct, frozen=True):
    """A tensor of the package, with its layout as Python."""

    name: str
    dtype: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    is_scalar: bool = False
    """Whether it has no dimension."""
    is_filled: bool = False
    """Whether `run_kernel` allocates it with a dimension that it does not have."""

    @property
    def shape(self) -> str:
        """Write the sizes as a tuple."""
        return _tuple(self.sizes)

    @property
    def stride(self) -> str:
        """Write the strides as a tuple."""
        return _tuple(self.strides)

    @property
    def layout(self) -> str:
        """Write the sizes and strides that `run_kernel` allocates."""
        if self.is_filled:
            return "(1,), (1,)"
        return f"{self.shape}, {self.stride}"

    @property
    def result(self) -> str:
        """Write what `run_kernel` returns."""
        if self.is_filled:
            return f"{self.name}.view(())"
        return self.name


def _tuple(expressions: tuple[str, ...]) -> str:
    if len(expressions) == 1:
        return f"({expressions[0]},)"
    return f"({', '.join(expressions)})"


def _tensors(package: EjectedPackage) -> dict[str, Any]:
    """Return the tensors of the package and what the op takes, as all files name them."""
    region = package.region
    is_triton = package.cpp is None
    inputs = [_tensor(package, each) for each in region.inputs]
    outputs = [_tensor(package, each, is_filled=is_triton and not each.shape) for each in region.outputs]
    passed = [each.name for each in package.sizes if not each.source]
    return {
        "namespace": NAMESPACE,
        "inputs": inputs,
        "outputs": outputs,
        "buffers": [*outputs, *(_tensor(package, each) for each in region.scratch)],
        "passed": passed,
        "arguments": ", ".join([*(each.name for each in inputs), *passed]),
    }


def _tensor(package: EjectedPackage, tensor: RegionTensor, *, is_filled: bool = False) -> PackageTensor:
    return PackageTensor(
        tensor.name,
        tensor.dtype,
        sizes=tuple(map(package.text, tensor.shape)),
        strides=tuple(map(package.text, tensor.stride)),
        is_scalar=not tensor.shape,
        is_filled=is_filled,
    )


def short(place: str) -> str:
    """Write `file:line` without the folders."""
    return place.replace("\\", "/").rpartition("/")[2]


def _kernel_files(package: EjectedPackage) -> dict[str, str]:
    if package.cpp is None:
        return {"kernel.py": _kernel_file(package)}
    loading = rendered("package_kernel_cpp", name=package.name, capability=package.cpp.capability)
    return {"kernel.py": loading, "kernel.cpp": package.cpp.source.strip("\n") + "\n"}


class KernelLine(Struct, frozen=True):
    """A line of a kernel, and the user's lines to name above it."""

    text: str
    places: tuple[str, ...] = ()

    @property
    def indent(self) -> str:
        """Return the white space at its start."""
        return self.text[: len(self.text) - len(self.text.lstrip())]


def _kernel_file(package: EjectedPackage) -> str:
    """Write the kernels, their helper functions and their configurations."""
    found = [part.triton for part in package.parts]
    used = {name for each in found for name in each.helpers}
    helpers = [helper.rstrip() for name, helper in HELPERS.items() if name in used]
    return rendered(
        "package_kernel",
        name=package.name,
        imports=list(dict.fromkeys(line for each in found for line in each.imports)),
        functions=[*helpers, *dict.fromkeys(function for triton in found for function in triton.functions)],
        kernels=[(part.name, part.triton, _keys(part), list(_body(package, part))) for part in package.parts],
    )


def _keys(part: EjectedPart) -> list[str]:
    """Return the sizes for whose values Triton chooses a configuration."""
    return [each for each in part.triton.parameters if not each.endswith("_ptr")]


def _body(package: EjectedPackage, part: EjectedPart) -> Iterator[KernelLine]:
    """Yield the lines of the body; above each group of lines, the user's lines that it comes from."""
    lines = {each.line: each.lines for each in part.kernel.statements}
    codes = _codes(package)
    above: tuple[str, ...] = ()
    for number, line in part.triton.body:
        places = lines.get(number, ())
        if not places or places == above:
            yield KernelLine(line)
            continue
        above = places
        yield KernelLine(
            line, tuple(f"{short(each)}: {codes[each]}" if each in codes else short(each) for each in places)
        )


def _codes(package: EjectedPackage) -> dict[str, str]:
    """Return the user's code, by `file:line`."""
    return {f"{step.at.file}:{step.at.line}": step.at.code for step in package.region.steps if step.at is not None}


def _op(package: EjectedPackage) -> dict[str, object]:
    """Return what only `op.py` says: the definition, and how the kernels are launched."""
    region, definition = package.region, package.definition
    names = [each.name for each in region.inputs]
    passed = [each.name for each in package.sizes if not each.source]
    is_view = all(step.target.startswith(_VIEWS) for step in region.steps)
    return {
        "where": "; ".join(map(short, package.lines)) or "lines not known",
        "first": names[0],
        "signature": ", ".join([*(f"{name}: Tensor" for name in names), *(f"{each}: int" for each in passed)]),
        "shapes": ", ".join([*(f"{name}_shape" for name in names), *passed]),
        "functions": [FUNCTIONS[each].rstrip() for each in definition.functions],
        "definition": list(_definition(package)),
        "copied": ".clone()" if is_view else "",  # an op must not return memory of its inputs
        "flops": " + ".join(_flops(definition.flops)) or "0",
        "wrapped": [f"wrap_triton({part.name})" for part in package.parts],
        "launches": [(part, [_programs(part, axis) for axis in _axes(part)]) for part in package.parts],
    }


def _definition(package: EjectedPackage) -> Iterator[tuple[str, str]]:
    """Yield each line of the definition with the user's line that it begins; empty: the same one as before."""
    above = None
    for line in package.definition.lines:
        place = ""
        if line.at is not None and line.at != above:
            place = f"{short(line.at.file)}:{line.at.line}: {line.at.code}"
            above = line.at
        yield place, line.text


def _flops(terms: tuple[str, ...]) -> Iterator[str]:
    for term in dict.fromkeys(terms):
        count = terms.count(term)
        yield f"{count} * {term}" if count > 1 else term


def _axes(part: EjectedPart) -> str:
    """Return the axes that count programs; empty of a C++ kernel."""
    return {"Grid1D": "x", "Grid2D": "xy", "Grid2DWithYZOverflow": "xy", "Grid3D": "xyz"}.get(part.triton.grid, "")


def _programs(part: EjectedPart, axis: str) -> str:
    """Write the number of programs along an axis, from the block sizes."""
    block = f"{axis.upper()}BLOCK"
    length = part.numels.get(f"{axis}numel", "1")
    if block in part.triton.blocks:
        return f'triton.cdiv({length}, meta["{block}"])'
    fixed = part.triton.fixed.get(block, 1)
    if fixed != 1:
        return f"triton.cdiv({length}, {fixed})"
    return length


def _place_file(package: EjectedPackage) -> str:
    """Write the matcher with its pattern."""
    region = package.region
    return rendered(
        "package_place",
        name=package.name,
        namespace=NAMESPACE,
        inputs=[(each.name, each.dtype, _sizes(package, each.shape)) for each in region.inputs],
        sizes={each.name: _place(each.source) for each in package.sizes},
        outputs=[(each.name, _sizes(package, each.shape)) for each in region.outputs],
        steps=package.definition.pattern,
    )


def _sizes(package: EjectedPackage, shape: Iterable[str]) -> list[int | str]:
    texts = map(package.text, shape)
    return [int(each) if each.isdigit() else each for each in texts]


def _place(source: str) -> tuple[str, int] | None:
    """Return the input and the dimension of an expression such as `x.shape[0]`."""
    if not source:
        return None
    name, _, rest = source.partition(".shape[")
    return name, int(rest.rstrip("]"))


def _cases(package: EjectedPackage) -> Mapping[str, object]:
    return {
        "symbols": [each.name for each in package.sizes],
        "rows": package_cases.sizes_to_check(package),
        "below": package_cases.integer_bounds(package),
        "has_small": package_cases.has_small(package),
        "has_maximum": package_cases.has_maximum(package),
    }


def _tests(package: EjectedPackage) -> Mapping[str, object]:
    is_triton = package.cpp is None
    return {
        "name": package.name,
        "is_interpretable": is_triton and not any(part.triton.imports for part in package.parts),
        "keeps_float64": package_cases.keeps_float64(package),
        "device": "cuda" if is_triton else "cpu",
    }


def _code_lines(package: EjectedPackage) -> list[str]:
    """Return the user's code of the first lines that the op computes."""
    codes = _codes(package)
    return [codes.get(place, short(place)) for place in package.lines[:3]]
