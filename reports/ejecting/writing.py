"""Write packages of ejected kernels into a folder; never overwrite a file that was changed."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.errors import DumpError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.workshop.ejecting.package import Package
from ctrace.inspector.findings.target.view import target_of
from ctrace.inspector.install_folders import PACKAGES
from ctrace.inspector.version import __version__
from ctrace.reports.dump.folder import Folder
from ctrace.reports.ejecting.kernel_file import kernel_file
from ctrace.reports.ejecting.op_file import NAMESPACE, op_file
from ctrace.reports.ejecting.place_file import place_file
from ctrace.reports.ejecting.readme import readme
from ctrace.reports.ejecting.test_file import cases_file, test_file
from ctrace.reports.ejecting.texts import text

INDEX = "ctrace.json"
CHECKS = PACKAGES / "inspector/features/workshop/child/checks.py"
"""What the commands check a kernel with; a package has a copy, since its tests do not need ctrace."""


class Written(Struct, frozen=True):
    """A package on disk."""

    package: Package
    folder: Path
    files: tuple[str, ...]


def write_package(session: Session, package: Package, folder: Path) -> Written:
    """Write a package into `folder / package.name`.

    Raises:
        DumpError: the folder has other files or changed ones, or cannot be written.
    """
    path = folder / package.name
    target = Folder(path, INDEX)
    target.begin()
    files = {
        "__init__.py": _init(package),
        **_kernel_files(package),
        "op.py": op_file(package),
        "place.py": place_file(package),
        "sources.py": text("sources"),
        "cases.py": cases_file(package),
        "checks.py": CHECKS.read_text(encoding="utf-8"),
        f"test_{package.name}.py": test_file(package),
        "bench.py": text("bench" if package.cpp is None else "bench_cpp").replace("$NAME$", package.name),
        "README.md": readme(package),
    }
    for name, content in files.items():
        target.write(name, content)
    target.finish(_origin(session, package))
    return Written(package, path, (*files, INDEX))


def _kernel_files(package: Package) -> dict[str, str]:
    if package.cpp is None:
        return {"kernel.py": kernel_file(package)}
    loading = text("kernel_cpp").replace("@NAME@", package.name).replace("@CAPABILITY@", package.cpp.capability)
    return {"kernel.py": loading, "kernel.cpp": package.cpp.source.strip("\n") + "\n"}


def make_folder(folder: Path) -> None:
    """Make the folder of the packages.

    Raises:
        DumpError: it is a file, or cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise DumpError(f"{folder} is a file", "name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DumpError(
            f"{folder} cannot be made: {error.strerror or error}", "name a folder that you may write to"
        ) from None


def _init(package: Package) -> str:
    return (
        f'"""`{package.name}`: a kernel of torch.compile as an operator. `install()` puts it back."""\n\n'
        f"from .op import {package.name}\n"
        "from .place import install, uninstall\n\n"
        f'__all__ = ["{package.name}", "install", "uninstall"]\n'
    )


def _origin(session: Session, package: Package) -> dict[str, Any]:
    gpu = target_of(session)
    return {
        "ctrace": __version__,
        "op": package.name,
        "namespace": NAMESPACE,
        "kernel": package.kernel.name,
        "kernels": [part.kernel.name for part in package.parts],
        "functions": [part.name for part in package.parts],
        "graph": package.kernel.graph,
        "stage": str(package.kernel.stage),
        "lines": list(package.lines),
        "model": {"path": session.target.path, "name": session.target.name},
        "torch": session.environment.torch,
        "triton": session.environment.triton,
        "target_gpu": gpu.name if gpu is not None else None,
        "source_sha256": hashlib.sha256(package.kernel.source.encode("utf-8", "replace")).hexdigest(),
        "inputs": [_tensor(package, each) for each in package.region.inputs],
        "outputs": [_tensor(package, each) for each in package.region.outputs],
        "sizes": {each.name: {"from": each.source or None, "captured": each.hint} for each in package.sizes},
        "configs": [
            {"blocks": dict(each.blocks), "num_warps": each.warps, "num_stages": each.stages}
            for each in package.parts[-1].triton.configs
        ],
        "calls": package.kernel.calls,
    }


def _tensor(package: Package, each: Any) -> dict[str, Any]:
    return {
        "name": each.name,
        "node": each.node,
        "label": each.label or None,
        "dtype": each.dtype,
        "shape": [package.text(size) for size in each.shape],
        "stride": [package.text(size) for size in each.stride],
    }


def packages_in(folder: Path) -> Iterable[Path]:
    """Yield the packages in a folder, which may itself be one."""
    if (folder / INDEX).is_file():
        yield folder
        return
    for each in sorted(folder.iterdir()):
        if (each / INDEX).is_file():
            yield each
