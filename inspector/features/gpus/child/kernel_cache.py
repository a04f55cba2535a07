"""Cache compiled kernels across runs, keyed by everything that they depend on; evict the least recently used."""

import hashlib
import os
import tempfile
import time
import zlib
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import asdict

from ctrace.inspector.facts.built import Built, KernelCode
from ctrace.inspector.knowledge.gpus.gpu import TargetGpu

_FORMAT = 3
"""Version of the cached data; increase it when the format changes."""
_MOST = 1 << 30
"""Maximum size of the cache in bytes."""
_ENOUGH = 3 * _MOST // 4
"""Size in bytes that trimming reduces the cache to."""

_UNFINISHED = ".unfinished-"
_ABANDONED_SECONDS = 3600
_LARGEST = 1 << 28
"""Maximum bytes of one unpacked outcome."""


class CompiledKernel(Struct, frozen=True):
    """What compiling a kernel gave, for each graph part that calls it."""

    built: tuple[Built, ...]
    """One for each configuration; its stage and the kernel's name are those of no part."""
    codes: tuple[KernelCode, ...]
    refused: dict[str, str]
    """Why a configuration is left out, keyed by its description."""
    problems: tuple[str, ...]
    error: str
    """Why the kernel does not compile."""


def _unpacked(data: bytes) -> bytes:
    """Unpack at most `_LARGEST` bytes: a few KiB that `put` did not write may unpack to gigabytes."""
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(data, _LARGEST)
    if not unpacking.eof:
        raise ValueError("cut short, or too long")
    return unpacked


class CompileCache:
    """Caches the outcomes of compilations for one GPU, one file per kernel."""

    def __init__(self, gpu: TargetGpu) -> None:
        self._gpu = gpu
        self._folder = cache_dir() / "triton"

    def key(self, name: str, source: str) -> str:
        """Return the cache key: a hash of the kernel's source, the GPU, the compilers and their settings."""
        return hashlib.sha256(f"{self._surroundings}\n{name}\n{source}".encode("utf-8", "surrogatepass")).hexdigest()

    def get(self, key: str) -> CompiledKernel | None:
        """Return a kernel's cached outcome and mark it as used; return None if it is missing or damaged."""
        file = self._file(key)
        try:
            outcome = decode(_unpacked(file.read_bytes()), type=CompiledKernel)
            os.utime(file)
        except (OSError, ValueError, RecursionError, zlib.error):
            return None
        return outcome

    def put(self, key: str, outcome: CompiledKernel) -> None:
        """Store an outcome.

        Raises:
            OSError: the folder is not writable.
        """
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=_UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as made:
                made.write(zlib.compress(encode(outcome), 1))
            Path(name).replace(file)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise

    def trim(self) -> None:
        """Delete abandoned files; if the cache is too large, also delete the least recently used outcomes."""
        files = [entry for folder in _entries(self._folder) for entry in _entries(Path(folder.path))]
        _drop_unfinished(files)
        known = sorted((stat.st_mtime, stat.st_size, file.path) for file in files if (stat := _stat(file)))
        size = sum(each[1] for each in known)
        if size <= _MOST:
            return
        for _, freed, path in known:
            if size <= _ENOUGH:
                break
            with suppress(OSError):  # another process deleted it first, or another user owns it
                Path(path).unlink()
                size -= freed

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]

    @cached_property
    def _surroundings(self) -> str:
        """Return everything that a compilation depends on except the kernel's source."""
        import torch
        import triton
        from torch._inductor import config
        from triton._C.libtriton import get_cache_invalidating_env_vars

        facts = {name: value for name, value in asdict(self._gpu).items() if name not in ("rates", "sources")}
        tools = [_identity(os.environ.get(name)) for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")]
        versions = (torch.__version__, torch.version.git_version, triton.__version__, _identity(triton.__file__))
        # The default of this setting for Intel GPUs depends on the working directory, so leave it out of the key.
        with config.patch({name: "" for name in ("xpu.cutlass_dir",) if hasattr(config, name)}):
            settings = config.get_hash().hex()
        switches = (settings, sorted(get_cache_invalidating_env_vars().items()))
        return repr((_FORMAT, facts, versions, tools, switches))


def _drop_unfinished(files: list["os.DirEntry[str]"]) -> None:
    """Delete files of processes that were killed while writing."""
    for file in files:
        stat = _stat(file) if file.name.startswith(_UNFINISHED) else None
        if stat is not None and time.time() - stat.st_mtime > _ABANDONED_SECONDS:
            with suppress(OSError):
                Path(file.path).unlink()


def _identity(path: str | None) -> tuple[str, float, int] | None:
    if not path:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return str(path), found.st_mtime, found.st_size


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _stat(file: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None


def cache_dir() -> Path:
    """Return the cache folder (it may not exist): `$CTRACE_CACHE_DIR`, else `ctrace` in the user's cache folder."""
    own = os.environ.get("CTRACE_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else _home() / ".cache") / "ctrace"


def _home() -> Path:
    """Return the user's home folder; without one, return a path below which no folder, and so no cache, can exist."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)
