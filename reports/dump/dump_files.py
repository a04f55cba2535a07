"""Fill the templates of a dump's Python files: the file of a kernel, and the wrapper of a graph part.

Both can be imported on any machine: an import that fails is replaced by an object that does nothing, and the file says
what is missing when it is run.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.reports.dump.launch_code import LaunchSite, Value, Wrapper, WrapperTensor, follow
from ctrace.reports.dump.module import Defined, OutputModule, bound, is_for_torch, read
from ctrace.reports.dump.templates import literal, rendered

_OURS = frozenset(
    ("inputs", "run", "benchmark", "main", "NAME", "LANGUAGE", "DEVICE", "BYTES", "FLOPS", "ARGUMENTS", "LOW", "HIGH",
     "MISSING", "SOURCE", "TYPES")
)  # fmt: skip
"""Names that every dumped file defines."""
_STANDARD = tuple(
    f"import {name}"
    for name in ("hashlib", "importlib", "importlib.util", "math", "os", "shutil", "sys", "tempfile", "time")
)
"""What the templates need."""
_IMPORT_ASYNC = ast.parse("from torch._inductor.async_compile import AsyncCompile").body
_ASYNC = ("AsyncCompile()", "AsyncCompile")
_DRIVER = "triton_helpers.set_driver_to_gpu()"
_DRAWS = re.compile(r"\btl\.rand|randint64|philox|\brandn?_cpu|normalized_rand|randint|bernoulli|aten\.rand|dropout\b")


class CannotDumpError(Exception):
    """A kernel cannot be dumped to a file; the message says why."""


class About(Struct, frozen=True):
    """The facts in the head of a dumped file, and the figures that the file prints."""

    title: str
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    launches: int = 1
    bytes: int | None = None
    flops: int | None = None
    notes: tuple[str, ...] = field(default=())


class FileImports(Struct, frozen=True):
    """The imports of a dumped file."""

    sure: list[str]
    """Of the standard library."""
    guarded: list[str]
    """In a `try`, so that the file can be imported even if one of them fails."""
    names: list[str]
    """The names that the guarded ones bind."""


def _file_imports(statements: Iterable[ast.stmt]) -> FileImports:
    every = list(statements)
    sure = [ast.unparse(each) for each in every if _is_standard(each)]
    guarded = [each for each in every if not _is_standard(each) and bound(each) != ["torch"]]
    return FileImports(
        sure=[*_STANDARD, *(line for line in sure if line not in _STANDARD)],
        guarded=[ast.unparse(each) for each in guarded],
        names=list(dict.fromkeys(name for each in guarded for name in bound(each))),
    )


def _is_standard(statement: ast.stmt) -> bool:
    """Whether an import is from the standard library."""
    names: list[str] = []
    if isinstance(statement, ast.Import):
        names = [each.name for each in statement.names]
    elif isinstance(statement, ast.ImportFrom):
        names = [statement.module or ""]
    return bool(names) and all(name.partition(".")[0] in sys.stdlib_module_names for name in names)


def kernel_file(site: LaunchSite, module: OutputModule, below: Mapping[str, int], about: About) -> str:
    """Write the file of a kernel that the module defines, or of a call of a library.

    Raises:
        CannotDumpError: an argument is not known, or the source does not fit into a dumped file.
    """
    arguments = _known(site)
    imported, assigned = _needed(module, site)
    language, source = "external", DumpedSource()
    if site.kernel is not None:
        language = site.kernel.language
        source = kernel_source(site.kernel)
    device = device_of(arguments.values())
    return rendered(
        "dump_kernel",
        about=about,
        imports=_file_imports({ast.unparse(each): each for each in (*source.imports, *imported)}.values()),
        language=language,
        kernel=site.kernel,
        source=source,
        assigned=assigned,
        device=device,
        arguments=_entries(arguments, below),
        devices=[] if device == "cpu" else list(set(site.streams.values())),
        streams=list(site.streams.items()),
        call=ast.unparse(site.call),
    )


def _known(site: LaunchSite) -> dict[str, Value]:
    for name, value in site.arguments.items():
        if value is None or isinstance(value, list) or (isinstance(value, WrapperTensor) and not value.is_known):
            raise CannotDumpError(f"its argument {name} is not known")
    return dict(site.arguments)


def _needed(module: OutputModule, site: LaunchSite) -> tuple[list[ast.stmt], list[str]]:
    """Find the imports and assignments of the wrapper's header that a call needs."""
    used = {node.id for node in ast.walk(site.call) if isinstance(node, ast.Name)} | {"torch"}
    if site.streams:
        used.add("get_raw_stream")
    assigned = [each for each in module.header if used & set(bound(each))]
    for each in assigned:
        # What an assignment reads has to be imported as well.
        used |= {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
    imported = [each for each in module.imports if used & set(bound(each)) - {"torch"}]
    return imported, [ast.unparse(each) for each in assigned]


class DumpedSource(Struct, frozen=True):
    """A kernel's source, as a dumped file takes it."""

    imports: tuple[ast.stmt, ...] = ()
    text: str = ""
    """A Triton kernel's source without its imports and torch's own benchmark."""
    is_tuned: bool = False
    """Whether torch keeps the result of its tuning in a file."""
    needs_driver: bool = False
    """Whether it selects the GPU's driver."""
    is_renamed: bool = False
    """Whether the wrapper knows it by another name than its source."""


def kernel_source(kernel: Defined) -> DumpedSource:
    """Prepare a kernel's source.

    Raises:
        CannotDumpError: it does not fit into a dumped file, or is not valid Python.
    """
    if kernel.language != "triton":
        return DumpedSource(tuple(_IMPORT_ASYNC))
    tree = _parsed(kernel.source)
    left_out, imports = set[int](), list[ast.stmt]()
    for statement in tree.body:
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        if is_import:
            imports.append(statement)
        if is_import or ast.unparse(statement) == _DRIVER or is_for_torch(statement):
            left_out.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    lines = [line.replace("filename=__file__", "filename=_TUNED") for line in kernel.source.splitlines()]
    text = "\n".join(line for number, line in enumerate(lines, 1) if number not in left_out).strip("\n")
    return DumpedSource(
        imports=tuple(imports),
        text=text,
        is_tuned="filename=_TUNED" in text,
        needs_driver=_DRIVER in kernel.source,
        is_renamed=_is_renamed(kernel, text),
    )


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotDumpError(f"its source is not valid Python: {type(error).__name__}") from None


def _is_renamed(kernel: Defined, text: str) -> bool:
    """Whether the source defines the kernel by another name than the wrapper's; refuse names that the file needs."""
    defined = {name for statement in ast.parse(text).body for name in bound(statement)}
    if clash := sorted(defined & _OURS):
        raise CannotDumpError(f"its source defines {clash[0]}, a name that the dumped file also defines")
    if kernel.name in defined:
        return False
    if kernel.function not in defined:
        raise CannotDumpError(f"its source does not define {kernel.function}")
    return True


def _entries(values: Mapping[str, Value], below: Mapping[str, int]) -> list[tuple[str, str]]:
    return [(name, entry(value, below)) for name, value in values.items()]


def entry(value: Value, below: Mapping[str, int]) -> str:
    """Write one argument as Python."""
    if not isinstance(value, WrapperTensor):
        return repr(value)
    fields = [
        f'"storage": {literal(value.storage)}',
        f'"dtype": {value.dtype}',
        f'"shape": {value.shape}',
        f'"stride": {value.stride}',
        f'"offset": {value.offset}',
        f'"device": {literal(value.device)}',
        f'"extent": {value.extent}',
    ]
    if value.dtype.startswith(("torch.int", "torch.uint")) and value.storage in below:
        fields.append(f'"below": {below[value.storage]}')
    if value.zero:
        fields.append('"zero": True')
    return f"{{{', '.join(fields)}}}"


def device_of(values: Iterable[Value]) -> str:
    """Return the device of some arguments: the first that is not the CPU, else `cpu`."""
    found = [each.device for each in values if isinstance(each, WrapperTensor) and each.device]
    return next((each for each in found if each != "cpu"), "cpu")


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
    code = _wrapper_code(parts)  # at the start of the file, so that its lines are those of the file
    inputs, constants = parts.wrapper.inputs, parts.wrapper.constants
    below = parts.wrapper.below
    in_sites = [value for site in parts.wrapper.sites for value in site.arguments.values()]
    return rendered(
        "dump_wrapper",
        code=code,
        title=parts.title,
        device=device_of([*inputs.values(), *in_sites]),
        graph=parts.graph,
        starts=[f"{name}.start" for name in parts.files if parts.module.kernels[name].language == "cpp"],
        unknown=[name for name, value in inputs.items() if not _is_known(value)],
        inputs=_entries({name: value for name, value in inputs.items() if _is_known(value)}, below),
        constants=_entries({name: value for name, value in constants.items() if _is_known(value)}, below),
        launches=_launches(parts, code),
    )


def _is_known(value: Value) -> bool:
    if isinstance(value, WrapperTensor):
        return value.is_known
    return value is not None


def _wrapper_code(parts: WrapperParts) -> str:
    module, lines = parts.module, parts.code.splitlines()
    # Kernels have files of their own, so only what is defined beside them is still compiled in the wrapper.
    uses_async = bool(module.others)
    header = [each for each in module.header if uses_async or ast.unparse(each.value) != _ASYNC[0]]  # type: ignore[attr-defined]
    return rendered(
        "dump_wrapper_code",
        title=parts.title,
        imports=_file_imports(each for each in module.imports if uses_async or _ASYNC[1] not in bound(each)),
        header=[_text(lines, each) for each in header],
        files=list(parts.files.items()),
        uses_async=uses_async,
        embedded=[_text(lines, each) for each in _embedded(parts)],
        kept=[_text(lines, each) for each in module.kept],
    )


def _text(lines: list[str], statement: ast.stmt) -> str:
    return "\n".join(lines[statement.lineno - 1 : statement.end_lineno])


def _embedded(parts: WrapperParts) -> Iterator[ast.stmt]:
    """Yield the sources of kernels that have no file, since `call` needs them."""
    missing = {name for name in parts.module.kernels if name not in parts.files}
    for statement in ast.parse(parts.code).body:
        if missing & set(bound(statement)):
            yield statement


def _launches(parts: WrapperParts, code: str) -> list[tuple[int, list[tuple[str, str, tuple[str, ...]]]]]:
    """List the kernels that each line of the file launches, in order, and the buffers that they write."""
    placed = read(code)
    if placed is None:
        return []
    # Read again from the text as it is in the file, so that the lines are those of the file.
    module = replace(placed, kernels=parts.module.kernels, others=parts.module.others, inputs=parts.module.inputs)
    found: dict[int, list[tuple[str, str, tuple[str, ...]]]] = {}
    chance = ""
    for site in follow(module, {}).sites:
        if _is_random(site):
            chance = "random numbers"
        found.setdefault(site.line, []).append((site.name.removeprefix("extern_kernels."), chance, site.written))
        if chance:
            # From here on, each result may depend on what was drawn.
            chance = "an earlier kernel used random numbers"
    return sorted(found.items())


def _is_random(site: LaunchSite) -> bool:
    written = site.name
    if site.kernel is not None:
        written = site.kernel.source
    return bool(_DRAWS.search(written))
