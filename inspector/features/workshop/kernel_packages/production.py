"""Show how a program uses a package without ctrace: one import and `install()`, or the operator in the model's code."""

import ast
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ctrace.inspector.features.workshop.kernel_packages.model import Applied, Place
from ctrace.inspector.features.workshop.kernel_packages.package import Package
from ctrace.inspector.runs.target import ModelTarget


def diffs_of(packages: Sequence[Package], target: ModelTarget, found: Applied) -> tuple[str, ...]:
    """Return a diff for each way; for a model that is named by its module, of a file `model.py`."""
    path = target.path or Path("model.py")
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if target.path is not None else []
    except (OSError, ValueError):
        lines = []
    diffs = [
        _diff(path, lines, _with_install(packages, lines), "1. install the replacement once, before torch.compile")
    ]
    for package in packages:
        called = _with_call(package, path, lines, [each for each in found.places if _is_of(package, each)])
        if called is not None:
            title = "2. or call the operator in the model's code: put the model's own values for its arguments"
            diffs.append(_diff(path, lines, called, title))
    return tuple(diffs)


def _is_of(package: Package, place: Place) -> bool:
    return place.operator.rpartition("::")[2] == _operator(package)[0]


def _diff(path: Path, before: list[str], after: list[str], title: str) -> str:
    made = difflib.unified_diff(before, after, str(path), str(path), lineterm="", n=1)
    return "\n".join([f"# {title}", *made])


def _with_install(packages: Sequence[Package], lines: list[str]) -> list[str]:
    at = _after_imports(lines)
    names = [each.name for each in packages]
    return [*lines[:at], *(f"import {name}" for name in names), *(f"{name}.install()" for name in names), *lines[at:]]


def _after_imports(lines: list[str]) -> int:
    """Return the index behind the last import at the top of a file."""
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return 0
    ends = [each.end_lineno or 0 for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    return max(ends, default=0)


def _with_call(package: Package, path: Path, lines: list[str], places: Iterable[Place]) -> list[str] | None:
    """Return the file with the operator's call at the lines of the region; None if the region has none in this file."""
    numbers = sorted({number for each in places if (number := _line_in(path, each)) is not None})
    function, arguments = _operator(package)
    if not numbers or not function:
        return None
    made = list(lines)
    for number in reversed(numbers):
        text = lines[number - 1]
        indent = text[: len(text) - len(text.lstrip())]
        made[number - 1 : number] = [f"{indent}{_assigned(text)}{package.name}.{function}({arguments})"]
    at = _after_imports(lines)
    return [*made[:at], f"import {package.name}", *made[at:]]


def _line_in(path: Path, place: Place) -> int | None:
    file, _, line = (place.line or "").rpartition(":")
    return int(line) if place.applied and line.isdigit() and Path(file).name == path.name else None


def _assigned(text: str) -> str:
    """Return the start of a statement that stays: `x = ` or `return `."""
    try:
        node = ast.parse(text.strip()).body[0]
    except (SyntaxError, IndexError):
        return ""
    match node:
        case ast.Assign(targets=targets):
            return "".join(f"{ast.unparse(each)} = " for each in targets)
        case ast.Return():
            return "return "
    return ""


def _operator(package: Package) -> tuple[str, str]:
    """Return the name and the arguments of the package's operator, read from its source."""
    for file in package.files():
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(map(_makes_operator, node.decorator_list)):
                return node.name, ", ".join(each.arg for each in node.args.args)
    return "", ""


def _makes_operator(decorator: ast.expr) -> bool:
    return any(name in ast.unparse(decorator) for name in ("triton_op", "custom_op"))
