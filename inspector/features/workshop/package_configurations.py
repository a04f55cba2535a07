"""Choose the configurations to keep, and write them into a package: the list in kernel.py, the table in its README."""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.features.workshop.kernel_package import KERNELS, KernelPackage
from ctrace.inspector.features.workshop.package_model import (
    KernelConfiguration,
    PackageTuning,
    SizeClass,
    TriedConfiguration,
    TunedConfigurations,
)
from ctrace.inspector.files.writing import write_output
from ctrace.inspector.findings.ratios import RatioVerdict, compared

LIST = "CONFIGS"
_BEGIN, _END = "<!-- tuned: begin -->", "<!-- tuned: end -->"
MARK = "# Tuned by ctrace"
"""The start of the line above a list that ctrace wrote."""


Rounds = Sequence[float]
"""Seconds of a launch, one for each round; configurations that are compared take turns in each round."""


def faster_of(present: Rounds, others: Mapping[int, Rounds]) -> int | None:
    """Return the key of the configuration that is surely the fastest; None if none is measurably faster than `present`.

    A launch that takes as long as another one does so only within noise, and the fastest of many is fast by chance. So
    these are rounds of their own, which did not choose the candidates, and both ends of the interval count.
    """
    found = {key: compared(present, rounds) for key, rounds in others.items()}
    # By the lower end: the best of many is often one whose times vary most.
    faster = {key: each.ratio.low for key, each in found.items() if each.verdict is RatioVerdict.FASTER}
    return max(faster, key=lambda key: faster[key], default=None)


def best_of(each: SizeClass) -> TriedConfiguration | None:
    """Return the configuration to keep for a size class; None if none was timed."""
    if each.best is None:
        return None
    return _tried(each, each.best)


def own_of(kernel: TunedConfigurations, each: SizeClass) -> TriedConfiguration | None:
    """Return the fastest of the present configurations in a size class, for comparison."""
    tried = [one for own in kernel.present if (one := _tried(each, own)) is not None]
    return min((one for one in tried if one.seconds is not None), key=lambda one: one.seconds or 0.0, default=None)


def _tried(each: SizeClass, configuration: KernelConfiguration) -> TriedConfiguration | None:
    return next((one for one in each.tried if one.configuration.key == configuration.key), None)


def chosen(kernel: TunedConfigurations) -> tuple[tuple[KernelConfiguration, tuple[str, ...]], ...]:
    """Return the configurations to keep, each with its sizes; none if the present ones are as good for all sizes."""
    present = {each.key for each in kernel.present}
    found: dict[tuple[object, ...], tuple[KernelConfiguration, list[str]]] = {}
    for each in kernel.classes:
        if each.best is not None:
            found.setdefault(each.best.key, (each.best, []))[1].append(each.sizes)
    # A list that has all of them stays as the user ordered it.
    if found.keys() <= present:
        return ()
    return tuple((one, tuple(sizes)) for one, sizes in found.values())


def with_kernels(packages: Iterable[KernelPackage], wanted: Iterable[str]) -> tuple[KernelPackage, ...]:
    """Return the packages that have one of the kernels; all of them if none is named.

    Raises:
        TargetError: a kernel.py cannot be read, or no package has a kernel of one of the names.
    """
    names = set(wanted)
    if not names:
        return tuple(packages)
    known = [(each, frozenset(_kernels(ast.parse(_read(each.folder / KERNELS))))) for each in packages]
    every = sorted(frozenset().union(*(found for _package, found in known)))
    for name in sorted(names.difference(every)):
        what = f"no kernel of {', '.join(str(each.folder) for each, _found in known)} is called {name}"
        raise TargetError(what, did_you_mean(name, every, f"they are {', '.join(every)}"))
    return tuple(each for each, found in known if found & names)


def write_configurations(package: KernelPackage, kernel: TunedConfigurations, device: str) -> bool:
    """Replace the list of configurations in kernel.py, and nothing else of it; return whether it changed.

    Raises:
        TargetError: kernel.py has no such list, or cannot be written.
    """
    file = package.folder / KERNELS
    before = _read(file)
    after = with_configurations(before, kernel.kernel, chosen(kernel), device, file)
    return _written(file, before, after)


def with_configurations(
    text: str,
    kernel: str,
    configurations: Iterable[tuple[KernelConfiguration, tuple[str, ...]]],
    device: str,
    file: Path,
) -> str:
    """Return a kernel.py with another list of configurations for one of its kernels.

    Raises:
        TargetError: the kernel has no list of its own, or it is assigned more than once.
    """
    tree = ast.parse(text)
    name = _list_of(tree, kernel)
    lists = [each for each in tree.body if _is_list(each, name)]
    if len(lists) != 1:
        what = f"{file} assigns {name} {len(lists)} times"
        raise TargetError(what, f"write the configurations once, as {name} = [triton.Config(...), ...]")
    others = [other for other in _kernels(tree) if other != kernel and _list_of(tree, other) == name]
    if others:
        what = f"{file}: {kernel} and {', '.join(others)} have the same list {name}"
        raise TargetError(what, "give each kernel a list of its own")
    node = lists[0]
    lines = text.splitlines()
    first = node.lineno - 1
    # The line above is of an earlier tuning, and says what held then.
    if first and lines[first - 1].startswith(MARK):
        first -= 1
    made = [f"{MARK} on {device}: the fastest for each of the sizes in the test, in their order.", f"{name} = ["]
    for each, sizes in configurations:
        made.append(f"    {text_of(each)},  # {'; '.join(sizes)}")
    made.append("]")
    return "\n".join([*lines[:first], *made, *lines[node.end_lineno :]]) + "\n"


def _kernels(tree: ast.Module) -> Iterator[str]:
    """Yield the functions that `triton.autotune` decorates."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("autotune" in ast.unparse(each) for each in node.decorator_list):
            yield node.name


def _list_of(tree: ast.Module, kernel: str) -> str:
    """Return the name of the list that a kernel's `triton.autotune` takes; CONFIGS if it has no name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == kernel:
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and "autotune" in ast.unparse(call.func):
                    named = [each.value for each in call.keywords if each.arg == "configs"]
                    value = next(iter((*named, *call.args)), None)
                    if isinstance(value, ast.Name):
                        return value.id
                    return LIST
    return LIST


def _is_list(node: ast.stmt, wanted: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() | ast.Tuple()):
            return name == wanted
    return False


def text_of(each: KernelConfiguration) -> str:
    """Return a configuration as Python."""
    return f"triton.Config({dict(each.blocks)!r}, num_warps={each.warps}, num_stages={each.stages})"


def write_table(package: KernelPackage, tuned: PackageTuning) -> str:
    """Write the table of each kernel into README.md; return why not, or an empty text.

    A README that the user changed outside of the table stays as it is.
    """
    file = package.folder / "README.md"
    if not file.is_file():
        return f"{file} does not exist, so it has no table"
    before = _read(file)
    bare = _without_table(before)
    known = package.facts.get("files")
    recorded = None
    # What ctrace.json says is untrusted: this may be anything.
    if isinstance(known, dict):
        recorded = known.get("README.md")
    if isinstance(recorded, str) and recorded != hashlib.sha256(bare.encode()).hexdigest():
        return f"{file} was changed, so it stays as it is"
    tables = [
        line
        for kernel in tuned.kernels
        for line in (f"Times per launch of `{kernel.kernel}` on {tuned.device}:", "", *_rows(kernel), "")
    ]
    table = "\n".join([_BEGIN, *tables[:-1], _END])
    _written(file, before, f"{bare.rstrip()}\n\n{table}\n")
    return ""


def _without_table(text: str) -> str:
    head, begin, rest = text.partition(_BEGIN)
    if not begin:
        return text
    return f"{head.rstrip()}\n{rest.partition(_END)[2].lstrip()}"


def _rows(kernel: TunedConfigurations) -> list[str]:
    rows = ["| sizes | configuration | us | before, us |", "|---|---|---|---|"]
    for each in kernel.classes:
        best, own = best_of(each), own_of(kernel, each)
        if best is not None and best.seconds is not None:
            was = "not measured"
            if own is not None and own.seconds is not None:
                was = f"{own.seconds * 1e6:.2f}"
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
