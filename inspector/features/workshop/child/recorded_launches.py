"""The launch of a package's kernel: recorded once, then compiled or timed with other configurations."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.kernels.compile_driver import Driver
from ctrace.inspector.capture.kernels.triton_builds import resources
from ctrace.inspector.facts.target_gpu import Multiprocessor
from ctrace.inspector.features.workshop.child.importing import Case, Operator
from ctrace.inspector.features.workshop.package_model import KernelConfiguration
from ctrace.inspector.findings.kernels.built_view import occupancy
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu


class LaunchRecorder:
    """Takes the place of a kernel in `run_kernel`, and keeps its launch instead of making it."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, tuple[Any, ...]]] = []

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(self, grid: Any, *args: Any) -> None:
        self.launches.append((grid, args))


class FixedLaunch:
    """Takes the place of a kernel in `run_kernel`, and launches it with one configuration."""

    def __init__(self, kernel: Any, configuration: KernelConfiguration) -> None:
        self._kernel = function_of(kernel)
        self._configuration = configuration

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(self, grid: Any, *args: Any) -> None:
        self._kernel[grid](*args, **options(self._configuration))


def function_of(kernel: Any) -> Any:
    """Return the `@triton.jit` function inside of `triton.autotune` and `triton.heuristics`."""
    # Decorators may stand in any order and number, and each keeps the function that it wraps in `fn`.
    while hasattr(kernel, "configs") or hasattr(kernel, "values"):
        kernel = kernel.fn
    return kernel


def options(configuration: KernelConfiguration) -> dict[str, Any]:
    """Return the keyword arguments of a launch with a configuration."""
    return {**configuration.blocks, "num_warps": configuration.warps, "num_stages": configuration.stages}


def configuration_of(config: Any) -> KernelConfiguration:
    """Return a `triton.Config`."""
    # Only block sizes: a configuration may also have flags, which are no numbers to scale.
    blocks = {str(name): int(value) for name, value in config.kwargs.items() if type(value) is int}
    return KernelConfiguration(blocks, int(config.num_warps), int(config.num_stages))


def configuration_of_all(operator: Operator, number: int) -> str:
    """Describe the configuration of each kernel of an operator, such as `XBLOCK=256 4w 1s`; empty if none has any."""
    texts = []
    for kernel in operator.kernels:
        if configs := getattr(kernel, "configs", None):
            # Kernels of one operator may have different numbers of configurations.
            each = configuration_of(configs[number % len(configs)])
            blocks = [f"{name}={size}" for name, size in each.blocks.items()]
            texts.append(" ".join([*blocks, f"{each.warps}w", f"{each.stages}s"]))
    return " and ".join(texts)


def launches_of(operator: Operator, values: Sequence[Any]) -> list[tuple[Any, Any, tuple[Any, ...]]]:
    """Return each kernel that the operator launches for some inputs, with its grid and arguments."""
    recorded = [LaunchRecorder() for _ in operator.kernels]
    pending = iter(recorded)
    operator.module.run_kernel(operator.with_kernels(lambda _kernel: next(pending)), *values)
    return [
        (kernel, grid, args)
        for kernel, of in zip(operator.kernels, recorded, strict=True)
        for grid, args in of.launches
    ]


class PackageLaunch(Struct, frozen=True):
    """The launch of one kernel of an operator, for some inputs."""

    grid: Any
    args: tuple[Any, ...]
    before: tuple[tuple[Any, Any, tuple[Any, ...]], ...] = ()
    """The launches that compute its inputs, as kernels with their grids and arguments."""

    def prepare(self) -> None:
        """Make the launches before it, with the first configuration of each kernel."""
        for kernel, grid, args in self.before:
            own(kernel)[grid](*args)


def own(kernel: Any) -> Any:
    """Return what launches a kernel with the first of its own configurations."""
    configs = getattr(kernel, "configs", None)
    if configs:
        return FixedLaunch(kernel, configuration_of(configs[0]))
    return kernel


def launch_of(operator: Operator, case: Case, index: int = 0) -> PackageLaunch:
    """Return the launch of one of the operator's kernels for some inputs.

    Raises:
        ValueError: the operator launches this kernel not once.
    """
    found = launches_of(operator, case.args)
    wanted = [at for at, (kernel, _grid, _args) in enumerate(found) if kernel is operator.kernels[index]]
    if len(wanted) != 1:
        raise ValueError(f"run_kernel launches {name_of(operator.kernels[index])} {len(wanted)} times, not once")
    return PackageLaunch(*found[wanted[0]][1:], before=tuple(found[: wanted[0]]))


def name_of(kernel: Any) -> str:
    """Return the name of a kernel's function."""
    return str(function_of(kernel).fn.__name__)


class CompiledConfiguration(Struct, frozen=True):
    """A compiled configuration."""

    code: dict[str, str]
    registers: int | None
    spills: int | None
    shared: int | None


def compiled(kernel: Any, args: tuple[Any, ...], configuration: KernelConfiguration) -> CompiledConfiguration:
    """Compile a kernel for Triton's active driver without launching it.

    Raises:
        Exception: Triton or ptxas cannot compile it.
    """
    # A warmup compiles, and does not launch: the arguments only give types and alignments.
    made = function_of(kernel).warmup(*args, grid=(1,), **options(configuration))
    cubin = made.asm.get("cubin")
    found = {}
    if cubin is not None:
        found = resources(cubin)
    # The binaries are left out, and the source, which the user has.
    code = {name: text for name, text in made.asm.items() if isinstance(text, str) and name != "source"}
    return CompiledConfiguration(
        code, found.get("registers"), found.get("spills"), getattr(made.metadata, "shared", None)
    )


def resident(
    gpu: TargetGpu, found: CompiledConfiguration, configuration: KernelConfiguration
) -> tuple[float | None, str]:
    """Return the share of warps that a multiprocessor can hold, and what limits it."""
    of = Multiprocessor(gpu.capability, gpu.registers, gpu.threads, gpu.shared, gpu.warp)
    if found.registers is None or found.shared is None:
        return None, ""
    seen = occupancy(of, registers=found.registers, warps=configuration.warps, shared=found.shared)
    if seen is None:
        return (None, "")
    return (seen.share, ", ".join(seen.limits))


class _NoStream(Driver):
    """The target's driver for Triton's own launcher, which asks for a stream before it compiles."""

    def get_current_stream(self, _device: int) -> int:
        """Return a stream that nothing is put on."""
        return 0


@contextmanager
def absent(gpu: TargetGpu) -> Iterator[None]:
    """Let Triton compile for a GPU that is not there."""
    with _NoStream(gpu).active():
        yield
