"""Answer the questions of torch's C++ side about the target GPU.

Autograd asks for the stream of each tensor's device, even a fake tensor's, and the process aborts if that device has
no guard (torch/csrc/autograd/input_metadata.cpp). Its engine synchronizes the streams of the accelerator that torch
was built for, if that has a context (engine.cpp, `GraphTask::stash_current_streams`). Operators ask CUDA's hooks what
cuDNN supports (aten/src/ATen/native/Convolution.cpp, `ConvParams`), which partly depends on the device.
"""

import ctypes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ctrace.inspector.features.gpus.child.torch_side.native import Native
from ctrace.inspector.features.gpus.child.torch_side.vtables import UnknownTorchError

_VOLTA, _AMPERE = 7, 8
"""The first major compute capabilities with certain cuDNN features (aten/src/ATen/cuda/detail/CUDAHooks.cpp)."""
_CUDNN = 91900
"""cuDNN 9.19.0, the version in torch 2.11.0+cu130: `torch.backends.cudnn.version()` there."""
_EPSILON = 1e-5
"""The smallest epsilon of a batch norm in cuDNN (`CUDNN_BN_MIN_EPSILON`, 2.11)."""


class Hooks:
    """Answers torch's C++ side as a GPU of one compute capability would."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self._major = capability[0]
        self._native: Native | None = None
        self._refused: str | None = None

    def refused(self) -> str:
        """Return why this torch cannot be patched, or "" if it can; unpatched, tracing a backward would abort."""
        if self._refused is None:
            self._refused = self._prepared()
        return self._refused

    @contextmanager
    def presented(self) -> Iterator[None]:
        """Present the GPU to torch's C++ side until the end of the block, if this torch can be patched."""
        with ExitStack() as stack:
            self.refused()
            if self._native is not None:
                self._show(self._native, stack)
            yield

    def _prepared(self) -> str:
        try:
            native = Native()
            with ExitStack() as stack:
                self._show(native, stack)
        except UnknownTorchError as error:
            return str(error)
        self._native = native
        return native.without_stream

    def _show(self, native: Native, stack: ExitStack) -> None:
        """Answer what differs from a local GPU; without a local GPU, answer everything."""
        import torch

        answers = self._of_device()
        if torch.cuda.device_count():
            stack.enter_context(native.answering(answers))
            return
        _start_engine()
        answers |= _of_cuda() if torch.version.cuda else _of_cuda() | _of_cudnn()
        stack.enter_context(native.answering(answers))
        stack.enter_context(native.guarding())

    def _of_device(self) -> dict[str, Any]:
        return {
            "supportsDepthwiseConvolutionWithCuDNN": _answer(ctypes.c_bool, self._major >= _VOLTA),
            "supportsBFloat16ConvolutionWithCuDNNv8": _answer(ctypes.c_bool, self._major >= _AMPERE),
            "supportsBFloat16RNNWithCuDNN": _answer(ctypes.c_bool, self._major >= _AMPERE),
        }


def _of_cuda() -> dict[str, Any]:
    return {
        "init": _answer(None, None),
        "isBuilt": _answer(ctypes.c_bool, True),
        "hasPrimaryContext": _answer(ctypes.c_bool, True),
        "hasCUDA": _answer(ctypes.c_bool, True),
        "current_device": _answer(ctypes.c_int8, 0),
        "getNumGPUs": _answer(ctypes.c_int, 1),
    }


def _of_cudnn() -> dict[str, Any]:
    """Return the answers about cuDNN that a torch built with CUDA gives."""
    return {
        "hasCuDNN": _answer(ctypes.c_bool, True),
        "hasCuBLASLt": _answer(ctypes.c_bool, True),
        "compiledWithCuDNN": _answer(ctypes.c_bool, True),
        "supportsDilatedConvolutionWithCuDNN": _answer(ctypes.c_bool, True),
        "versionCuDNN": _answer(ctypes.c_long, _CUDNN),
        "versionRuntimeCuDNN": _answer(ctypes.c_long, _CUDNN),
        "batchnormMinEpsilonCuDNN": _answer(ctypes.c_double, _EPSILON),
    }


def _answer(kind: Any, value: Any) -> Any:
    """Make a C function that returns `value` for any object."""
    return ctypes.CFUNCTYPE(kind, ctypes.c_void_p)(lambda _hooks: value)


def _start_engine() -> None:
    """Run a backward before the GPU is presented: autograd's engine counts the devices once, with a thread for each.

    With a thread for the GPU, torch would refuse a later backward in a fork of the program (`in_bad_autograd_fork`,
    engine.cpp).
    """
    import torch

    with torch.utils._python_dispatch._disable_current_modes(), torch.enable_grad():
        torch.zeros((), device="cpu", requires_grad=True).clone().backward()
