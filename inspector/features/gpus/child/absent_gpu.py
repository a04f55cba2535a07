"""Let a whole program take a GPU that this machine does not have: what it puts there is on the CPU, and its code runs.

A training program takes its GPU without asking: `torch.cuda.set_device(local_rank)`, `model.cuda()`,
`torch.randn(..., device=device)`. A model file gets there with a `TorchFunctionMode` (`eager_on_cpu.py`), but Dynamo
guards on active modes, so around a whole program one would change what is captured. Here torch stays as it is, and
what it lacks is added below it:

1. Tensors. A build without CUDA has no kernel that makes a tensor on a GPU. It gets the few that all others use, and
   they make the tensor on the CPU. So the program's tensors are real ones, with values; graphs and guards are those of
   the same program on the CPU (`traced_questions.py` answers in traced code as the GPU would).
2. Devices. C++ asks a guard which GPU is the current one, as in `x.cuda()`, and which kind of accelerator a number
   means, as in `x.to(0)` (`gpu_hooks.py`).
3. `torch.cuda` and `torch.accelerator`. Functions are answered here, with the code replaced and not the function
   (`torch_cuda_answers.py` says why). Streams and events do nothing but take the CPU's time.
4. Autocast for CUDA casts as on CUDA (`cuda_autocast.py`).
5. What refuses tensors on the CPU where a program names a GPU: `DistributedDataParallel(device_ids=...)`, `torch.load`
   of what was saved on a GPU, random generators of a GPU.

A tensor says in eager code that it is on the CPU. Memory figures are 0: nothing is on the GPU.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FrameType, FunctionType, ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.features.gpus.child.cuda_autocast import cast_as_cuda
from ctrace.inspector.features.gpus.child.eager_on_cpu import is_gpu, on_cpu, record_gpu
from ctrace.inspector.features.gpus.child.gpu_hooks import named_accelerator
from ctrace.inspector.features.gpus.child.torch_cuda_answers import DeviceAnswers, DeviceQuestions, recoded
from ctrace.inspector.features.gpus.child.virtual_gpu import rng_state

_NCCL = (2, 27, 5)
"""A version of NCCL that torch's builds for CUDA bring."""


def where_absent(hook: Hook) -> Hook:
    """Let a hook act only if this machine has no GPU."""

    @contextmanager
    def guarded(recorder: Recorder, when: When) -> Iterator[None]:
        # Asked when the module is imported: torch.cuda is there by then, and counts devices without starting CUDA.
        def later(name: str, action: Callable[[ModuleType], None], /) -> None:
            def act(module: ModuleType) -> None:
                if not _is_there(sys.modules.get("torch.cuda")):
                    action(module)

            when(name, act)

        with hook(recorder, later):
            yield

    return guarded


def _is_there(cuda: Any) -> bool:
    return bool(cuda is not None and cuda._is_compiled() and cuda.device_count())


def absent_gpu(*, is_named: bool) -> Hook:
    """Make the hook of what a program needs that takes a GPU, if this machine has none.

    `is_named`: the command line names the GPU; otherwise the first line that takes one is recorded, and shown.
    """

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        taken = _Taken(None if is_named else DeviceQuestions.of(recorder))
        with _installed(recorder, when, taken):
            yield

    return hook


class _Taken:
    """Records the first line of the program that puts something on a GPU."""

    def __init__(self, questions: DeviceQuestions | None) -> None:
        self._questions = questions

    def at(self, frame: FrameType) -> None:
        """Record the line behind a frame, unless there was one before."""
        questions, self._questions = self._questions, None
        if questions is not None:
            record_gpu(questions, frame)


@contextmanager
def _installed(recorder: Recorder, when: When, taken: _Taken) -> Iterator[None]:
    with ExitStack() as patches:

        def install(torch: Any) -> None:
            if _is_there(torch.cuda):
                return
            for what, part in _PARTS.items():
                with recorder.watching(what):
                    patches.enter_context(part(torch, taken))

        when("torch", install)
        # Each when its module is imported, which most programs never do.
        when("torch.nn.parallel.distributed", lambda module: patches.enter_context(_ddp_on_cpu(module)))
        when("torch.distributed.fsdp._flat_param", lambda module: patches.enter_context(_fsdp_gathers(module)))
        when("torch.distributed.fsdp._runtime_utils", lambda module: patches.enter_context(_fsdp_unchecked(module)))
        when("torch.distributed.fsdp._init_utils", lambda module: patches.enter_context(_fsdp_on_cpu(module)))
        yield


@contextmanager
def _tensors(torch: Any, taken: _Taken) -> Iterator[None]:
    """Make tensors of a GPU on the CPU."""
    aten = torch.ops.aten

    def empty(size: Any, *, device: Any = None, **options: Any) -> Any:
        taken.at(sys._getframe(1))
        return aten.empty.memory_format(size, device="cpu", **options)

    def empty_strided(size: Any, stride: Any, *, device: Any = None, **options: Any) -> Any:
        taken.at(sys._getframe(1))
        return aten.empty_strided(size, stride, device="cpu", **options)

    def triangle(op: Any) -> Callable[..., Any]:
        def indices(row: int, col: int, offset: int = 0, *, device: Any = None, **options: Any) -> Any:
            return op(row, col, offset, device="cpu", **options)

        return indices

    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", empty, "CUDA", allow_override=True)
    library.impl("empty_strided", empty_strided, "CUDA", allow_override=True)
    # These two have no composite kernel that would call `empty`, unlike the other factories.
    for op in (aten.tril_indices, aten.triu_indices):
        library.impl(op.default.name(), triangle(op.default), "CUDA", allow_override=True)
    try:
        yield
    finally:
        library._destroy()


@contextmanager
def _functions(torch: Any, taken: _Taken) -> Iterator[None]:
    """Answer the functions of `torch.cuda` and `torch.accelerator` that this build cannot."""
    answers = DeviceAnswers.current
    assert answers is not None, "`facts` is installed first"

    def set_device(device: Any) -> None:
        taken.at(sys._getframe(1))
        answers.choose(device)

    with ExitStack() as patches:
        for module in (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.amp.common, torch.cuda.nvtx):
            _recode(module, {**_of_cuda(answers), "set_device": set_device}, patches)
        # Torch's own records of collectives read it, and DDP's hooks ask for 2.10 or later (2.11 to 2.13).
        _recode(torch.cuda.nccl, {"version": lambda: _NCCL}, patches)
        _recode(torch.accelerator, _of_accelerator(torch, answers), patches)
        yield


def _recode(module: ModuleType, functions: dict[str, Callable[..., Any]], patches: ExitStack) -> None:
    for name, function in functions.items():
        original = vars(module).get(name)
        # Only functions that the module itself defines: others are recoded where they come from.
        if isinstance(original, FunctionType) and original.__module__ == module.__name__:
            patches.enter_context(recoded(original, function))


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Do nothing: there is no GPU to do it on."""


def _of_cuda(answers: DeviceAnswers) -> dict[str, Callable[..., Any]]:
    memory = answers.answers["get_device_properties"].total_memory
    names = (
        "_lazy_init init synchronize empty_cache ipc_collect set_stream set_rng_state set_rng_state_all "
        "reset_peak_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached "
        "set_per_process_memory_fraction set_sync_debug_mode reset_peak_host_memory_stats "
        "reset_accumulated_host_memory_stats _record_memory_history _dump_snapshot range_pop mark range_start range_end"
    )
    return {
        **dict.fromkeys(names.split(), _nothing),
        "amp_definitely_not_available": lambda: False,
        "get_rng_state": lambda *_: rng_state(),
        "get_rng_state_all": lambda: [rng_state() for _ in range(answers.count)],
        "initial_seed": lambda: 0,
        "mem_get_info": lambda *_: (memory, memory),
        "get_sync_debug_mode": lambda: 0,
        "can_device_access_peer": lambda *_: True,
        "memory_summary": lambda *_args, **_kwargs: "",
        "current_stream": lambda *_: IdleStream(),
        "default_stream": lambda *_: IdleStream(),
        "stream": lambda stream: stream or IdleStream(),
        "range_push": lambda *_: 0,
    }


def _of_accelerator(torch: Any, answers: DeviceAnswers) -> dict[str, Callable[..., Any]]:
    return {
        "is_available": lambda: answers.is_present,
        "device_count": lambda: answers.count if answers.is_present else 0,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: answers.index,
        "set_device_index": answers.choose,
        "current_stream": lambda *_: IdleStream(),
        "set_stream": _nothing,
        "synchronize": _nothing,
    }


class IdleStream:
    """Stands for a stream of a GPU: all of its work is done when it is asked for."""

    def __init__(self, device: Any = None, priority: int = 0, **_kwargs: Any) -> None:
        import torch

        self.device = torch.device("cuda", 0)
        self.priority = priority
        self.cuda_stream = self.stream_id = self.device_index = 0

    def wait_stream(self, stream: Any) -> None:
        """Wait for nothing."""

    def wait_event(self, event: Any) -> None:
        """Wait for nothing."""

    def synchronize(self) -> None:
        """Wait for nothing."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event now."""
        event = event or IdleEvent()
        event.record(self)
        return event

    def query(self) -> bool:
        """Say that all is done."""
        return True

    def is_capturing(self) -> bool:
        """Say that it records no CUDA graph."""
        return False

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the lowest and the highest priority."""
        return 0, -1

    def __enter__(self) -> "IdleStream":
        """Make it the current stream."""
        return self

    def __exit__(self, *_error: Any) -> None:
        """Make the earlier one current."""


class IdleEvent:
    """Stands for an event of a stream; times are the CPU's."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self._at = time.perf_counter()

    def record(self, stream: Any = None) -> None:
        """Record the time."""
        self._at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Wait for nothing."""

    def synchronize(self) -> None:
        """Wait for nothing."""

    def query(self) -> bool:
        """Say that all is done."""
        return True

    def elapsed_time(self, end_event: "IdleEvent") -> float:
        """Return the milliseconds between two events, on the CPU."""
        # Not 0, by which a program may divide.
        return max((end_event._at - self._at) * 1e3, 1e-6)


class _Device:
    """Stands for `torch.cuda.device` and `device_of`: the current GPU, in a block."""

    def __init__(self, device: Any) -> None:
        self.idx = device
        self.prev_idx = 0

    def __enter__(self) -> None:
        answers = DeviceAnswers.current
        if answers is not None:
            self.prev_idx = answers.index
            answers.choose(self.idx)

    def __exit__(self, *_error: Any) -> None:
        if DeviceAnswers.current is not None:
            DeviceAnswers.current.choose(self.prev_idx)


class _DeviceOf(_Device):
    def __init__(self, tensor: Any) -> None:
        super().__init__(None)


@contextmanager
def _classes(torch: Any, _taken: _Taken) -> Iterator[None]:
    """Replace the classes of `torch.cuda` that C++ code would make."""
    replaced = {
        "Stream": IdleStream,
        "ExternalStream": IdleStream,
        "Event": IdleEvent,
        "device": _Device,
        "device_of": _DeviceOf,
    }
    with ExitStack() as patches:
        for name, kind in replaced.items():
            patches.enter_context(patched(torch.cuda, name, kind))
        # `torch.cuda` repeats the names of this module, and a program may take them from either.
        for name in ("Stream", "Event"):
            patches.enter_context(patched(torch.cuda.streams, name, replaced[name]))
        patches.enter_context(patched(torch.accelerator, "device_index", _Device))
        yield


@contextmanager
def _accelerator(torch: Any, _taken: _Taken) -> Iterator[None]:
    """Let C++ code know the current GPU."""

    def current() -> int:
        if DeviceAnswers.current is None:
            return 0
        return DeviceAnswers.current.index

    answers = DeviceAnswers.current
    with named_accelerator(current, 1 if answers is None else answers.count):
        yield


@contextmanager
def _named_devices(torch: Any, _taken: _Taken) -> Iterator[None]:
    """Put on the CPU what names a GPU by other ways than an op: a default device, saved tensors, generators."""
    default = torch.set_default_device

    def set_default_device(device: Any) -> None:
        default(on_cpu(device))

    def here(storage: Any, location: str) -> Any:
        if not location.startswith("cuda"):
            return None
        return storage

    # Torch asks the entries in order until one answers; 0 is ahead of that for CUDA, which would refuse.
    registry = torch.serialization._package_registry
    entry = (0, lambda _storage: None, here)
    registry.insert(0, entry)
    try:
        with (
            patched(torch, "set_default_device", set_default_device),
            patched(torch, "Generator", _generator_class(torch)),
        ):
            yield
    finally:
        registry.remove(entry)


def _generator_class(torch: Any) -> Any:
    made: Any = torch.Generator

    # A class, as programs write `isinstance(g, torch.Generator)` and annotate with it.
    class OfAnyDevice(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, made)

        def __call__(cls, device: Any = "cpu") -> Any:
            return made(on_cpu(device))

    class Generator(metaclass=OfAnyDevice):
        """A generator of random numbers, on the CPU."""

    return Generator


@contextmanager
def _ddp_on_cpu(module: Any) -> Iterator[None]:
    """Let DDP take a module whose GPU is the CPU: it refuses `device_ids` there (nn/parallel/distributed.py, 2.13)."""
    kind = module.DistributedDataParallel
    original = kind.__init__

    @wraps(original)
    def init(self: Any, model: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kw: Any) -> None:
        if all(each.device.type == "cpu" for each in model.parameters()):
            device_ids = output_device = None
        original(self, model, device_ids, output_device, *args, **kw)

    with patched(kind, "__init__", init):
        yield


class _CudaOnCpu:
    """`torch.cuda` for FSDP1, which runs on no CPU and asks first whether there is a GPU."""

    __slots__ = ()  # what follows the objects of a program must not come to all of torch

    def __getattr__(self, name: str) -> Any:
        import torch

        if name == "is_available":
            return lambda: True
        return getattr(torch.cuda, name)


@contextmanager
def _fsdp_on_cpu(module: Any) -> Iterator[None]:
    """Let FSDP1 compute on the CPU for a GPU (distributed/fsdp/_init_utils.py, 2.11 to 2.13)."""
    import torch

    of_number = module._get_device_from_device_id
    handle_of = module._FSDPDeviceHandle.from_device

    def device_of(*args: Any, **kwargs: Any) -> Any:
        return on_cpu(of_number(*args, **kwargs))

    def from_device(device: Any) -> Any:
        if is_gpu(device):
            return _CudaOnCpu()
        return handle_of(device)

    with (
        patched(module, "_get_device_from_device_id", device_of),
        patched(module, "_get_compute_device", lambda *_args: torch.device("cpu")),
        patched(module._FSDPDeviceHandle, "from_device", staticmethod(from_device)),
    ):
        yield


class _Gathering:
    """`torch.distributed` for FSDP1, which on the CPU gathers into a list of parts, and on GPUs into one tensor."""

    def __init__(self, distributed: Any) -> None:
        self._distributed = distributed
        single = getattr(distributed, "all_gather_single", None)  # its name from 2.13 on
        self._into = single or distributed.all_gather_into_tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._distributed, name)

    def all_gather(self, parts: list[Any], part: Any, group: Any = None) -> Any:
        """Gather into the tensor of which the parts are views."""
        # FSDP1 makes the parts as views of one tensor (`_flat_param.py`), which GPUs gather into as a whole.
        whole = parts[0].as_strided((sum(each.numel() for each in parts),), (1,))
        return self._into(whole, part, group)


@contextmanager
def _fsdp_gathers(module: Any) -> Iterator[None]:
    """Let FSDP1 gather as on GPUs (distributed/fsdp/_flat_param.py: `_all_gather_flat_param`, 2.11 to 2.13)."""
    with patched(module, "dist", _Gathering(module.dist)):
        yield


@contextmanager
def _fsdp_unchecked(module: Any) -> Iterator[None]:
    """Leave out FSDP1's check that parameters are on its device: traced code takes them for ones on the GPU."""
    with patched(module, "_check_flat_params_on_expected_device", _accepted):
        yield


def _accepted(state: Any, module: Any) -> None:
    """Replace a check; Dynamo traces this function."""


_PARTS = {
    "tensors of a GPU that is not there": _tensors,
    "functions of torch.cuda": _functions,
    "streams and events of a GPU": _classes,
    "the current GPU": _accelerator,
    "names of GPUs": _named_devices,
    "autocast for CUDA": lambda _torch, _taken: cast_as_cuda(),
}
