"""Write the wrapper of a graph part: `call`, which uses the kernels in their files, and a comparison with eager."""

import ast
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ctrace.reports.dump.dump_pieces import imports, table
from ctrace.reports.dump.dump_values import Value, WrapperTensor
from ctrace.reports.dump.kernelfile import device_of
from ctrace.reports.dump.launch_code import LaunchSite, Wrapper, follow
from ctrace.reports.dump.module import OutputModule, bound, comment, comments, read, string
from ctrace.reports.dump.texts import text

_RANDOM = re.compile(r"\btl\.rand|randint64|philox|\brandn?_cpu|normalized_rand|randint|bernoulli|aten\.rand|dropout\b")
_ASYNC = ("AsyncCompile()", "AsyncCompile")


class WrapperParts(Struct, frozen=True):
    """The contents of a wrapper's file."""

    title: str
    code: str
    """The output code."""
    module: OutputModule
    wrapper: Wrapper
    files: Mapping[str, str]
    """The file of each kernel, keyed by the kernel's name."""
    graph: str
    """Why there is no graph to compare with; empty if there is one."""


def wrapper_file(parts: WrapperParts) -> str:
    """Write the wrapper's file."""
    before = _before(parts)
    return "\n".join([before, *_tables(parts, before), text("tensors") + text("watching")])


def _before(parts: WrapperParts) -> str:
    module, lines = parts.module, parts.code.splitlines()
    uses_async = bool(module.others)
    header = [each for each in module.header if uses_async or ast.unparse(each.value) != _ASYNC[0]]  # type: ignore[attr-defined]
    kept = [line for statement in module.kept for line in [*_lines(lines, statement), ""]]
    return "\n".join(
        [
            *comments(
                [
                    parts.title,
                    "As Inductor generated it, but with the kernels imported from the files beside this one.",
                    "python THIS_FILE compares with graph.py and times it; from Python: inputs(), call(args)",
                ]
            ),
            imports(each for each in module.imports if uses_async or _ASYNC[1] not in bound(each)),
            *(line for each in header for line in _lines(lines, each)),
            "",
            text("loading"),
            *(f"_{name} = _load({string(file)})\n{name} = _{name}.{name}" for name, file in parts.files.items()),
            "",
            *_embedded(parts, lines),
            *kept,
        ]
    )


def _embedded(parts: WrapperParts, lines: list[str]) -> Iterable[str]:
    """Keep the sources of kernels that have no file, since `call` needs them."""
    missing = [name for name in parts.module.kernels if name not in parts.files]
    if missing:
        yield comment("Kernels without a file; index.json says why.")
        tree = ast.parse(parts.code)
        yield from () if parts.module.others else ["async_compile = AsyncCompile()"]
        for statement in tree.body:
            if set(bound(statement)) & set(missing):
                yield from _lines(lines, statement)
        yield "async_compile.wait(globals())"


def _lines(lines: list[str], statement: ast.stmt) -> list[str]:
    return lines[statement.lineno - 1 : statement.end_lineno]


def _tables(parts: WrapperParts, before: str) -> Iterable[str]:
    inputs = parts.wrapper.inputs
    unknown = [name for name, value in inputs.items() if not _is_known(value)]
    values = {name: value for name, value in inputs.items() if name not in unknown}
    constants = {name: value for name, value in parts.wrapper.constants.items() if _is_known(value)}
    below = parts.wrapper.below
    starts = [name for name in parts.files if parts.module.kernels[name].language == "cpp"]
    return [
        "",
        f"NAME = {string(parts.title)}",
        f"DEVICE = {string(device_of(_tensors(parts.wrapper)))}",
        f"GRAPH = {string(parts.graph) if parts.graph else None}",
        f"STARTS = [{', '.join(f'{name}.start' for name in starts)}]",
        f"UNKNOWN = {unknown!a}",
        "INPUTS = [",
        *table(values, below),
        "]",
        "CONSTANTS = {",
        *(f"{string(name)}: {line.strip()}" for name, line in zip(constants, table(constants, below), strict=True)),
        "}",
        "LAUNCHES = {  # by line of this file: kernel, why it cannot be compared, buffers that it writes",
        *_launches(parts, before),
        "}",
        "",
        "",
    ]


def _is_known(value: Value) -> bool:
    if isinstance(value, WrapperTensor):
        return value.is_known
    return value is not None


def _tensors(wrapper: Wrapper) -> list[Value]:
    return [*wrapper.inputs.values(), *(value for site in wrapper.sites for value in site.arguments.values())]


def _launches(parts: WrapperParts, before: str) -> Iterable[str]:
    """List the kernels that each line of the file launches, in order, and the buffers that they write."""
    found: dict[int, list[tuple[str, str, tuple[str, ...]]]] = {}
    chance = ""
    placed = read(before)
    for site in follow(_with(placed, parts.module), {}).sites if placed else ():
        name = site.name.removeprefix("extern_kernels.")
        if _is_random(site):
            chance = "random numbers"
        found.setdefault(site.line, []).append((name, chance, site.written))
        chance = "an earlier kernel used random numbers" if chance else ""
    return [f"    {line}: {entries!a}," for line, entries in sorted(found.items())]


def _with(placed: OutputModule, module: OutputModule) -> OutputModule:
    return replace(placed, kernels=module.kernels, others=module.others, inputs=module.inputs)


def _is_random(site: LaunchSite) -> bool:
    written = site.kernel.source if site.kernel else site.name
    return bool(_RANDOM.search(written))
