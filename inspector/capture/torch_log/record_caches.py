"""Switch torch's graph caches off, because a hit would hide AOTAutograd, passes and fusion; isolate Triton's cache.

The user's caches do not change.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
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
    """Compile every graph without caches."""
    with ExitStack() as patches:

        def install(config: ModuleType) -> None:
            with recorder.watching("compiling without caches"):
                for name in _SWITCHES[config.__name__]:
                    # As soon as the settings exist: Dynamo's backends read them at each compilation.
                    patches.enter_context(patched(config, name, False))

        for module in _SWITCHES:
            when(module, install)
        yield


@contextmanager
def own_triton_cache(recorder: Recorder, when: When) -> Iterator[None]:
    """Use an empty Triton cache, so that every kernel is compiled and measured; leave the user's cache alone.

    Triton and Inductor read the environment at each use (2.11 to 2.13, _inductor/runtime/runtime_utils.py). Inductor
    keeps kernels that this process has loaded in memory, and they look for their binary in the folder that was used
    then ("Cubin file saved by TritonBundler not found", 2.11, runtime/triton_heuristics.py). So drop such kernels at
    the start of a capture. At its end, drop the kernels that it has loaded, together with the folder.
    """
    with ExitStack() as replaced:

        def forget(codecache: ModuleType) -> None:
            with recorder.watching("reloading kernels"):
                replaced.enter_context(patched(codecache.PyCodeCache, "modules_no_attr", {}))

        def install(_triton: ModuleType) -> None:
            folder = tempfile.TemporaryDirectory(prefix="ctrace-triton-", ignore_cleanup_errors=True)
            replaced.enter_context(_environment(_TRITON_CACHE, replaced.enter_context(folder)))

        when("triton", install)
        when("torch._inductor.codecache", forget)
        yield


@contextmanager
def own_autotuning_cache(recorder: Recorder, when: When) -> Iterator[None]:
    """Use an empty cache of autotuning's times, so that every choice is timed; leave the user's cache alone.

    Torch keeps them in one file of its cache folder (`CacheBase`, 2.11 to 2.15, _inductor/codecache.py).
    """
    with ExitStack() as replaced:

        def install(codecache: ModuleType) -> None:
            with recorder.watching("timing without a cache"):
                folder = tempfile.TemporaryDirectory(prefix="ctrace-autotune-", ignore_cleanup_errors=True)
                file = Path(replaced.enter_context(folder)) / "times"
                where = staticmethod(lambda: file)
                replaced.enter_context(patched(codecache.CacheBase, "get_local_cache_path", where))

        when("torch._inductor.codecache", install)
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
