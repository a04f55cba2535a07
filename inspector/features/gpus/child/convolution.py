"""Choose the memory format of a convolution's result on the target GPU, as cuDNN does.

Fake tensors ask C++ which library runs a convolution and how it lays out the result (2.11 to 2.13,
_subclasses/fake_impls.py: `conv`). C++ decides by torch's build and by the device. This module decides like `use_cudnn`
in aten/src/ATen/native/Convolution.cpp and `cudnn_conv_suggest_memory_format` in ConvUtils.h with cuDNN 9.19. A
convolution that cuDNN does not handle has a contiguous result, here as in torch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched


@contextmanager
def convolved_as_on(capability: tuple[int, int]) -> Iterator[None]:
    """Choose formats for CUDA tensors as on a device of this compute capability."""
    import torch

    backend: Any = torch._C
    with (
        patched(backend, "_select_conv_backend", _selecting(backend._select_conv_backend, capability)),
        patched(
            backend,
            "_conv_determine_backend_memory_format",
            _determining(backend._conv_determine_backend_memory_format),
        ),
    ):
        yield


def _selecting(original: Callable[..., Any], capability: tuple[int, int]) -> Callable[..., Any]:
    def select(input: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
        if input.device.type != "cuda":
            return original(input, weight, *args, **kwargs)
        backends = _backends()
        if _by_cudnn(input, weight, capability, kwargs):
            return backends.Cudnn
        return backends.Overrideable

    return select


def _determining(original: Callable[..., Any]) -> Callable[..., Any]:
    def determine(input: Any, weight: Any, backend: Any) -> Any:
        import torch

        if input.device.type != "cuda":
            return original(input, weight, backend)
        backends = _backends()
        if backend == backends.Cudnn:
            return _suggested(input, weight)
        return torch.contiguous_format

    return determine


def _backends() -> Any:
    import torch

    unstubbed: Any = torch._C  # torch's stubs declare `_ConvBackend` with another type
    return unstubbed._ConvBackend


def _by_cudnn(input: Any, weight: Any, capability: tuple[int, int], options: dict[str, Any]) -> bool:
    import torch

    if not torch.backends.cudnn.enabled or _too_far(options):
        return False
    return torch.bfloat16 not in (input.dtype, weight.dtype) or capability >= (8, 0)


def _too_far(options: dict[str, Any]) -> bool:
    """Whether a transposed convolution has an output padding >= max(stride, dilation) in some dimension."""

    def of(name: str) -> Sequence[int]:
        return tuple(options.get(name) or ())

    padding, stride, dilation = of("output_padding"), of("stride"), of("dilation")
    if not options.get("transposed"):
        return False
    return any(each >= least for each, least in zip(padding, map(max, stride, dilation), strict=False))


def _suggested(input: Any, weight: Any) -> Any:
    """Return channels-last if the input or the weight has it, else contiguous; always contiguous for float64."""
    import torch
    from torch._prims_common import suggest_memory_format

    if torch.float64 in (input.dtype, weight.dtype):
        return torch.contiguous_format
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    formats = [suggest_memory_format(each) for each in (input, weight)]
    if last is not None and last in formats:
        return last
    return torch.contiguous_format
