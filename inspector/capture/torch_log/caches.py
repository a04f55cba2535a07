"""Switch torch's graph caches off: a hit would hide AOTAutograd, passes and fusion. Give Triton a cache of our own.

What the user has cached stays as it is.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When

_SWITCHES = {
    "torch._inductor.config": ("fx_graph_cache", "fx_graph_remote_cache"),
    "torch._functorch.config": ("enable_autograd_cache", "enable_remote_autograd_cache"),
}
_TRITON_CACHE = "TRITON_CACHE_DIR"


@contextmanager
def no_caches(recorder: Recorder, when: When) -> Iterator[None]:
    """Compile every graph anew."""
    with ExitStack() as patches:

        def install(config: ModuleType) -> None:
            with recorder.watching("compiling without caches"):
                for name in _SWITCHES[config.__name__]:
                    patches.enter_context(patched(config, name, False))

        for module in _SWITCHES:
            when(module, install)
        yield


@contextmanager
def own_triton_cache(recorder: Recorder, when: When) -> Iterator[None]:
    """Have Triton compile every kernel anew, so that its times can be measured, and leave the user's cache alone.

    Triton and Inductor ask the environment at each use (2.11 to 2.13, _inductor/runtime/runtime_utils.py). A kernel
    that this process has loaded before is kept by Inductor in memory and looks for its binary in the folder of then
    ("Cubin file saved by TritonBundler not found", 2.11, runtime/triton_heuristics.py); so a capture begins without
    such kernels, and what it loads is forgotten at its end together with the folder.
    """
    with ExitStack() as replaced:

        def forget(codecache: ModuleType) -> None:
            with recorder.watching("loading kernels anew"):
                replaced.enter_context(patched(codecache.PyCodeCache, "modules_no_attr", {}))

        def install(_triton: ModuleType) -> None:
            folder = tempfile.TemporaryDirectory(prefix="ctrace-triton-", ignore_cleanup_errors=True)
            replaced.enter_context(_environment(_TRITON_CACHE, replaced.enter_context(folder)))

        when("triton", install)
        when("torch._inductor.codecache", forget)
        yield


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
