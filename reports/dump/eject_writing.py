"""Write packages of ejected kernels into a folder; never overwrite a file that was changed.

A package has `kernel.py`, the kernel as plain Triton; `op.py`, the operator around it with its definition in PyTorch
operators, its gradient and its FLOPs; `place.py` (the region as data, and what finds and replaces it in graphs that
torch.compile makes), `cases.py` and `test_<op>.py` (what it is checked on; the tests need nothing beside them), and
`README.md`.
"""

import hashlib
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from ctrace.inspector.errors import DumpError
from ctrace.inspector.facts.kernel_facts import Kernel
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage
from ctrace.inspector.features.workshop.kernel_region import RegionTensor
from ctrace.inspector.findings.target_gpu_view import TargetDevice, target_of
from ctrace.inspector.version import __version__
from ctrace.reports.dump.dump_folder import Folder
from ctrace.reports.dump.package_files import NAMESPACE, package_files

INDEX = "ctrace.json"


class Written(Struct, frozen=True):
    """A package on disk."""

    package: EjectedPackage
    folder: Path
    files: tuple[str, ...]


class Ejected(Struct, frozen=True):
    """A kernel, and its package or why there is none."""

    JSON: ClassVar[str] = (
        "kernel=kernel.name graph=kernel.graph stage=kernel.stage lines=kernel.lines "
        "op=written.package.name package=written.folder files "
        "refused=why|null_if_empty instead|null_if_empty"
    )
    kernel: Kernel
    written: Written | None
    why: str = ""
    instead: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the package."""
        return self.written.files if self.written else ()


class EjectDocument(RunDocument, frozen=True, kw_only=True):
    """The kernels that were to be ejected, and their packages."""

    JSON: ClassVar[str] = "schema target_gpu kernels problems"
    target_gpu: TargetDevice | None
    kernels: tuple[Ejected, ...]
    model: str = ""
    """What the kernels come from, as `ctrace kernels apply` takes it; empty: not known."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of the run."""
        return tuple(each.what for each in self.run.problems)


def write_package(session: Session, package: EjectedPackage, folder: Path) -> Written:
    """Write a package into `folder / package.name`.

    Raises:
        DumpError: the folder has other files or changed ones, or cannot be written.
    """
    path = folder / package.name
    target = Folder(path, INDEX)
    target.begin()
    files = package_files(package)
    for name, content in files.items():
        target.write(name, content)
    target.finish(_origin(session, package))
    return Written(package, path, (*files, INDEX))


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


def _origin(session: Session, package: EjectedPackage) -> dict[str, Any]:
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


def _tensor(package: EjectedPackage, each: RegionTensor) -> dict[str, Any]:
    return {
        "name": each.name,
        "node": each.node,
        "label": each.label or None,
        "dtype": each.dtype,
        "shape": [package.text(size) for size in each.shape],
        "stride": [package.text(size) for size in each.stride],
    }
