"""Choose the configurations to keep, and write them into a package: the list in kernel.py, the table in its README."""

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path

from ctrace.inspector.errors import TargetError
from ctrace.inspector.files.writing import write_output
from ctrace.inspector.kernel_packages.model import Configuration, SizeClass, Tried, Tuned, TunedKernel
from ctrace.inspector.kernel_packages.package import KERNELS, Package

LIST = "CONFIGS"
_BEGIN, _END = "<!-- tuned: begin -->", "<!-- tuned: end -->"
MARK = "# Tuned by ctrace"
"""The start of the line above a list that ctrace wrote."""


def best_of(each: SizeClass) -> Tried | None:
    """Return the fastest configuration of a size class; None if none was timed."""
    timed = [one for one in each.tried if one.seconds is not None]
    return min(timed, key=lambda one: one.seconds or 0.0, default=None)


def own_of(kernel: TunedKernel, each: SizeClass) -> Tried | None:
    """Return the kernel's first own configuration in a size class, for comparison."""
    if kernel.current is None:
        return None
    return next((one for one in each.tried if one.configuration.key == kernel.current.key), None)


def chosen(kernel: TunedKernel) -> tuple[tuple[Configuration, tuple[str, ...]], ...]:
    """Return the best configurations, each with the sizes for which it is the fastest."""
    found: dict[tuple[object, ...], tuple[Configuration, list[str]]] = {}
    for each in kernel.classes:
        best = best_of(each)
        if best is not None:
            found.setdefault(best.configuration.key, (best.configuration, []))[1].append(each.sizes)
    return tuple((one, tuple(sizes)) for one, sizes in found.values())


def write_configurations(package: Package, kernel: TunedKernel, device: str) -> bool:
    """Replace the list of configurations in kernel.py, and nothing else of it; return whether it changed.

    Raises:
        TargetError: kernel.py has no such list, or cannot be written.
    """
    file = package.folder / KERNELS
    before = _read(file)
    after = with_configurations(before, chosen(kernel), device, file)
    return _written(file, before, after)


def with_configurations(
    text: str, configurations: Iterable[tuple[Configuration, tuple[str, ...]]], device: str, file: Path
) -> str:
    """Return a kernel.py with another list of configurations.

    Raises:
        TargetError: it has no list, or more than one.
    """
    lists = [each for each in ast.parse(text).body if _is_list(each)]
    if len(lists) != 1:
        what = f"{file} assigns {LIST} {len(lists)} times"
        raise TargetError(what, f"write the configurations once, as {LIST} = [triton.Config(...), ...]")
    node = lists[0]
    lines = text.splitlines()
    first = node.lineno - 1
    if first and lines[first - 1].startswith(MARK):
        first -= 1
    made = [f"{MARK} on {device}: the fastest for each of the sizes in the test, in their order.", f"{LIST} = ["]
    for each, sizes in configurations:
        made.append(f"    {text_of(each)},  # {'; '.join(sizes)}")
    made.append("]")
    return "\n".join([*lines[:first], *made, *lines[node.end_lineno :]]) + "\n"


def _is_list(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() | ast.Tuple()):
            return name == LIST
    return False


def text_of(each: Configuration) -> str:
    """Return a configuration as Python."""
    return f"triton.Config({dict(each.blocks)!r}, num_warps={each.warps}, num_stages={each.stages})"


def write_table(package: Package, tuned: Tuned, kernel: TunedKernel) -> str:
    """Write the table into README.md; return why not, or an empty text.

    A README that the user changed outside of the table stays as it is.
    """
    file = package.folder / "README.md"
    if not file.is_file():
        return f"{file} does not exist, so it has no table"
    before = _read(file)
    bare = _without_table(before)
    known = package.facts.get("files")
    recorded = known.get("README.md") if isinstance(known, dict) else None
    if isinstance(recorded, str) and recorded != hashlib.sha256(bare.encode()).hexdigest():
        return f"{file} was changed, so it stays as it is"
    table = "\n".join([_BEGIN, f"Times per launch on {tuned.device}:", "", *_rows(kernel), _END])
    _written(file, before, f"{bare.rstrip()}\n\n{table}\n")
    return ""


def _without_table(text: str) -> str:
    head, begin, rest = text.partition(_BEGIN)
    return text if not begin else f"{head.rstrip()}\n{rest.partition(_END)[2].lstrip()}"


def _rows(kernel: TunedKernel) -> list[str]:
    rows = ["| sizes | configuration | us | before, us |", "|---|---|---|---|"]
    for each in kernel.classes:
        best, own = best_of(each), own_of(kernel, each)
        if best is not None and best.seconds is not None:
            was = f"{own.seconds * 1e6:.2f}" if own is not None and own.seconds is not None else "not measured"
            rows.append(f"| {each.sizes} | `{text_of(best.configuration)}` | {best.seconds * 1e6:.2f} | {was} |")
    return rows


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise TargetError(f"{file} cannot be read: {error}", "restore it, or eject the kernel again") from None


def _written(file: Path, before: str, after: str) -> bool:
    if before == after:
        return False
    try:
        write_output(file, after)
    except OSError as error:
        raise TargetError(f"{file} cannot be written: {error.strerror}", "check the folder's permissions") from None
    return True
