"""Building blocks of dumped files."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from ctrace.reports.dump.launch_code import LaunchSite, Value, WrapperTensor
from ctrace.reports.dump.module import OutputModule, bound, is_for_torch, string
from ctrace.reports.dump.texts import text

_STANDARD = "".join(
    f"import {name}\n"
    for name in ("hashlib", "importlib", "importlib.util", "math", "os", "shutil", "sys", "tempfile", "time")
)
_DRIVER = "triton_helpers.set_driver_to_gpu()"


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


def imports(statements: Iterable[ast.stmt]) -> str:
    """Write the imports of a file in a `try`, so that the file can be imported even if one of them fails."""
    every = list(statements)
    sure = [ast.unparse(each) for each in every if _is_standard(each)]
    guarded = [each for each in every if not _is_standard(each) and bound(each) != ["torch"]]
    more = "".join(f"{line}\n" for line in sure if line not in _STANDARD)
    head = f"{_STANDARD}{more}\nimport torch\n\n\n{text('absent')}"
    if not guarded:
        return head
    lines = "".join(f"    {ast.unparse(each)}\n" for each in guarded)
    absent = " = ".join(dict.fromkeys(name for each in guarded for name in bound(each)))
    return (
        f"{head}\ntry:\n{lines}except ImportError as _error:\n    MISSING = str(_error)\n    {absent} = _Absent()\n\n"
    )


def _is_standard(statement: ast.stmt) -> bool:
    """Whether an import is from the standard library."""
    names = [each.name for each in statement.names] if isinstance(statement, ast.Import) else []
    names += [statement.module or ""] if isinstance(statement, ast.ImportFrom) else []
    return bool(names) and all(name.partition(".")[0] in sys.stdlib_module_names for name in names)


def source(written: str) -> tuple[list[ast.stmt], str]:
    """Split a Triton kernel's source into its imports and the rest, without torch's own benchmark.

    Raises:
        CannotDumpError: it is not valid Python.
    """
    try:
        tree = ast.parse(written)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotDumpError(f"its source is not valid Python: {type(error).__name__}") from None
    lines = written.splitlines()
    taken, needed = set[int](), list[ast.stmt]()
    for statement in tree.body:
        is_driver = ast.unparse(statement) == _DRIVER
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        if is_import or is_driver or is_for_torch(statement):
            taken.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        if is_import:
            needed.append(statement)
    lines = [line.replace("filename=__file__", "filename=_TUNED") for line in lines]
    rest = "\n".join(line for number, line in enumerate(lines, 1) if number not in taken).strip("\n")
    is_gpu = _DRIVER in written
    setting = f"if torch.cuda.is_available() or torch.xpu.is_available():\n    {_DRIVER}\n\n" if is_gpu else ""
    tuned = text("tuned") if "filename=_TUNED" in rest else ""
    return needed, f"{tuned}{setting}{rest}\n"


def taken_names(written: str) -> set[str]:
    """List the names that the top level of some source defines."""
    return {name for statement in ast.parse(written).body for name in bound(statement)}


def needed(module: OutputModule, site: LaunchSite) -> tuple[list[ast.stmt], list[str]]:
    """Find the imports and assignments of the wrapper's header that a call needs."""
    used = {node.id for node in ast.walk(site.call) if isinstance(node, ast.Name)} | {"torch"}
    if site.streams:
        used.add("get_raw_stream")
    assigned = [each for each in module.header if used & set(bound(each))]
    for each in assigned:
        used |= {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
    imported = [each for each in module.imports if used & set(bound(each)) - {"torch"}]
    return imported, [ast.unparse(each) for each in assigned]


def table(values: Mapping[str, Value], below: Mapping[str, int]) -> Iterator[str]:
    """Write arguments as entries of a list, each with its name as a comment."""
    for name, value in values.items():
        yield f"    {entry(value, below)},  # {name}"


def entry(value: Value, below: Mapping[str, int]) -> str:
    """Write one argument as Python."""
    if not isinstance(value, WrapperTensor):
        return repr(value)
    fields = [
        f'"storage": {string(value.storage)}',
        f'"dtype": {value.dtype}',
        f'"shape": {value.shape}',
        f'"stride": {value.stride}',
        f'"offset": {value.offset}',
        f'"device": {string(value.device)}',
        f'"extent": {value.extent}',
    ]
    if value.dtype.startswith(("torch.int", "torch.uint")) and value.storage in below:
        fields.append(f'"below": {below[value.storage]}')
    if value.zero:
        fields.append('"zero": True')
    return f"{{{', '.join(fields)}}}"
