"""Compute one digest of everything but the model's files that a run's result depends on, in little time. For libraries,
the digest covers the installed versions; for ctrace and torch, also files. It covers the working directory and the
machine, too: only a repetition of the same command reuses a saved result.
"""

import hashlib
import json
import os
import platform
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ctrace.inspector.install_folders import PACKAGES
from ctrace.inspector.processes.boot import options
from ctrace.inspector.processes.machine import cores
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.settings import settings_at
from ctrace.inspector.version import __version__

_PREFIXES = (
    "TORCH", "PYTORCH", "TRITON", "CTRACE", "PYTHON", "CUDA", "HIP", "XPU", "OMP", "MKL", "ATEN", "GOMP", "KMP",
    "OPENBLAS", "DNNL", "ONEDNN", "NVIDIA", "NCCL", "ROCR", "HSA", "LD_", "LC_", "MALLOC", "GLIBC", "RUST", "RAYON",
    "TOKENIZERS", "NETWORKX", "TQDM",
)  # fmt: skip
"""Variables that native code reads, or Python before a model is loaded."""
_GPU_DEVICES = ("nvidia", "kfd", "dri", "dxg", "accel")
_NAMES = ("LANG", "LANGUAGE", "TZ")
_WHERE_RUNS_GO = "CTRACE_DIR"
_CHANGING = ("_", "SHLVL", "OLDPWD", _WHERE_RUNS_GO)
"""Variables to ignore: those that a shell changes from command to command, and the one that names the cache folder."""


class Circumstances:
    """Computes a digest for each run of one command."""

    def __init__(self, root: Path, owned: Iterable[str]) -> None:
        """Record the state of this process and its installation.

        `root` is the folder that paths are relative to; `owned` names code of the user in addition to the settings.

        Raises:
            SettingsError: `[tool.ctrace]` in pyproject.toml is wrong.
            OSError: the installation cannot be read.
            ValueError: a file of settings is not a regular file.
        """
        here = Path.cwd()
        settings = settings_at(here)
        self._shared = {
            "cwd": str(here),
            "root": str(root),
            "owned": [*settings.owned, *owned],
            "gpus": [file_digest(Path(each)) for each in settings.gpus],
            "python": [sys.version, sys.executable, *options(sys.orig_argv)],
            "machine": [
                platform.node(),
                platform.machine(),
                platform.release(),
                platform.version(),
                str(cores()),
                *_processor(),
                *_gpus(),
            ],
            "user": getattr(os, "getuid", int)(),
            "ctrace": [__version__, _digest_of(_stamps(PACKAGES))],
            "torch": _torch(),
            "installed": _installed(),
            "variables": _variables(lambda name: name.startswith(_PREFIXES) or name in _NAMES),
        }

    def digest(self, key: Any, target: str, options: Options) -> str:
        """Return one digest of a run and of everything but the model's files that its result depends on.

        `key` is what else its result depends on, as plain data.
        """
        return _digest_of({**self._shared, "key": str(key), "target": target, "options": to_builtins(options)})


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a regular file; refuse a pipe, whose content may never end.

    Raises:
        OSError: it cannot be read.
        ValueError: it is a pipe or a device.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()


def _variables(is_included: Any) -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _CHANGING and is_included(name)}


def _processor() -> list[str]:
    """Return the model and the instructions of the first core, where Linux says it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            lines = file.read(1 << 13).splitlines()
    except OSError:
        return []
    # The first core's lines are enough, and the flags say which vector instructions Inductor may use.
    return [line for line in lines if line.startswith(("model name", "flags", "Features"))][:2]


def _gpus() -> list[str]:
    """Return the GPUs that have a driver, and the driver's version (Linux)."""
    # The devices, because to ask a driver takes seconds.
    devices = os.listdir("/dev") if os.path.isdir("/dev") else []  # noqa: PTH208, PTH112
    found = sorted(name for name in devices if name.startswith(_GPU_DEVICES))
    try:
        return [*found, Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")]
    except OSError:
        return found


def _torch() -> list[str]:
    """Return the digest of torch's version file, which also names the commit it was built from."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return []
    version = Path(spec.origin).with_name("version.py")
    return [spec.origin, file_digest(version) if version.is_file() else ""]


def _installed() -> list[tuple[str, ...]]:
    """Return the names and versions of the installed packages, from their metadata folders, and the files that Python
    runs when it starts."""
    found: set[tuple[str, ...]] = set()
    for folder in filter(os.path.isdir, sys.path):
        # Names alone: a metadata folder has the version in its name.
        for name in os.listdir(folder):  # noqa: PTH208
            if name.endswith((".dist-info", ".egg-info")):
                found.add((name,))
            elif name.endswith((".pth", ".egg-link")):
                found.add((name, file_digest(Path(folder, name))))
    return sorted(found)


def _stamps(folder: Path) -> list[tuple[str, int, int, int]]:
    """Return size and times of each of ctrace's files, so that an edited checkout counts as new."""
    rooms = ("cli", "inspector", "reports", "ctrace")
    return sorted(each for room in rooms for each in _below(str(folder / room)))


def _below(folder: str) -> Iterator[tuple[str, int, int, int]]:
    if not os.path.isdir(folder):  # noqa: PTH112 - an installed ctrace contains no folder `ctrace`
        return
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                if each.name != "__pycache__":
                    yield from _below(each.path)
            else:
                found = each.stat()
                yield each.path, found.st_size, found.st_mtime_ns, found.st_ctime_ns
