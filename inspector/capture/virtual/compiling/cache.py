"""What was compiled for a GPU, kept between runs by all that it depends on; the least recently used goes first."""

import hashlib
import json
import os
import tempfile
import time
import zlib
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from ctrace.inspector.gpus.gpu import TargetGpu

_FORMAT = 2
"""Of what is kept; to be counted up when that changes."""
_MOST = 1 << 30
"""Bytes that are kept."""
_ENOUGH = 3 * _MOST // 4
"""Bytes that are left when there were more."""

_UNFINISHED = ".unfinished-"
_ABANDONED_SECONDS = 3600
_LARGEST = 1 << 28
"""Bytes of one outcome, unpacked."""

Outcome = dict[str, Any]


def _unpacked(data: bytes) -> bytes:
    """Unpack; bounded, since a few KiB that nobody made with `put` may unpack to gigabytes."""
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(data, _LARGEST)
    if not unpacking.eof:
        raise ValueError("cut short, or too long")
    return unpacked


def _is_outcome(data: Any) -> bool:
    """Whether data has the form of what `put` keeps; what has not is compiled once more."""
    if not isinstance(data, dict) or not {"records", "refused", "error"} <= data.keys():
        return False
    records, refused = data["records"], data["refused"]
    if not isinstance(records, list) or not isinstance(refused, list) or not isinstance(data["error"], str | None):
        return False
    return all(map(_is_record, records)) and all(isinstance(each, dict) for each in refused)


def _is_record(data: Any) -> bool:
    return isinstance(data, list) and len(data) == 2 and isinstance(data[0], str) and isinstance(data[1], dict)


class CompileCache:
    """Outcomes of compiles for one GPU, a file each."""

    def __init__(self, gpu: TargetGpu) -> None:
        self._gpu = gpu
        self._folder = cache_dir() / "triton"

    def key(self, name: str, source: str) -> str:
        """Name what compiles to the same: the source of a kernel, the GPU, the compilers and their switches."""
        return hashlib.sha256(f"{self._surroundings}\n{name}\n{source}".encode("utf-8", "surrogatepass")).hexdigest()

    def get(self, key: str) -> Outcome | None:
        """Give what was kept, unless it is damaged, and mark it as used."""
        file = self._file(key)
        try:
            outcome = json.loads(_unpacked(file.read_bytes()))
            os.utime(file)
        except (OSError, ValueError, RecursionError, zlib.error):
            return None
        return outcome if _is_outcome(outcome) else None

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome.

        Raises:
            OSError: the folder cannot be written.
        """
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=_UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as made:
                made.write(zlib.compress(json.dumps(outcome).encode(), 1))
            Path(name).replace(file)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise

    def trim(self) -> None:
        """Delete what was not used for the longest time, where there is too much, and what was never finished."""
        files = [entry for folder in _entries(self._folder) for entry in _entries(Path(folder.path))]
        _drop_unfinished(files)
        known = sorted((stat.st_mtime, stat.st_size, file.path) for file in files if (stat := _stat(file)))
        size = sum(each[1] for each in known)
        if size <= _MOST:
            return
        for _, freed, path in known:
            if size <= _ENOUGH:
                break
            with suppress(OSError):  # another process was faster, or it is somebody else's
                Path(path).unlink()
                size -= freed

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]

    @cached_property
    def _surroundings(self) -> str:
        """All that what is compiled depends on, but for the source of the kernel."""
        import torch
        import triton
        from torch._inductor import config
        from triton._C.libtriton import get_cache_invalidating_env_vars

        facts = {name: value for name, value in asdict(self._gpu).items() if name not in ("rates", "sources")}
        tools = [_identity(os.environ.get(name)) for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")]
        versions = (torch.__version__, torch.version.git_version, triton.__version__, _identity(triton.__file__))
        # A setting for Intel's GPUs is by default a folder beside the working directory.
        with config.patch({name: "" for name in ("xpu.cutlass_dir",) if hasattr(config, name)}):
            settings = config.get_hash().hex()
        switches = (settings, sorted(get_cache_invalidating_env_vars().items()))
        return repr((_FORMAT, facts, versions, tools, switches))


def _drop_unfinished(files: list["os.DirEntry[str]"]) -> None:
    """Delete what a process left that was killed while it wrote."""
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
    """Give the folder, which may not be there yet: `$CTRACE_CACHE_DIR`, else `ctrace` in the user's cache folder."""
    own = os.environ.get("CTRACE_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else _home() / ".cache") / "ctrace"


def _home() -> Path:
    """Return the user's home folder; of one who has none, a folder that cannot be made, so that nothing is kept."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)
