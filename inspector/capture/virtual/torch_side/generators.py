"""The random generator of a GPU that is not there.

Where forward and backward must draw the same numbers (dropout inside of an attention that is checkpointed), AOTAutograd
hands both a copy of the device's generator (2.11 to 2.13, _functorch/partitioners.py and _inductor/ir.py). Nothing is
drawn while code is emitted; only the device of a generator is read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched


@contextmanager
def one_generator() -> Iterator[None]:
    """Let there be one default generator of CUDA's."""
    import torch

    with patched(torch.cuda, "default_generators", (_generator(),)):
        yield


def _generator() -> Any:
    import torch

    class Generator(torch.Generator):
        @property
        def device(self) -> Any:  # type: ignore[override]  # the stubs have it writable, but C++ does not
            return torch.device("cuda", 0)

        def clone_state(self) -> Any:
            return Generator()

    return Generator()
