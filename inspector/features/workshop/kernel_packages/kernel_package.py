"""Find a kernel package on disk and read what it says about itself. Its `ctrace.json` is data; its code runs later."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.files.typed_json import read_object

FACTS = "ctrace.json"
KERNELS = "kernel.py"


class KernelPackage(Struct, frozen=True):
    """A package that `ctrace kernels eject` wrote."""

    folder: Path
    """The folder with `__init__.py`."""
    facts: Mapping[str, Any]
    """What `ctrace.json` says; untrusted."""

    @property
    def name(self) -> str:
        """The name to import."""
        return self.folder.name

    @property
    def root(self) -> Path:
        """The folder to put on `sys.path`."""
        return self.folder.absolute().parent

    def files(self) -> Iterator[Path]:
        """Yield its Python files."""
        yield from sorted(self.folder.glob("*.py"))

    def watched(self) -> Iterator[Path]:
        """Yield the files whose changes matter: Python, and the source of a kernel in C++."""
        yield from (*self.files(), *sorted(self.folder.glob("*.cpp")))


def packages_in(folder: str) -> tuple[KernelPackage, ...]:
    """Read the packages in a folder, or the package that the folder is.

    Raises:
        TargetError: there is none, or one of its files cannot be read or parsed.
    """
    return tuple(map(package_at, found_in(folder)))


def found_in(folder: str) -> list[Path]:
    """Find the folders of the packages in a folder, or the folder itself.

    Raises:
        TargetError: there is none.
    """
    path = Path(folder)
    try:
        if path.is_file():
            raise TargetError(f"{folder} is a file", "name the folder that ctrace kernels eject -o wrote")
        if not path.is_dir():
            near = did_you_mean(path.name, _folders(path.parent), "name the folder that ctrace kernels eject -o wrote")
            raise TargetError(f"there is no folder {folder}", near)
        found = [path] if (path / FACTS).is_file() else sorted(each.parent for each in path.glob(f"*/{FACTS}"))
    except (OSError, ValueError) as error:
        raise TargetError(f"{folder} cannot be read: {error}", "name a folder") from None
    if not found:
        what = f"{folder} has no kernel package: there is no {FACTS} in it or one level below"
        raise TargetError(what, f"write one: ctrace kernels eject NAME -o {folder}")
    return found


def package_at(folder: Path) -> KernelPackage:
    """Read the package in a folder.

    Raises:
        TargetError: one of its files cannot be read or parsed.
    """
    package = KernelPackage(folder, _facts(folder / FACTS))
    check_parses(package)
    return package


def bare_package(folder: Path) -> KernelPackage:
    """Return a package of which only the files matter, whatever they contain."""
    return KernelPackage(folder, {})


def _folders(parent: Path) -> list[str]:
    if parent.is_dir():
        return [each.name for each in parent.iterdir() if each.is_dir()]
    return []


def _facts(file: Path) -> dict[str, Any]:
    try:
        return read_object(file)
    except (OSError, ValueError) as error:
        what = f"{file} cannot be read: {error}"
        raise TargetError(what, "restore it, or eject the kernel again into an empty folder") from None


def check_parses(package: KernelPackage) -> None:
    """Refuse a package that Python cannot read.

    Raises:
        TargetError: one of its files does not parse, or `__init__.py` is missing.
    """
    if not (package.folder / "__init__.py").is_file():
        raise TargetError(f"{package.folder} has no __init__.py", "eject the kernel again into an empty folder")
    for file in package.files():
        try:
            ast.parse(file.read_text(encoding="utf-8"), str(file))
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = f"{file}, line {line}" if line else str(file)
            what = f"{where}: {getattr(error, 'msg', error)}"
            raise TargetError(what, "correct the file; Python cannot read it") from None
        except OSError as error:
            raise TargetError(f"{file} cannot be read: {error.strerror}", "check the file's permissions") from None
