"""Present a GPU that this machine does not have: answer what torch, Inductor and Triton ask about it.

Inductor asks through `torch.cuda` and `torch._dynamo.device_interface.CudaInterface` (2.11 to 2.13), which stores
functions of `torch.cuda` under other names; both are patched. Nothing can run on this device: tensors on it are fake,
and the caller skips whatever would launch or time a kernel (`codegen/emit.py`).

Terms
-----
- The *target* is the GPU that code is emitted for, with its facts from `inspector/knowledge/gpus/`.
- An *answer* is what replaces a function that asks for the device: its capability, its properties, how many there are.
- A *choice* is code of torch that decides by the device, such as which attention kernel a call gets (`sdpa.py`,
  `convolution.py`, `padding.py`, `flex.py`).
- To *present* the GPU is to have all answers in place, in the block that compiles one graph.

Steps, each undone at the end of the block
------------------------------------------
1. Record the program's TF32 settings if they have changed, since kernels depend on them.
2. Make the C++ side of torch accept a device that is not there (`gpu_hooks.py`).
3. Forget what torch has cached about this machine (`_CACHED`); without that, the answers would come too late.
4. Replace the functions that ask. Each is replaced alone: if a release has moved one, the run says which answer is
   missing, and the others still hold.
5. Give Triton a driver that names the target and launches nothing (`kernels/compile_driver.py`), and keep constants
   that torch computes while it compiles on the CPU.
6. Decide torch's choices as the target's torch would, or leave them open where only the device can tell.

Example ------- `ctrace kernels --target h100 model.py` on a laptop: Inductor asks
`torch.cuda.get_device_capability()` and gets (9, 0), asks `get_device_properties()` for the number of multiprocessors
to decide whether templates are worth trying, and Triton asks the driver what to compile for and gets `sm_90`. The
kernels are those of an H100; none was launched.

Two small answers stand in this module. The random generator: if forward and backward must draw the same numbers
(dropout inside a checkpointed attention), AOTAutograd passes a copy of the device's generator to both (2.11 to 2.13,
_functorch/partitioners.py and _inductor/ir.py); emitting code draws no numbers and reads only the generator's device.
The speed: Inductor looks up a GPU by name in its table (2.11 to 2.13, _inductor/analysis/device_info.py), and derives
missing numbers from the driver's clocks (_inductor/utils.py: `get_device_tflops`, `get_gpu_dram_gbps`).
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.capture.built_kernels.current_gpu import tf32_allowed
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.compile_driver import Driver
from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.features.gpus.child.constants import constants_on_cpu
from ctrace.inspector.features.gpus.child.convolution import convolved_as_on
from ctrace.inspector.features.gpus.child.gpu_hooks import Hooks
from ctrace.inspector.features.gpus.child.padding import padding_left_open
from ctrace.inspector.features.gpus.child.sdpa import attention_as_on
from ctrace.inspector.knowledge.gpus.gpu import TargetGpu
from ctrace.inspector.knowledge.versions.torch_names import ALLOCATOR_CHECK

_CACHED = {
    "torch.utils._triton": (
        "has_triton",
        "_device_supports_tma",
        "has_triton_experimental_host_tma",
        "has_triton_tensor_descriptor_host_tma",
        "has_triton_tma",
        "has_triton_tma_device",
        "has_datacenter_blackwell_tma_device",
        "has_triton_stable_tma_api",
    ),
    "torch._inductor.utils": (
        "get_gpu_type",
        "is_big_gpu",
        "get_max_num_sms",
        "using_b200",
        "get_device_tflops",
        "get_gpu_dram_gbps",
        "_triton_supported_fp8_dtypes",
    ),
    "torch._inductor.kernel.mm": ("_is_sm7x_or_older_gpu",),
}
"""Functions that cache answers about the device, keyed by module."""


class VirtualGpu:
    """Presents one GPU to torch."""

    def __init__(self, gpu: TargetGpu, recorder: Recorder) -> None:
        record_target(recorder, gpu)
        self.facts = gpu
        self._recorder = recorder
        self._tf32: tuple[str, ...] = ()
        self._properties = properties_of(gpu)
        self._capability = gpu.capability
        self._driver = Driver(gpu)
        self._hooks = Hooks(gpu.capability)
        self._depth = 0

    @contextmanager
    def present(self) -> Iterator[None]:
        """Answer as the GPU would until the end of the block; blocks may nest."""
        if self._depth:
            yield
            return
        self._depth += 1
        try:
            self._record_tf32()
            with ExitStack() as patches:
                self._install(patches)
                yield
        finally:
            self._depth -= 1

    def _record_tf32(self) -> None:
        """Record the program's TF32 settings again, because the program may change them before any graph."""
        if self._capability < (8, 0):
            return
        with self._recorder.watching("tf32_allowed"):
            allowed = tf32_allowed()
            if allowed != self._tf32:
                record_target(self._recorder, self.facts, allowed)
                self._tf32 = allowed

    @contextmanager
    def tracing(self, inputs: Any) -> Iterator[None]:
        """Disable gradients in the block, which traces a graph with these inputs, if no backward can be traced."""
        import torch

        refused = self._hooks.refused()
        if not refused or not _differentiates(inputs):
            yield
            return
        self._recorder.problem(
            f"no code was emitted for the backward, and the forward was compiled for inference: {refused}"
        )
        with torch.no_grad():
            yield

    def _install(self, patches: ExitStack) -> None:
        patches.enter_context(self._hooks.presented())
        patches.enter_context(_forgetting())
        for owner, name, value in self._answers():
            with self._recorder.watching(f"the target's answer for {getattr(owner, '__name__', owner)}.{name}"):
                patches.enter_context(patched(owner, name, value))
        patches.enter_context(self._driver.active())
        patches.enter_context(constants_on_cpu())
        for what, part in self._parts().items():
            with self._recorder.watching(what):
                patches.enter_context(part())

    def _parts(self) -> dict[str, Callable[[], AbstractContextManager[None]]]:
        """Return the patches of choices that torch makes by device, keyed by their names in a report of a failure."""
        return {
            "attention for the target": lambda: attention_as_on(self._capability),
            "convolutions for the target": lambda: convolved_as_on(self._capability),
            "the speed of the target": lambda: as_fast_as(self.facts),
            "random generators": one_generator,
            "choices of padding": lambda: padding_left_open(self._recorder),
        }

    def _answers(self) -> Iterator[tuple[Any, str, Any]]:
        import torch
        from torch._dynamo.device_interface import CudaInterface
        from torch._inductor import cudagraph_utils
        from torch._inductor.runtime import triton_helpers
        from torch._subclasses import fake_tensor

        cuda: Any = torch.cuda
        yield from ((cuda, name, value) for name, value in self._of_cuda().items())
        for name, value in self._of_interface().items():
            yield CudaInterface, name, staticmethod(value)
        yield CudaInterface.Worker, "get_device_properties", staticmethod(lambda *_: self._properties)
        yield CudaInterface.Worker, "current_device", staticmethod(lambda: 0)
        # Creating a fake tensor would first create a real one, to start CUDA (fake_tensor.py, `init_gpu_context`).
        yield fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda _: True)
        yield fake_tensor, "init_gpu_context", lambda _device: None
        yield triton_helpers, "set_driver_to_gpu", lambda: None
        if check := ALLOCATOR_CHECK.of(cudagraph_utils):  # CUDA graphs need the caching allocator, the default
            yield cudagraph_utils, check, lambda: None

    def _of_cuda(self) -> dict[str, Any]:
        return {
            **self._of_interface(),
            "is_initialized": lambda: False,
            "get_device_capability": lambda _device=None: self._capability,
            "get_device_name": lambda _device=None: self._properties.name,
            "is_tf32_supported": lambda: self._capability >= (8, 0),
            "device": _Nothing,
            "get_rng_state": lambda _device=None: _rng_state(),
            "set_rng_state": lambda _state, _device=None: None,
            "mem_get_info": lambda _device=None: (self._properties.total_memory, self._properties.total_memory),
        }

    def _of_interface(self) -> dict[str, Any]:
        return {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "set_device": lambda _device: None,
            "synchronize": lambda _device=None: None,
            "get_device_properties": lambda _device=None: self._properties,
            "is_bf16_supported": lambda including_emulation=True: including_emulation or self._capability >= (8, 0),
            "memory_allocated": lambda _device=None: 0,
        }


def _differentiates(inputs: Any) -> bool:
    import torch

    return torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in inputs)


class _Nothing:
    """Replaces `torch.cuda.device`: there is no other device to switch to."""

    def __init__(self, *_args: Any) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: Any) -> None:
        return None


def _rng_state() -> Any:
    """Return a state of CUDA's generator: seed and offset, 8 bytes each (aten/src/ATen/cuda/CUDAGeneratorImpl.cpp)."""
    import torch

    with torch.utils._python_dispatch._disable_current_modes():
        return torch.zeros(16, dtype=torch.uint8)


def properties_of(gpu: TargetGpu) -> Any:
    """Return this GPU's properties with the names and units of `torch.cuda.get_device_properties`."""
    return SimpleNamespace(
        name=gpu.title,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        multi_processor_count=gpu.processors,
        regs_per_multiprocessor=gpu.registers,
        max_threads_per_multi_processor=gpu.threads,
        max_threads_per_block=gpu.threads_per_block,
        warp_size=gpu.warp,
        total_memory=gpu.memory,
        shared_memory_per_block=gpu.shared_per_block,
        shared_memory_per_block_optin=gpu.shared_per_block_optin,
        shared_memory_per_multiprocessor=gpu.shared,
        L2_cache_size=gpu.l2,
        gcnArchName="",
        is_integrated=0,
        is_multi_gpu_board=0,
    )


def record_target(recorder: Recorder, gpu: TargetGpu, tf32: Sequence[str] = ()) -> None:
    """Record the GPU that code is emitted for."""
    recorder.add(
        Gpu(
            name=gpu.title,
            target=gpu.name,
            capability=gpu.capability,
            processors=gpu.processors,
            registers=gpu.registers,
            threads=gpu.threads,
            shared=gpu.shared,
            warp=gpu.warp,
            clock=gpu.clock,
            bandwidth=gpu.bandwidth,
            tf32=tuple(tf32),
            l2=gpu.l2,
            rates=gpu.rates,
            vector_rates=gpu.vector_rates,
            sources=gpu.sources,
        )
    )


@contextmanager
def _forgetting() -> Iterator[None]:
    """Clear cached answers about the device before and after the block."""

    _forget()
    try:
        yield
    finally:
        _forget()


def _forget() -> None:
    for module, names in _CACHED.items():
        for name in names:
            cached: Any = getattr(importlib.import_module(module), name, None)
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()
    from torch._inductor.runtime.hints import DeviceProperties

    create: Any = DeviceProperties.create
    create.cache_clear()


@contextmanager
def one_generator() -> Iterator[None]:
    """Provide one default CUDA generator in the block."""
    import torch

    with patched(torch.cuda, "default_generators", (_generator(),)):
        yield


def _generator() -> Any:
    import torch

    class Generator(torch.Generator):
        @property
        def device(self) -> Any:  # type: ignore[override]  # writable in the stubs, read-only in C++
            return torch.device("cuda", 0)

        def clone_state(self) -> Any:
            return Generator()

    return Generator()


@contextmanager
def as_fast_as(gpu: TargetGpu) -> Iterator[None]:
    """Answer with the clock of `gpu` when torch would run `nvidia-smi`."""
    import torch._utils_internal as internal

    def max_clock_rate() -> int:
        if gpu.clock is None:
            msg = f"the clock of {gpu.name} is unknown"
            raise RuntimeError(msg)
        return round(gpu.clock / 1e6)

    with patched(internal, "max_clock_rate", max_clock_rate):
        yield
