"""Record the versions, device and folders of the capturing process."""

import os
import platform
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import ModuleType

from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.run_events import DeviceUsed, Started, TorchFound
from ctrace.inspector.install_folders import INSPECTOR
from ctrace.inspector.log.log_line import LOG_SCHEMA
from ctrace.inspector.version import __version__


def environment(owned: Iterable[str], seed: int | None = None) -> Hook:
    """Make the hook that records the environment; `owned` are paths that count as the user's, `seed` what random
    numbers start with.
    """

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        with _recorded(recorder, when, dict.fromkeys(owned, Owner.USER), seed):
            yield

    return hook


@contextmanager
def _recorded(recorder: Recorder, when: When, owned: dict[str, Owner], seed: int | None) -> Iterator[None]:
    """Record the folders of ctrace and Python at the start, torch's when it is imported, and the device at the end."""
    recorder.add(
        Started(
            schema=LOG_SCHEMA,
            ctrace=__version__,
            python=platform.python_version(),
            triton=_triton_version(),
            cwd=str(Path.cwd()),
            home=str(INSPECTOR),
            # The user's paths last: a model inside of site-packages is still the user's code.
            prefixes={**library_prefixes(), **owned},
            seed=seed,
        )
    )

    def imported(torch: ModuleType) -> None:
        file = Path(torch.__file__ or "")
        folders = {str(file.parent), str(file.resolve().parent)}  # behind a link, frames have the first, hooks either
        recorder.add(TorchFound(str(torch.__version__), dict.fromkeys(sorted(folders), Owner.TORCH)))

    # The version that the program imports, not the one that is installed where ctrace runs.
    when("torch", imported)
    try:
        yield
    finally:
        with recorder.watching("the device"):
            # At the end: a program may initialize its GPU late, or not at all.
            recorder.add(DeviceUsed(_device()))


def _triton_version() -> str | None:
    try:
        # Not by an import: the program may never import triton, and hooks wait for it to do so.
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def library_prefixes() -> dict[str, Owner]:
    """Return the folders of the standard library and installed packages, both as Python spells them and resolved."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    # A .pth file or PYTHONPATH adds the packages of another environment.
    folders |= {path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")}  # noqa: PTH119
    # ctrace calls the model, too; in a checkout it is not an installed package.
    folders.add(str(INSPECTOR))
    return {spelling: Owner.LIBRARY for folder in folders for spelling in (folder, os.path.realpath(folder))}


def _device() -> str:
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    # `get_device_name` initializes CUDA (torch/cuda/__init__.py), which a program on the CPU has not done.
    if cuda is not None and cuda.is_initialized():
        return str(cuda.get_device_name())
    return "cpu"
