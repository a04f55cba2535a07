"""Leave ctrace's own allocations out of the allocator's statistics that the program reads.

A program may report `torch.cuda.max_memory_allocated()`. Torch cannot set a peak, only reset it. So a second run notes
the program's peaks before it begins and resets them when it ends, and a read returns the larger of both. All functions
of torch.cuda.memory and torch.accelerator.memory read through the same three functions of torch._C (2.11 to 2.15).
Memory that torch's cache keeps after a second run stays reserved, and counts as such.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder

_APIS = (
    ("_cuda_memoryStats", "_cuda_resetPeakMemoryStats", "_cuda_resetAccumulatedMemoryStats"),
    ("_accelerator_getDeviceStats", "_accelerator_resetPeakStats", "_accelerator_resetAccumulatedStats"),
)
"""Functions of torch._C, each with a device index as argument: read, reset peaks, reset counts."""
# The other statistics say what is there now, which a second run leaves as it was.
_COUNTS = ("allocated", "freed", "num_alloc_retries", "num_ooms", "num_sync_all_streams")
_COUNTS_OF_DRIVER = ("num_device_alloc", "num_device_free")

_Path = tuple[str, ...]
_Read = Callable[[int], dict[str, Any]]


class _Gpu(Struct):
    """What differs between the statistics of one GPU and the program's own."""

    peaks: dict[_Path, int] = field(default_factory=dict)
    """The program's peaks before the last second run."""
    extra: dict[_Path, int] = field(default_factory=dict)
    """What second runs added to counts."""


class ProgramStatistics:
    """Corrects what the program reads, and excludes second runs."""

    def __init__(self, read: _Read, reset_peaks: Callable[[int], Any]) -> None:
        self._read = read
        self._reset_peaks = reset_peaks
        self._gpus: dict[int, _Gpu] = {}

    @contextmanager
    def excluding(self, devices: int) -> Iterator[None]:
        """Leave what the block allocates on the first `devices` GPUs out of their statistics."""
        # All GPUs, since a kernel may run on another one than the current.
        before = [self._flat(index) for index in range(devices)]
        try:
            yield
        finally:
            for index, was in enumerate(before):
                gpu, now = self._gpus.setdefault(index, _Gpu()), self._flat(index)
                for path, value in was.items():
                    if path[-1] == "peak":
                        # The larger: since an earlier second run, torch itself knows only what came after it.
                        gpu.peaks[path] = max(value, gpu.peaks.get(path, 0))
                    elif _is_count(path):
                        # Added up, as torch's count holds what all second runs added.
                        gpu.extra[path] = gpu.extra.get(path, 0) + now.get(path, value) - value
                # Resetting sets a peak to what is allocated now, which is the program's own again.
                self._reset_peaks(index)

    def _flat(self, index: int) -> dict[_Path, int]:
        return dict(_flattened(self._read(index)))

    def read(self, index: int, original: _Read) -> dict[str, Any]:
        """Return the statistics as they would be without second runs."""
        found, gpu = original(index), self._gpus.get(index)
        if gpu is None:
            return found
        return _corrected(found, gpu)

    def forget_peaks(self, index: int) -> None:
        """Follow the program, which resets the peaks of a GPU."""
        # From here on, torch's own peak is right again until the next second run.
        self._gpus.setdefault(index, _Gpu()).peaks.clear()

    def forget_counts(self, index: int) -> None:
        """Follow the program, which resets the counts of a GPU."""
        self._gpus.setdefault(index, _Gpu()).extra.clear()


def _flattened(found: Mapping[str, Any], path: _Path = ()) -> Iterator[tuple[_Path, int]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, (*path, str(name)))
        elif isinstance(value, int):
            yield (*path, str(name)), value


def _corrected(found: Mapping[str, Any], gpu: _Gpu, path: _Path = ()) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in found.items():
        place = (*path, str(name))
        if isinstance(value, Mapping):
            result[name] = _corrected(value, gpu, place)
        elif place[-1] == "peak":
            # The program's peak may lie before the last second run or after it.
            result[name] = max(value, gpu.peaks.get(place, 0))
        elif _is_count(place):
            result[name] = value - gpu.extra.get(place, 0)
        else:
            result[name] = value
    return result


def _is_count(path: _Path) -> bool:
    return path[-1] in (*_COUNTS, *_COUNTS_OF_DRIVER)


_active: ProgramStatistics | None = None
"""The corrections in place; without them, a peak that a second run resets would be lost."""


@contextmanager
def program_statistics(recorder: Recorder, when: When) -> Iterator[None]:
    """Correct the allocator's statistics until the program ends."""
    with ExitStack() as patches:

        def install(_memory: ModuleType) -> None:
            import torch

            with recorder.watching("the allocator's statistics"):
                if hasattr(torch._C, _APIS[0][0]):  # else this torch is built without CUDA
                    _install(torch._C, patches)

        when("torch.cuda.memory", install)
        try:
            yield
        finally:
            _set_active(None)


def _install(functions: Any, patches: ExitStack) -> None:
    read, reset_peaks, _ = (getattr(functions, name) for name in _APIS[0])
    own = ProgramStatistics(read, reset_peaks)
    for names in _APIS:
        # In the order of the names in `_APIS`.
        hooks = (partial(_reading, own), partial(_resetting, own.forget_peaks), partial(_resetting, own.forget_counts))
        for name, hook in zip(names, hooks, strict=True):
            if hasattr(functions, name):
                patches.enter_context(patched(functions, name, hook(getattr(functions, name))))
    _set_active(own)


def _reading(own: ProgramStatistics, original: _Read) -> _Read:
    return lambda device: own.read(int(device), original)


def _resetting(forget: Callable[[int], None], original: Callable[[int], Any]) -> Callable[[int], Any]:
    def reset(device: int) -> Any:
        forget(int(device))
        return original(device)

    return reset


def _set_active(own: ProgramStatistics | None) -> None:
    global _active  # noqa: PLW0603 - one allocator per process
    _active = own


@contextmanager
def excluded() -> Iterator[None]:
    """Leave what the block allocates out of the statistics, where `program_statistics` is in place."""
    import torch

    if _active is None or not torch.cuda.is_initialized():
        yield
        return
    with _active.excluding(torch.cuda.device_count()):
        yield
