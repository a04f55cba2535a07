"""The child process of `ctrace kernels tune`: compile every configuration, or check and time it on the GPU."""

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.kernel_packages.checks import guarded_call
from ctrace.inspector.capture.kernel_packages.correctness import difference
from ctrace.inspector.capture.kernel_packages.importing import Imported, Operator, imported
from ctrace.inspector.capture.kernel_packages.inputs import Case, cases
from ctrace.inspector.capture.kernel_packages.launches import (
    Fixed,
    absent,
    compiled,
    configuration_of,
    function_of,
    launch_of,
    name_of,
    options,
    own,
    resident,
)
from ctrace.inspector.capture.tasks.answering import answer
from ctrace.inspector.errors import TargetError
from ctrace.inspector.gpus.gpu import TargetGpu
from ctrace.inspector.gpus.table import gpu_named
from ctrace.inspector.kernel_packages.model import Configuration, SizeClass, Tried, Tuned, TunedKernel, TuneRequest
from ctrace.inspector.kernel_packages.package import package_at

_WARPS = (1, 2, 4, 8, 16)
_STAGES = (1, 2, 3, 4)
_FACTORS = (0.25, 0.5, 1, 2, 4)
_LARGEST = 1 << 16
"""Most elements of a block of all axes; Triton takes up to 2**20, but compiling such blocks takes minutes."""


def main(_loaded: frozenset[str]) -> None:
    """Carry out the request."""
    answer(TuneRequest, _tuned)


def _tuned(request: TuneRequest) -> Tuned:
    import torch

    found = imported(package_at(Path(request.folder)))
    is_timed = request.target is None
    if is_timed and not torch.cuda.is_available():
        what = "there is no GPU here to time configurations on"
        raise TargetError(what, "compile them for one that is not here: ctrace kernels tune DIR --target h100")
    kernels = []
    for operator in found.operators():
        if operator.is_cpp:
            what = f"{found.package.folder} has a kernel in C++, which has no configurations"
            raise TargetError(what, "edit kernel.cpp, and check it with ctrace kernels edit")
        for index, kernel in enumerate(operator.kernels):
            if request.kernels and name_of(kernel) not in request.kernels:
                continue
            if not getattr(kernel, "configs", None):
                what = f"{found.package.folder}: {name_of(kernel)} has no list of configurations"
                raise TargetError(what, "write CONFIGS = [triton.Config(...)] above @triton.autotune in kernel.py")
            kernels.append(_kernel(found, operator, index, request))
    if not kernels:
        raise TargetError(
            f"{found.package.folder} launches no Triton kernel", "eject the kernel again into an empty folder"
        )
    gpu = None if request.target is None else gpu_named(request.target, request.gpus)
    return Tuned(torch.cuda.get_device_name() if gpu is None else gpu.title, is_timed, tuple(kernels))


def _kernel(found: Imported, operator: Operator, index: int, request: TuneRequest) -> TunedKernel:
    kernel = operator.kernels[index]
    current = tuple(map(configuration_of, kernel.configs))
    wanted = candidates(current, _source(kernel), request.most)
    if request.target is not None:
        case = next(iter(cases(found, operator, "cpu")))
        gpu = gpu_named(request.target, request.gpus)
        with absent(gpu):
            tried = tuple(_compiled(operator, index, case, each, gpu) for each in wanted)
        classes = [SizeClass("as captured", case.name, tried)]
    else:
        classes = [
            SizeClass("as captured" if not number else f"size {number + 1}", case.name,
                      tuple(_timed(operator, index, case, wanted)))
            for number, case in enumerate(cases(found, operator, "cuda"))
        ]  # fmt: skip
    return TunedKernel(name_of(kernel), tuple(classes), current[0])


def _source(kernel: Any) -> str:
    import inspect

    try:
        return inspect.getsource(function_of(kernel).fn)
    except OSError:
        return ""


def candidates(current: Iterable[Configuration], source: str, most: int) -> tuple[Configuration, ...]:
    """Return the configurations to try: the kernel's own, then their neighbors, nearest first."""
    own = tuple(current)
    stages = _STAGES if "for " in source or "tl.dot" in source else (own[0].stages,)  # a pipeline needs a loop
    blocks = list(dict.fromkeys(tuple(each.blocks.items()) for each in own))
    sizes = {tuple(sorted(each.items())): each for chosen in blocks for each in _scaled(dict(chosen))}
    found = {each.key: each for each in own}
    around = [
        Configuration(dict(each), warps, stage)
        for each, warps, stage in itertools.product(sizes.values(), _WARPS, stages)
    ]
    for each in sorted(around, key=lambda one: min(_distance(one, other) for other in own)):
        found.setdefault(each.key, each)
    return tuple(found.values())[:most]


def _scaled(blocks: dict[str, int]) -> Iterator[dict[str, int]]:
    """Yield block sizes around some: powers of two, not larger than Triton compiles quickly."""
    for factors in itertools.product(_FACTORS, repeat=len(blocks)):
        made = {name: max(1, int(size * by)) for (name, size), by in zip(blocks.items(), factors, strict=True)}
        total = 1
        for size in made.values():
            total *= size
        if total <= _LARGEST:
            yield made


def _distance(one: Configuration, other: Configuration) -> float:
    import math

    blocks = sum(abs(math.log2(size / (other.blocks.get(name) or 1))) for name, size in one.blocks.items())
    return blocks + abs(math.log2(one.warps / other.warps)) + abs(one.stages - other.stages)


def _compiled(operator: Operator, index: int, case: Case, configuration: Configuration, gpu: TargetGpu) -> Tried:
    try:
        made = compiled(operator.kernels[index], launch_of(operator, case, index).args, configuration)
    except Exception as error:
        return Tried(configuration, failed=kind_and_message(error).splitlines()[0][:200])
    share, limit = resident(gpu, made, configuration)
    return Tried(configuration, made.registers, made.spills, made.shared, share, limit)


def _timed(operator: Operator, index: int, case: Case, wanted: Iterable[Configuration]) -> Iterator[Tried]:
    """Yield each configuration with its time; one that computes something else is not timed."""
    kernel = operator.kernels[index]
    for each in wanted:
        try:
            made = _resources(operator, index, case, each)
            kernels = operator.with_kernels(partial(_with, kernel, each))
            value, outside = guarded_call(partial(operator.module.run_kernel, kernels), case.args, {})
            _, wrong = difference(case, value)
            if wrong is not None or outside:
                where = outside or f"differs at {list(wrong.at) if wrong is not None else ''}"
                yield replace(made, equal=False, failed=where)
                continue
            launch = launch_of(operator, case, index)
            launch.prepare()
            yield replace(made, equal=True, seconds=_seconds(function_of(kernel)[launch.grid], launch.args, each))
        except Exception as error:
            yield Tried(each, failed=(kind_and_message(error).splitlines() or [""])[0][:200])


def _with(wanted: Any, configuration: Configuration, kernel: Any) -> Any:
    """Return what launches the wanted kernel with a configuration, and another one with its own."""
    return Fixed(kernel, configuration) if kernel is wanted else own(kernel)


def _seconds(launch: Any, args: tuple[Any, ...], configuration: Configuration) -> float:
    """Return the median time of a launch, with a cold L2 cache."""
    from triton.testing import do_bench

    return float(do_bench(lambda: launch(*args, **options(configuration)), quantiles=[0.5])) * 1e-3


def _resources(operator: Operator, index: int, case: Case, configuration: Configuration) -> Tried:
    """Compile a configuration for this machine's GPU, and read what it needs."""
    made = compiled(operator.kernels[index], launch_of(operator, case, index).args, configuration)
    share, limit = _resident_here(made, configuration)
    return Tried(configuration, made.registers, made.spills, made.shared, share, limit)


def _resident_here(made: Any, configuration: Configuration) -> tuple[float | None, str]:
    import torch

    from ctrace.inspector.kernels.occupancy import occupancy
    from ctrace.inspector.model.target import Multiprocessor

    facts: Any = torch.cuda.get_device_properties()  # torch's stub lacks some of its fields
    of = Multiprocessor(
        (facts.major, facts.minor),
        facts.regs_per_multiprocessor,
        facts.max_threads_per_multi_processor,
        facts.shared_memory_per_multiprocessor,
        facts.warp_size,
    )
    if made.registers is None or made.shared is None:
        return None, ""
    seen = occupancy(of, registers=made.registers, warps=configuration.warps, shared=made.shared)
    return (None, "") if seen is None else (seen.share, ", ".join(seen.limits))
