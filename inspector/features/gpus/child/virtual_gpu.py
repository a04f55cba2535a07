"""Present a GPU that this machine does not have: answer what torch, Inductor and Triton ask about it.

Inductor asks through `torch.cuda` and `torch._dynamo.device_interface.CudaInterface` (2.11 to 2.13), which stores
functions of `torch.cuda` under other names; both are patched. Nothing can run on this device: tensors on it are fake,
and the caller skips whatever would launch or time a kernel (`inductor/emit.py`).

Terms
-----
- The *target* is the GPU that code is emitted for, with its facts from `inspector/knowledge/gpus/`.
- An *answer* is what replaces a function that asks for the device: its capability, its properties, how many there are.
- A *choice* is code of torch that decides by the device, such as which attention kernel a call gets (`sdpa.py`;
  convolutions and padding below; FlexAttention in `move_graph.py`).
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

Example
-------
`ctrace kernels --target h100 model.py` on a laptop: Inductor asks
`torch.cuda.get_device_capability()` and gets (9, 0), asks `get_device_properties()` for the number of multiprocessors
to decide whether templates are worth trying, and Triton asks the driver what to compile for and gets `sm_90`. The
kernels are those of an H100; none was launched.

Two small answers stand in this module. The random generator: if forward and backward must draw the same numbers
(dropout inside a checkpointed attention), AOTAutograd passes a copy of the device's generator to both (2.11 to 2.13,
_functorch/partitioners.py and _inductor/ir.py); emitting code draws no numbers and reads only the generator's device.
The speed: Inductor looks up a GPU by name in its table (2.11 to 2.13, _inductor/analysis/device_info.py), and derives
missing numbers from the driver's clocks (_inductor/utils.py: `get_device_tflops`, `get_gpu_dram_gbps`).

**Constants** (`constants_on_cpu`) are computed on the CPU if torch needs them at compile time, because the graph's
device does not exist. Only their values matter. Three places compute them (2.11 to 2.13): Inductor folds uniform
tensors by running their ops on one element (_inductor/fx_passes/joint_graph.py, `UniformValueConstantFolder`), the
tracer follows the values of small constants (fx/experimental/proxy_tensor.py, `proxy_call`), and a graph copies
constants to the device that uses them (_inductor/graph.py, `GraphLowering.constant_name`).

**Padding** (`padding_left_open`) of matrices for tensor cores is left open, because torch decides it by timing on the
device. Torch first applies rules that need no timing (2.11 to 2.13, _inductor/fx_passes/pad_mm.py): settings, the
device's arithmetic and memory speed, cached times. These rules stay in effect. Where torch would time, pad nothing and
record an open choice. An exception ends torch's function early, so that torch does not cache an answer that was not
measured.

**Convolutions** (`convolved_as_on`): the memory format of the result is the one that cuDNN chooses. Fake tensors ask
C++ which library runs a convolution and how it lays out the result (2.11 to 2.13, _subclasses/fake_impls.py: `conv`).
C++ decides by torch's build and by the device. This module decides like `use_cudnn` in
aten/src/ATen/native/Convolution.cpp and `cudnn_conv_suggest_memory_format` in ConvUtils.h with cuDNN 9.19. A
convolution that cuDNN does not handle has a contiguous result, here as in torch.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.compile_driver import Driver
from ctrace.inspector.capture.kernels.current_gpu import tf32_allowed
from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.target_gpu import TimedCandidate, Undecided
from ctrace.inspector.features.gpus.child.gpu_hooks import Hooks
from ctrace.inspector.features.gpus.child.sdpa import attention_as_on
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu
from ctrace.inspector.knowledge.torch_names import ALLOCATOR_CHECK


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
        # Convolutions on the CPU may be traced in the same block, as of a constant.
        if input.device.type != "cuda":
            return original(input, weight, *args, **kwargs)
        backends = _backends()
        if _by_cudnn(input, weight, capability, kwargs):
            return backends.Cudnn
        # Any but cuDNN: `_determining` asks for nothing else.
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
    # Before Ampere, cuDNN does not take bfloat16.
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


_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@contextmanager
def padding_left_open(recorder: Recorder) -> Iterator[None]:
    """Keep torch from timing paddings, and record each padding that it would time."""
    from torch._inductor.fx_passes import pad_mm

    choices = _PaddingChoices(pad_mm._should_pad, pad_mm.get_cached_should_pad, recorder)
    with (
        patched(pad_mm, "_should_pad", choices.should_pad),
        patched(pad_mm, "get_cached_should_pad", choices.cached_should_pad),
    ):
        yield


class _WouldTimeError(Exception):
    """No rule and no cached time decides, so torch would time both forms."""


class _PaddingChoices:
    def __init__(self, should_pad: Any, cached_should_pad: Any, recorder: Recorder) -> None:
        self._should_pad = should_pad
        self._cached_should_pad = cached_should_pad
        self._recorder = recorder

    def should_pad(self, match: Any, mat1: Any, mat2: Any, op: Any, input: Any = None) -> bool:
        """Replace `_should_pad`."""
        try:
            return bool(self._should_pad(match, mat1, mat2, op, input))
        except _WouldTimeError:
            with self._recorder.watching("a choice of padding"):
                self._recorder.add(_choice(match, mat1, mat2, op))
            return False

    def cached_should_pad(self, key: str) -> bool:
        """Replace `get_cached_should_pad`, which torch calls last before it times."""
        known = self._cached_should_pad(key)
        if known is None:
            # Only an exception ends torch's function here: any answer would be kept as a measured one.
            raise _WouldTimeError
        return bool(known)


def _choice(match: Any, mat1: Any, mat2: Any, op: Any) -> Undecided:
    from torch._inductor.fx_passes.pad_mm import get_alignment_size, get_padded_length

    multiple = get_alignment_size(mat1)
    padded = [[size + get_padded_length(size, multiple) for size in each.shape[-2:]] for each in (mat1, mat2)]
    sizes = [[*map(str, each.shape[:-2]), *map(str, last)] for each, last in zip((mat1, mat2), padded, strict=True)]
    dtype = str(mat1.dtype).removeprefix("torch.")
    return Undecided(
        stage=_stage(match),
        kind="padding",
        subject=f"{_product(op, [list(map(str, each.shape)) for each in (mat1, mat2)])} {dtype}",
        taken="not padded",
        candidates=(TimedCandidate("not padded"), TimedCandidate("padded", configuration=_product(op, sizes))),
        lines=_lines(match),
    )


def _product(op: Any, sizes: list[list[str]]) -> str:
    name = str(op).removeprefix("aten.")
    return f"{name}({', '.join('x'.join(each) for each in sizes)})"


def _stage(match: Any) -> Stage:
    """Return the stage of a matmul; a graph for training contains both forward and backward.

    AOTAutograd tags the nodes of such a graph (2.11 to 2.13, _aot_autograd/graph_capture_wrappers.py).
    """
    tag = match.output_node().meta.get("partitioner_tag")
    return {"is_forward": Stage.FORWARD, "is_backward": Stage.BACKWARD}.get(tag, Stage.INFERENCE)


def _lines(match: Any) -> tuple[str, ...]:
    frames = [_FRAME.findall(node.meta.get("stack_trace") or "") for node in match.nodes]
    return tuple(dict.fromkeys(":".join(found[-1]) for found in frames if found))


@contextmanager
def constants_on_cpu() -> Iterator[None]:
    """Compute and keep constants on the CPU."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder
    from torch._inductor.graph import GraphLowering
    from torch.fx.experimental import proxy_tensor

    with ExitStack() as patches:
        for name in ("__init__", "_deduce_value"):
            patches.enter_context(patched(Folder, name, _on_cpu(getattr(Folder, name))))
        tracer: Any = proxy_tensor
        without_fake = _with_real_on_cpu(tracer.unset_fake_temporarily)
        patches.enter_context(patched(tracer, "unset_fake_temporarily", without_fake))
        patches.enter_context(patched(GraphLowering, "constant_name", _not_copied(GraphLowering.constant_name)))
        yield


def _on_cpu(original: Callable[..., Any]) -> Callable[..., Any]:
    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        with _cpu_mode():
            return original(*args, **kwargs)

    return on_cpu


def _with_real_on_cpu(original: Callable[[], Any]) -> Callable[[], Any]:
    @contextmanager
    def without_fake() -> Iterator[Any]:
        with original() as mode, _cpu_mode():
            yield mode

    return without_fake


def _cpu_mode() -> Any:
    """Make a mode in which every op with a device argument runs on the CPU."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map_only

    class OnCpu(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args, kwargs = tree_map_only(torch.device, lambda _device: torch.device("cpu"), (args, kwargs or {}))
            return func(*args, **kwargs)

    return OnCpu()


def _not_copied(original: Callable[..., str]) -> Callable[..., str]:
    """Wrap `constant_name`: name a constant as if it had been copied to the GPU, but do not copy it."""

    def constant_name(self: Any, name: str, device_override: Any) -> str:
        constant = self.constants[name]
        if device_override is None or device_override.type != "cuda" or constant.device == device_override:
            return original(self, name, device_override)
        # The name that torch gives, so that the code which is emitted is the target's.
        copied = f"{name}_{device_override.type}{device_override.index or 0}"
        return str(self.allocate_non_dup_const_name(copied, constant))

    return constant_name


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
        # A graph may be compiled while another one is, and the outer block has the answers in place.
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
        # Before Ampere, there is no TF32.
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
        # First: without its guard, anything that autograd asks about the device would abort the process.
        patches.enter_context(self._hooks.presented())
        # Outside of the answers, so that what was cached from them is gone once they are.
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
            # Torch calls these on the class, without an instance.
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
            # Not initialized, so that torch asks no driver for states and streams.
            "is_initialized": lambda: False,
            "get_device_capability": lambda _device=None: self._capability,
            "get_device_name": lambda _device=None: self._properties.name,
            "is_tf32_supported": lambda: self._capability >= (8, 0),
            "device": _Nothing,
            "get_rng_state": lambda _device=None: rng_state(),
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


def rng_state() -> Any:
    """Return a state of CUDA's generator: seed and offset, 8 bytes each (aten/src/ATen/cuda/CUDAGeneratorImpl.cpp)."""
    import torch

    # A real tensor, whatever mode is active: a fake one would have no values to read.
    with torch.utils._python_dispatch._disable_current_modes():
        return torch.zeros(16, dtype=torch.uint8)


class GpuProperties(SimpleNamespace):
    """The properties of a GPU, which Dynamo treats as a constant where this class is registered as one."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a namespace has none, and constants are keys of tables


def properties_of(gpu: TargetGpu) -> GpuProperties:
    """Return this GPU's properties with the names and units of `torch.cuda.get_device_properties`."""
    return GpuProperties(
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
            while cached is not None:  # also what a hook replaced: Inductor may have imported it before
                if hasattr(cached, "cache_clear"):
                    cached.cache_clear()
                cached = getattr(cached, "__wrapped__", None)
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
