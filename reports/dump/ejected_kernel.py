"""Write `kernel.py`: the kernel as plain Triton."""

from collections.abc import Iterable

from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage, EjectedPart
from ctrace.inspector.features.workshop.triton_helpers import HELPERS
from ctrace.reports.dump.module import comment


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
    for number, text in part.triton.body:
        places = lines.get(number, ())
        if places and places != above:
            indent = text[: len(text) - len(text.lstrip())]
            for place in places:
                yield indent + comment(f"{short(place)}: {codes[place]}" if place in codes else short(place))
            above = places
        yield text


def short(place: str) -> str:
    """Write `file:line` without the folders."""
    return place.replace("\\", "/").rpartition("/")[2]
