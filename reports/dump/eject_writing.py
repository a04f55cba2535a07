"""Write packages of ejected kernels into a folder; never overwrite a file that was changed.

A package has `kernel.py`, the kernel as plain Triton; `op.py`, the operator around it with its definition in PyTorch
operators, its gradient and its FLOPs; `place.py` (the region as data, and what finds and replaces it in graphs that
torch.compile makes), `cases.py` and `test_<op>.py` (what it is checked on; the tests need nothing beside them), and
`README.md`.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from ctrace.inspector.errors import DumpError
from ctrace.inspector.facts.kernel_facts import Kernel
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage, EjectedPart, Size
from ctrace.inspector.features.workshop.kernel_region import FUNCTIONS, RegionTensor
from ctrace.inspector.features.workshop.size_expressions import symbols_of, value
from ctrace.inspector.features.workshop.triton_helpers import HELPERS
from ctrace.inspector.findings.target_gpu_view import TargetDevice, target_of
from ctrace.inspector.install_folders import PACKAGES
from ctrace.inspector.version import __version__
from ctrace.reports import format as fmt
from ctrace.reports.dump.dump_folder import Folder
from ctrace.reports.dump.module import bounds, comment
from ctrace.reports.dump.texts import text


def kernel_file(package: EjectedPackage) -> str:
    """Write the kernel, its helper functions and its configurations."""
    about = f"Edit it: `test_{package.name}.py` compares it with its definition."
    found = [part.triton for part in package.parts]
    imports = dict.fromkeys(line for each in found for line in each.imports)
    parts = [
        f'"""The Triton kernel of `{package.name}`. {about}"""',
        "",
        "import triton",
        "import triton.language as tl",
        *imports,
        "",
    ]
    used = {name for each in found for name in each.helpers}
    for name, helper in HELPERS.items():
        if name in used:
            parts += ["", helper.rstrip(), ""]
    for each in dict.fromkeys(function for triton in found for function in triton.functions):
        parts += ["", each, ""]
    if parts[-2]:  # a function
        parts.append("")
    for part in package.parts:
        parts += [*_configs(package, part), "", "", *_function(package, part), "", ""]
    return "\n".join(parts).rstrip() + "\n"


def configs_name(package: EjectedPackage, part: EjectedPart) -> str:
    """Return the name of a kernel's list of configurations."""
    if part is package.parts[-1]:
        return "CONFIGS"
    return f"CONFIGS_{package.parts.index(part) + 1}"


def _configs(package: EjectedPackage, part: EjectedPart) -> Iterable[str]:
    yield f"{configs_name(package, part)} = ["
    for each in part.triton.configs:
        yield f"    triton.Config({dict(each.blocks)!r}, num_warps={each.warps}, num_stages={each.stages}),"
    yield "]"
    if len(part.triton.configs) > 1:
        yield '"""Triton times these once for each new value of the sizes in `key`, and keeps the fastest. Inductor'
        yield 'times them once, at the first launch, where compiled code launches the kernel itself."""'


def _function(package: EjectedPackage, part: EjectedPart) -> Iterable[str]:
    triton = part.triton
    keys = [each for each in triton.parameters if not each.endswith("_ptr")]
    yield f"@triton.autotune(configs={configs_name(package, part)}, key={keys!r})"
    yield "@triton.jit"
    blocks = [f"{each}: tl.constexpr" for each in triton.blocks]
    yield f"def {part.name}("
    for each in (*triton.parameters, *blocks):
        yield f"    {each},"
    yield "):"
    yield from _body(package, part)


def _body(package: EjectedPackage, part: EjectedPart) -> Iterable[str]:
    """Write the body; above each group of lines, the user's lines that it comes from."""
    lines = {each.line: each.lines for each in part.kernel.statements}
    codes = {f"{step.at.file}:{step.at.line}": step.at.code for step in package.region.steps if step.at is not None}
    above: tuple[str, ...] = ()
    for number, line in part.triton.body:
        places = lines.get(number, ())
        if places and places != above:
            indent = line[: len(line) - len(line.lstrip())]
            for place in places:
                yield indent + comment(f"{short(place)}: {codes[place]}" if place in codes else short(place))
            above = places
        yield line


def short(place: str) -> str:
    """Write `file:line` without the folders."""
    return place.replace("\\", "/").rpartition("/")[2]


NAMESPACE = "ejected"
_VIEWS = (
    "aten.view.", "aten.reshape.", "aten._unsafe_view.", "aten.permute.", "aten.transpose.", "aten.t.", "aten.expand.",
    "aten.unsqueeze.", "aten.squeeze.", "aten.slice.", "aten.select.", "aten.alias.",
)  # fmt: skip
"""Operators that may return the memory of their input."""


def op_file(package: EjectedPackage) -> str:
    """Write the operator."""
    names = [each.name for each in package.region.inputs]
    arguments = [*names, *_passed(package)]
    signature = ", ".join([*(f"{name}: Tensor" for name in names), *(f"{each}: int" for each in _passed(package))])
    outputs = package.region.outputs
    returned = "Tensor" if len(outputs) == 1 else f"tuple[{', '.join(['Tensor'] * len(outputs))}]"
    fields = {
        "NAME": package.name,
        "NAMESPACE": NAMESPACE,
        "SIGNATURE": signature,
        "ARGUMENTS": ", ".join(arguments),
        "TENSORS": ", ".join(names) + ("," if len(names) == 1 else ""),
        "RETURNED": returned,
        "LINES": "; ".join(map(short, package.lines)) or "lines not known",
        "FUNCTIONS": "".join(f"\n\n{FUNCTIONS[each]}" for each in package.definition.functions),
        "DEFINITION": "\n".join(_definition(package)),
        "COVERS": "\n".join(_covers(package)),
        "RUN": "\n".join(_run(package)),
        "STRIDED": "\n".join(_strided(package)),
        "FLOPS": "\n".join(_flops(package)),
        "SHAPES": ", ".join([*(f"{name}_shape" for name in names), *_passed(package)]),
        "COUNT": str(len(names)),
        "FIRST": names[0],
        "KERNELS": ", ".join(part.name for part in package.parts),
        "KERNEL": _kernels(package, ""),
        "WRAPPED": _kernels(package, "wrap_triton"),
    }
    written = _template(package)
    for name, content in fields.items():
        written = written.replace(f"${name}$", content)
    return written


def _template(package: EjectedPackage) -> str:
    """Return the text of the file; a C++ kernel has another head and another way to register the op."""
    written = text("op")
    if package.cpp is None:
        return written
    _, _, rest = written.partition("\n\ndef definition(")
    before, _, after = rest.partition("def compute(")
    before = before.replace(
        "PyTorch operators: on the CPU, for other dtypes, and for sizes that the kernel does not take",
        "PyTorch operators: on other devices, for other dtypes, and for sizes that the kernel does not take",
    ).replace("launch `kernel`, in the form of KERNEL: what takes `[grid](...)`, or a tuple of these", "call `kernel`")
    return (
        text("op_cpp_head")
        + "\n\ndef definition("
        + before
        + text("op_cpp_op")
        + "\n\ndef save_inputs("
        + after.partition("\n\ndef save_inputs(")[2]
    )


def _kernels(package: EjectedPackage, wrap: str) -> str:
    """Write what `run_kernel` takes: the kernel, or a tuple of all of them."""
    names = [f"{wrap}({part.name})" if wrap else part.name for part in package.parts]
    if len(names) == 1:
        return names[0]
    return f"({', '.join(names)})"


def _passed(package: EjectedPackage) -> list[str]:
    """Return the sizes that the op takes as arguments."""
    return [each.name for each in package.sizes if not each.source]


def _set_sizes(sizes: Iterable[Size], indent: str = "    ") -> list[str]:
    return [f"{indent}{each.name} = {each.source}" for each in sizes if each.source]


def shape(package: EjectedPackage, sizes: Iterable[str]) -> str:
    """Write a shape or strides as a tuple."""
    texts = [package.text(each) for each in sizes]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _definition(package: EjectedPackage) -> Iterable[str]:
    yield from _set_sizes(package.sizes)
    above = None
    for line in package.definition.lines:
        if line.at is not None and line.at != above:
            yield f"    {comment(f'{short(line.at.file)}:{line.at.line}: {line.at.code}')}"
            above = line.at
        yield f"    {line.text}"
    yield f"    return {', '.join(each.name for each in package.region.outputs)}"


def _covers(package: EjectedPackage) -> Iterable[str]:
    yield from _set_sizes(package.sizes)
    tests = []
    for each in package.region.inputs:
        tests.append(f"{each.name}.dtype == torch.{each.dtype}")
        tests.append(f"{each.name}.shape == {shape(package, each.shape)}")
    # What was 0 in the run is often an argument such as `logits_to_keep`: the graph holds for no other value.
    tests += [f"{each.name} {'> 0' if each.hint else '== 0'}" for each in package.sizes]
    yield "    return ("
    yield from (f"        {'and ' if at else ''}{test}" for at, test in enumerate(tests))
    yield "    )"


def _run(package: EjectedPackage) -> Iterable[str]:
    region = package.region
    device = f"{region.inputs[0].name}.device"
    yield from _set_sizes(package.sizes)
    for each in region.inputs:
        if not each.shape:
            yield f"    {each.name} = {each.name}.to({device})"
        yield f"    {each.name} = as_strided_copy({each.name}, {shape(package, each.stride)})"
    single = [each.name for each in region.outputs if not each.shape and package.cpp is None]
    if single:
        yield "    # Inductor fills a buffer without dimensions; it leaves one element with a dimension as it is"
    for each in (*region.outputs, *region.scratch):
        sizes = ("(1,)", "(1,)") if each.name in single else (shape(package, each.shape), shape(package, each.stride))
        yield (f"    {each.name} = torch.empty_strided({', '.join(sizes)}, dtype=torch.{each.dtype}, device={device})")
    if package.cpp is not None:
        for output, source in package.cpp.copies:
            yield f"    {output}.copy_({source}.reshape({output}.shape))"
        yield f"    kernel({', '.join(package.cpp.arguments)})"
    for number, part in enumerate(package.parts if package.cpp is None else ()):
        name = "grid" if len(package.parts) == 1 else f"grid_{number + 1}"
        yield ""
        yield from _grid(part, name)
        called = "kernel" if len(package.parts) == 1 else f"kernel[{number}]"
        yield f"    {called}[{name}]({', '.join(part.arguments)})"
    returned = (f"{each.name}.view(())" if each.name in single else each.name for each in region.outputs)
    yield f"    return {', '.join(returned)}"


def _grid(part: EjectedPart, name: str) -> Iterable[str]:
    """Write the grid: the number of programs along each axis, from the block sizes."""

    def programs(space: str) -> str:
        block = f"{space.upper()}BLOCK"
        length = part.numels.get(f"{space}numel", "1")
        if block in part.triton.blocks:
            return f'triton.cdiv({length}, meta["{block}"])'
        fixed = part.triton.fixed.get(block, 1)
        if fixed != 1:
            return f"triton.cdiv({length}, {fixed})"
        return length

    yield f"    def {name}(meta):"
    if part.triton.grid == "Grid2DWithYZOverflow":
        yield f"        rows = {programs('y')}"
        yield "        layers = triton.cdiv(rows, 65535)  # the most programs along the second axis"
        yield f"        return {programs('x')}, triton.cdiv(rows, layers), layers"
    else:
        spaces = {"Grid1D": "x", "Grid2D": "xy", "Grid3D": "xyz"}[part.triton.grid]
        yield f"        return ({', '.join(map(programs, spaces))},)"
    yield ""


def _strided(package: EjectedPackage) -> Iterable[str]:
    """Lay the results of the definition out as the kernel does, so that both give the same strides."""
    outputs = package.region.outputs
    if len(outputs) == 1:
        yield f"    {outputs[0].name} = definition($ARGUMENTS$)".replace("$ARGUMENTS$", _arguments(package))
    else:
        yield f"    {', '.join(each.name for each in outputs)} = definition({_arguments(package)})"
    yield from _set_sizes(package.sizes)
    # An op must not return memory of its inputs.
    copied = ".clone()" if all(step.target.startswith(_VIEWS) for step in package.region.steps) else ""
    for each in outputs:
        yield f"    {each.name} = as_strided_copy({each.name}{copied}, {shape(package, each.stride)})"
    yield f"    return {', '.join(each.name for each in outputs)}"


def _arguments(package: EjectedPackage) -> str:
    return ", ".join([*(each.name for each in package.region.inputs), *_passed(package)])


def _flops(package: EjectedPackage) -> Iterable[str]:
    for each in package.sizes:
        if each.source:
            name, _, at = each.source.partition(".shape")
            yield f"    {each.name} = {name}_shape{at}"
    terms = dict.fromkeys(package.definition.flops)
    written = [f"{count} * {term}" if (count := package.definition.flops.count(term)) > 1 else term for term in terms]
    yield f"    return {' + '.join(written) or '0'}"


INDEX = "ctrace.json"
CHECKS = PACKAGES / "inspector/features/workshop/child/checks.py"
"""What the commands check a kernel with; a package has a copy, since its tests do not need ctrace."""


class Written(Struct, frozen=True):
    """A package on disk."""

    package: EjectedPackage
    folder: Path
    files: tuple[str, ...]


class Ejected(Struct, frozen=True):
    """A kernel, and its package or why there is none."""

    JSON: ClassVar[str] = (
        "kernel=kernel.name graph=kernel.graph stage=kernel.stage lines=kernel.lines "
        "op=written.package.name package=written.folder files "
        "refused=why|null_if_empty instead|null_if_empty"
    )
    kernel: Kernel
    written: Written | None
    why: str = ""
    instead: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the package."""
        return self.written.files if self.written else ()


class EjectDocument(RunDocument, frozen=True, kw_only=True):
    """The kernels that were to be ejected, and their packages."""

    JSON: ClassVar[str] = "schema target_gpu kernels problems"
    target_gpu: TargetDevice | None
    kernels: tuple[Ejected, ...]
    model: str = ""
    """What the kernels come from, as `ctrace kernels apply` takes it; empty: not known."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of the run."""
        return tuple(each.what for each in self.run.problems)


def write_package(session: Session, package: EjectedPackage, folder: Path) -> Written:
    """Write a package into `folder / package.name`.

    Raises:
        DumpError: the folder has other files or changed ones, or cannot be written.
    """
    path = folder / package.name
    target = Folder(path, INDEX)
    target.begin()
    files = {
        "__init__.py": _init(package),
        **_kernel_files(package),
        "op.py": op_file(package),
        "place.py": place_file(package),
        "sources.py": text("sources"),
        "cases.py": cases_file(package),
        "checks.py": CHECKS.read_text(encoding="utf-8"),
        f"test_{package.name}.py": test_file(package),
        "bench.py": text("bench" if package.cpp is None else "bench_cpp").replace("$NAME$", package.name),
        "README.md": readme(package),
    }
    for name, content in files.items():
        target.write(name, content)
    target.finish(_origin(session, package))
    return Written(package, path, (*files, INDEX))


def _kernel_files(package: EjectedPackage) -> dict[str, str]:
    if package.cpp is None:
        return {"kernel.py": kernel_file(package)}
    loading = text("kernel_cpp").replace("@NAME@", package.name).replace("@CAPABILITY@", package.cpp.capability)
    return {"kernel.py": loading, "kernel.cpp": package.cpp.source.strip("\n") + "\n"}


def make_folder(folder: Path) -> None:
    """Make the folder of the packages.

    Raises:
        DumpError: it is a file, or cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise DumpError(f"{folder} is a file", "name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DumpError(
            f"{folder} cannot be made: {error.strerror or error}", "name a folder that you may write to"
        ) from None


def _init(package: EjectedPackage) -> str:
    return (
        f'"""`{package.name}`: a kernel of torch.compile as an operator. `install()` puts it back."""\n\n'
        f"from .op import {package.name}\n"
        "from .place import install, uninstall\n\n"
        f'__all__ = ["{package.name}", "install", "uninstall"]\n'
    )


def _origin(session: Session, package: EjectedPackage) -> dict[str, Any]:
    gpu = target_of(session)
    return {
        "ctrace": __version__,
        "op": package.name,
        "namespace": NAMESPACE,
        "kernel": package.kernel.name,
        "kernels": [part.kernel.name for part in package.parts],
        "functions": [part.name for part in package.parts],
        "graph": package.kernel.graph,
        "stage": str(package.kernel.stage),
        "lines": list(package.lines),
        "model": {"path": session.target.path, "name": session.target.name},
        "torch": session.environment.torch,
        "triton": session.environment.triton,
        "target_gpu": gpu.name if gpu is not None else None,
        "source_sha256": hashlib.sha256(package.kernel.source.encode("utf-8", "replace")).hexdigest(),
        "inputs": [_tensor(package, each) for each in package.region.inputs],
        "outputs": [_tensor(package, each) for each in package.region.outputs],
        "sizes": {each.name: {"from": each.source or None, "captured": each.hint} for each in package.sizes},
        "configs": [
            {"blocks": dict(each.blocks), "num_warps": each.warps, "num_stages": each.stages}
            for each in package.parts[-1].triton.configs
        ],
        "calls": package.kernel.calls,
    }


def _tensor(package: EjectedPackage, each: Any) -> dict[str, Any]:
    return {
        "name": each.name,
        "node": each.node,
        "label": each.label or None,
        "dtype": each.dtype,
        "shape": [package.text(size) for size in each.shape],
        "stride": [package.text(size) for size in each.stride],
    }


def place_file(package: EjectedPackage) -> str:
    """Write the matcher with its pattern."""
    inputs = [f"    {each.name!r}: (torch.{each.dtype}, {_shape(package, each)})," for each in package.region.inputs]
    outputs = [f"    {each.name!r}: {_shape(package, each)}," for each in package.region.outputs]
    sizes = [f"{each.name!r}: {_place(each.source)}" for each in package.sizes]
    fields = {
        "NAME": package.name,
        "NAMESPACE": NAMESPACE,
        "INPUTS": "\n".join(["{", *inputs, "}"]),
        "SIZES": f"{{{', '.join(sizes)}}}",
        "OUTPUTS": "\n".join(["{", *outputs, "}"]),
        "STEPS": "\n".join(f"    {each}," for each in package.definition.pattern),
    }
    written = text("place")
    for name, filled in fields.items():
        written = written.replace(f"${name}$", filled)
    return written


def _shape(package: EjectedPackage, tensor: RegionTensor) -> str:
    return f"({''.join(f'{_size(package, size)}, ' for size in tensor.shape)})"


def _size(package: EjectedPackage, size: str) -> str:
    written = package.text(size)
    if written.isdigit():
        return written
    return repr(written)


def _place(source: str) -> str:
    if not source:
        return "None"
    name, _, rest = source.partition(".shape[")
    return f"({name!r}, {rest.rstrip(']')})"


def readme(package: EjectedPackage) -> str:
    """Say what the op computes, and how to use, change, check and measure it."""
    name = package.name
    passed = [each.name for each in package.sizes if not each.source]
    names = ", ".join([*(each.name for each in package.region.inputs), *passed])
    results = ", ".join(each.name for each in package.region.outputs)
    file, where, configurations = "kernel.cpp", "on other devices", ""
    if package.cpp is None:
        file, where, configurations = "kernel.py", "on the CPU", " Its configurations are `CONFIGS`."
    occur_only = []
    if passed:
        occur_only = ["", f"The sizes {', '.join(passed)} occur only in expressions of the tensors' sizes."]
    tensors = [
        f"| `{each.name}` | {kind} | {each.dtype} | {_sizes(package, each.shape)} | {_sizes(package, each.stride)} |"
        for kind, found in (("input", package.region.inputs), ("output", package.region.outputs))
        for each in found
    ]
    lines = [f"- `{fmt.one_line(each, 200)}`" for each in package.lines]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"The kernel `{package.kernel.name}` of graph {package.kernel.graph}, {package.kernel.stage},"
            f" as the operator `torch.ops.{NAMESPACE}.{name}`. It computes:",
            "",
            *(lines or ["- lines not known"]),
            "",
            "| tensor | | dtype | sizes | strides |",
            "|---|---|---|---|---|",
            *tensors,
            "",
            "## Use it",
            "",
            f"Python has to find `{name}`: run your program with `PYTHONPATH` set to the folder that has it.",
            "Let torch.compile put it where it came from, in every graph that has the same region:",
            "",
            "```python",
            f"import {name}",
            f"{name}.install()  # before torch.compile compiles the model",
            "```",
            "",
            *_launched(package),
            "",
            f"Or call it in the model's code: `{results} = {name}.{name}({names})` computes a part of",
            "",
            *(f"- `{fmt.one_line(_code(package, each), 100)}`" for each in package.lines[:3]),
            "",
            "The tensors are values of the graph, with the names of the graph; your code may have no name for them.",
            *occur_only,
            "",
            "## Change it",
            "",
            f"1. Edit `{file}`.{configurations} `ctrace kernels edit {name}` checks it on every save.",
            f"2. `python -m pytest {name}/test_{name}.py` compares it with the definition in `op.py`.",
            f"3. `python {name}/bench.py` times it beside the bounds of memory and arithmetic.",
            f"4. `ctrace kernels apply {name} MODEL.py` puts it into the model, compares all results, and times both.",
            "",
            "## What it does not do",
            "",
            f"- The kernel takes the dtypes and sizes in the table; for others, and {where}, the op computes the"
            " definition in PyTorch operators.",
            "- Its gradient is that of the definition, which the backward computes again.",
            "- An input with other strides is copied first.",
            "",
        ]
    )


def _launched(package: EjectedPackage) -> list[str]:
    if package.cpp is not None:
        return ["Compiled code calls the operator there: torch.compile cannot trace a kernel in C++."]
    return [
        "Compiled code then launches the kernel itself, as it launches Inductor's own. Where torch cannot trace the"
        " operator's function, it calls the operator: `install()` returns the pass, whose `found` has the reason for"
        " each place."
    ]


def _sizes(package: EjectedPackage, sizes: tuple[str, ...]) -> str:
    return f"({', '.join(package.text(each) for each in sizes)})"


def _code(package: EjectedPackage, place: str) -> str:
    for step in package.region.steps:
        if step.at is not None and f"{step.at.file}:{step.at.line}" == place:
            return step.at.code
    return short(place)


def cases_file(package: EjectedPackage) -> str:
    """Write the cases."""
    fields = {
        "NAME": package.name,
        "INPUTS": "\n".join(_inputs(package)),
        "SIZES": "\n".join(_size_lines(package)),
        "SYMBOLS": ", ".join(each.name for each in package.sizes) or "*_",
        "SET": "".join(f'    {each.name} = sizes["{each.name}"]\n' for each in package.sizes),
        "PASSED": ", ".join(each.name for each in package.sizes if not each.source),
        "SMALL": repr(_has_small(package)),
        "MAXIMUM": repr(_has_maximum(package)),
    }
    return _filled("cases", fields)


def test_file(package: EjectedPackage) -> str:
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


def _inputs(package: EjectedPackage) -> list[str]:
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


def _size_lines(package: EjectedPackage) -> list[str]:
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
            wanted = max(largest * 4, _LONG) if len(loops) == 1 else largest
            own = [name for name in symbols_of(length) if name in sizes]
            if own and (value(length, sizes) or 0) <= wanted:
                return min(own, key=lambda name: sizes[name])
    return None


def _values(package: EjectedPackage, sizes: Mapping[str, int]) -> float:
    """Return how many values the largest tensor has."""
    tensors = (*package.region.inputs, *package.region.outputs, *package.region.scratch)
    return max(math.prod(value(package.text(size), sizes) or 0 for size in each.shape) for each in tensors)


def _is_smooth(package: EjectedPackage) -> bool:
    """Whether the definition keeps float64: it casts to no other dtype."""
    return not any("torch.float" in line.text or "torch.bfloat" in line.text for line in package.definition.lines)


_EXACT = frozenset(("eq", "ne", "argmax", "argmin", "max", "min", "sort", "topk", "floor", "ceil", "round", "trunc"))
"""Operators whose result jumps where two values are nearly equal, as small ones are after a sigmoid."""


def _has_small(package: EjectedPackage) -> bool:
    """Whether values near 0.001 give results that rounding does not change: no float16, and no choice among values."""
    dtypes = [each.dtype for each in (*package.region.inputs, *package.region.outputs)]
    ops = {step.target.split(".")[1] for step in package.region.steps if "." in step.target}
    return "float16" not in dtypes and not any(each in _EXACT or "max_pool" in each for each in ops)


_MAXIMA = ("aten.amax.", "aten._softmax.", "aten._log_softmax.", "aten.logsumexp.", "prims.prepare_softmax_online.")
"""Operators that a softmax starts with: the result does not depend on the maximum, unless `exp` overflows."""


def _has_maximum(package: EjectedPackage) -> bool:
    """Whether the region subtracts a row's maximum, for values that float16 would not overflow with."""
    dtypes = [each.dtype for each in (*package.region.inputs, *package.region.outputs)]
    return "float16" not in dtypes and any(step.target.startswith(_MAXIMA) for step in package.region.steps)
