"""Write one file per kernel: its source, a run with made-up inputs, and a benchmark."""

import ast
from collections.abc import Iterable, Mapping

from ctrace.reports.dump.dump_pieces import About, CannotDumpError, imports, needed, source, table, taken_names
from ctrace.reports.dump.dump_values import Value, WrapperTensor
from ctrace.reports.dump.launch_code import LaunchSite
from ctrace.reports.dump.module import Defined, OutputModule, block, comment, comments, string
from ctrace.reports.dump.texts import text

_OURS = frozenset(
    ("inputs", "run", "benchmark", "main", "NAME", "LANGUAGE", "DEVICE", "BYTES", "FLOPS", "ARGUMENTS", "LOW", "HIGH",
     "MISSING", "SOURCE", "TYPES")
)  # fmt: skip
"""Names that every dumped file defines."""
_ASYNC = ast.parse("from torch._inductor.async_compile import AsyncCompile").body


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
        own, written, language = list(_ASYNC), _cpp(site.kernel), "cpp"
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
