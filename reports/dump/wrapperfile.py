"""Write the wrapper of a graph part: `call`, which uses the kernels in their files, and a comparison with eager.

Write one file per kernel: its source, a run with made-up inputs, and a benchmark.
"""

import ast
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ctrace.reports.dump.launch_code import (
    About,
    CannotDumpError,
    LaunchSite,
    Value,
    Wrapper,
    WrapperTensor,
    follow,
    imports,
    needed,
    source,
    table,
    taken_names,
)
from ctrace.reports.dump.module import Defined, OutputModule, block, bound, comment, comments, read, string
from ctrace.reports.dump.texts import text

_OURS = frozenset(
    ("inputs", "run", "benchmark", "main", "NAME", "LANGUAGE", "DEVICE", "BYTES", "FLOPS", "ARGUMENTS", "LOW", "HIGH",
     "MISSING", "SOURCE", "TYPES")
)  # fmt: skip
"""Names that every dumped file defines."""
_IMPORT_ASYNC = ast.parse("from torch._inductor.async_compile import AsyncCompile").body


def kernel_file(site: LaunchSite, module: OutputModule, below: Mapping[str, int], about: About) -> str:
    """Write the file of a kernel that the module defines, or of a call of a library.

    Raises:
        CannotDumpError: an argument is not known, or the source does not fit into a dumped file.
    """
    arguments = _known(site)
    imported, assigned = needed(module, site)
    own: list[ast.stmt]
    if site.kernel is None:
        own, written, language = [], "", "external"
    elif site.kernel.language == "triton":
        own, written = source(site.kernel.source)
        _refuse_ours(written)
        written += _bound(site.kernel, written)
        language = "triton"
    else:
        own, written, language = list(_IMPORT_ASYNC), _cpp(site.kernel), "cpp"
    every = {ast.unparse(each): each for each in (*own, *imported)}
    return "\n".join(
        [
            *_head(about),
            imports(every.values()),
            written,
            *assigned,
            "",
            f"NAME = {string(about.title)}",
            f"LANGUAGE = {string(language)}",
            f"DEVICE = {string(device_of(arguments.values()))}",
            f"BYTES = {about.bytes!r}",
            f"FLOPS = {about.flops!r}",
            "ARGUMENTS = [",
            *table(arguments, below),
            "]",
            "",
            "",
            *_run(site, arguments),
            "",
            "",
            text("tensors") + text("kernel"),
        ]
    )


def _head(about: About) -> list[str]:
    ops = ", ".join(about.ops) or "not known"
    launches = ""
    if about.launches > 1:
        launches = f"launched {about.launches} times; the arguments below are those of the first launch"
    lines = [
        about.title,
        f"aten ops: {ops}",
        *(f"line: {line}" for line in about.lines),
        *about.notes,
        launches,
        "python THIS_FILE runs it once and times it; from Python: inputs(), run(args), benchmark()",
    ]
    return list(comments(lines))


def _known(site: LaunchSite) -> dict[str, Value]:
    for name, value in site.arguments.items():
        if value is None or isinstance(value, list) or (isinstance(value, WrapperTensor) and not value.is_known):
            raise CannotDumpError(f"its argument {name} is not known")
    return dict(site.arguments)


def _refuse_ours(written: str) -> None:
    clash = sorted(taken_names(written) & _OURS)
    if clash:
        raise CannotDumpError(f"its source defines {clash[0]}, a name that the dumped file also defines")


def _bound(kernel: Defined, written: str) -> str:
    """Bind the kernel to the name that the wrapper uses; empty if the source defines that name."""
    defined = taken_names(written)
    if kernel.name in defined:
        return ""
    if kernel.function not in defined:
        raise CannotDumpError(f"its source does not define {kernel.function}")
    return f"\n{kernel.name} = {kernel.function}\n"


def _cpp(kernel: Defined) -> str:
    types = ", ".join(string(each) for each in kernel.types)
    return (
        f"TYPES = [{types}]\nSOURCE = {block(kernel.source)}\n{text('built')}"
        f"{kernel.name} = _Built()\n{comment('Called as in the wrapper.')}\n"
    )


def _run(site: LaunchSite, arguments: Mapping[str, Value]) -> list[str]:
    verb = "Call it" if site.kernel is None else "Launch it"
    lines = ["def run(args):", f'    """{verb} as the wrapper does."""']
    if arguments:
        lines.append(f"    [{', '.join(arguments)}] = args")
    if device_of(arguments.values()) != "cpu":
        lines += [f"    torch.cuda.set_device({at})" for at in set(site.streams.values())]
    lines += [f"    {name} = get_raw_stream({number})" for name, number in site.streams.items()]
    lines.append(f"    return {ast.unparse(site.call)}")
    return lines


def device_of(values: Iterable[Value]) -> str:
    """Return the device of some arguments: the first that is not the CPU, else `cpu`."""
    found = [each.device for each in values if isinstance(each, WrapperTensor) and each.device]
    return next((each for each in found if each != "cpu"), "cpu")


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
