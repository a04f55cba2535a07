"""Write `op.py`: the operator around the kernel, its definition in PyTorch operators, its gradient and its FLOPs.

Write `kernel.py`: the kernel as plain Triton.
"""

from collections.abc import Iterable

from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage, EjectedPart, Size
from ctrace.inspector.features.workshop.kernel_definition import FUNCTIONS
from ctrace.inspector.features.workshop.triton_helpers import HELPERS
from ctrace.reports.dump.module import comment
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
    for name, value in fields.items():
        written = written.replace(f"${name}$", value)
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
