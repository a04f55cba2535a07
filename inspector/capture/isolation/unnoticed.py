"""Restore the states that a second run may change: generators, current GPU and stream, recording of gradients."""

from collections.abc import Iterator
from contextlib import contextmanager

from ctrace.inspector.capture.isolation.allocator_statistics import excluded
from ctrace.inspector.capture.isolation.random_states import RandomStates


@contextmanager
def unnoticed() -> Iterator[RandomStates]:
    """Keep the program from noticing what the block runs; yield the states of the generators before it.

    Memory is not a state: the block itself must write only to memory that it allocates.
    """
    import torch

    # The states are read before anything of the block, which may draw while it prepares.
    random, grad = RandomStates(), torch.is_grad_enabled()
    # The program may read its peak of memory, which the block's copies would raise.
    with excluded(), _same_stream():
        try:
            yield random
        finally:
            random.restore()
            if torch.is_grad_enabled() != grad:
                torch.set_grad_enabled(grad)


@contextmanager
def _same_stream() -> Iterator[None]:
    import torch

    # Asking for the current stream would set up the GPU.
    if not torch.cuda.is_initialized():
        yield
        return
    device, stream = torch.cuda.current_device(), torch.cuda.current_stream()
    try:
        yield
    finally:
        if torch.cuda.current_device() != device:
            # The device first, because a stream belongs to one.
            torch.cuda.set_device(device)
        if torch.cuda.current_stream() != stream:
            torch.cuda.set_stream(stream)
