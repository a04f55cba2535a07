"""Switch torch's graph caches off: a hit would hide AOTAutograd, passes and fusion.

What the user has cached stays as it is.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType

from ctrace.inspector.capture.patch import patched
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.sources import When

_SWITCHES = {
    "torch._inductor.config": ("fx_graph_cache", "fx_graph_remote_cache"),
    "torch._functorch.config": ("enable_autograd_cache", "enable_remote_autograd_cache"),
}


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
