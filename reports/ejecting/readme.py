"""Write `README.md` of a package."""

from ctrace.inspector.features.workshop.ejecting.package import Package
from ctrace.reports import format as fmt
from ctrace.reports.ejecting.kernel_file import short
from ctrace.reports.ejecting.op_file import NAMESPACE


def readme(package: Package) -> str:
    """Say what the op computes, and how to use, change, check and measure it."""
    name = package.name
    passed = [each.name for each in package.sizes if not each.source]
    names = ", ".join([*(each.name for each in package.region.inputs), *passed])
    results = ", ".join(each.name for each in package.region.outputs)
    file = "kernel.py" if package.cpp is None else "kernel.cpp"
    where = "on the CPU" if package.cpp is None else "on other devices"
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
            *(
                ["", f"The sizes {', '.join(passed)} occur only in expressions of the tensors' sizes."]
                if passed
                else []
            ),
            "",
            "## Change it",
            "",
            f"1. Edit `{file}`."
            + (" Its configurations are `CONFIGS`." if package.cpp is None else "")
            + f" `ctrace kernels edit {name}` checks it on every save.",
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


def _launched(package: Package) -> list[str]:
    if package.cpp is not None:
        return ["Compiled code calls the operator there: torch.compile cannot trace a kernel in C++."]
    return [
        "Compiled code then launches the kernel itself, as it launches Inductor's own. Where torch cannot trace the"
        " operator's function, it calls the operator: `install()` returns the pass, whose `found` has the reason for"
        " each place."
    ]


def _sizes(package: Package, sizes: tuple[str, ...]) -> str:
    return f"({', '.join(package.text(each) for each in sizes)})"


def _code(package: Package, place: str) -> str:
    for step in package.region.steps:
        if step.at is not None and f"{step.at.file}:{step.at.line}" == place:
            return step.at.code
    return short(place)
