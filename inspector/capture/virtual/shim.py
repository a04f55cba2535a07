"""The C++ side of a GPU that is not there; see shim.cpp."""

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

_loaded: Any = None


def load(library: Path) -> None:
    """Load the shim into this process; to be called before torch is imported."""
    global _loaded
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or not library.exists():
        return
    folder = Path(spec.origin).parent / "lib"
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
    _loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def show(shown: bool) -> None:
    """Have torch's C++ side see a CUDA device, or none."""
    if _loaded is not None:
        _loaded.ctrace_show_device(int(shown))
