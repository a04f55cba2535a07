"""The child process of `ctrace kernels tune`: compile every configuration, or check and time it on the GPU."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.errors import TargetError, telling_line
from ctrace.inspector.features.workshop.child.importing import Case, Imported, Operator, cases, every_case, imported
from ctrace.inspector.features.workshop.child.kernel_sides import compared, guarded, limited, too_long
from ctrace.inspector.features.workshop.child.recorded_launches import (
    FixedLaunch,
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
from ctrace.inspector.features.workshop.kernel_package import package_at
from ctrace.inspector.features.workshop.package_configurations import faster_of, text_of
from ctrace.inspector.features.workshop.package_model import (
    KernelConfiguration,
    PackageTuning,
    SizeClass,
    TriedConfiguration,
    TunedConfigurations,
    TuneRequest,
)
from ctrace.inspector.findings.ratios import ROUNDS
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu, gpu_named
from ctrace.inspector.runs.tasks import FailedTask

_T = TypeVar("_T")
_WARPS = (1, 2, 4, 8, 16)
_STAGES = (1, 2, 3, 4)
_FACTORS = (0.25, 0.5, 1, 2, 4)
_COMPARED = 4
"""How many of the fastest configurations are compared with the present one."""
_LONG, _SHORT = 100, 10
"""Milliseconds of launches for a first time, and for each round of a comparison."""
_LARGEST = 1 << 16
"""Most elements of a block of all axes; Triton takes up to 2**20, but compiling such blocks takes minutes."""


def main(_loaded: frozenset[str]) -> None:
    """Carry out the request."""
    answer(TuneRequest, _tuned)


def _tuned(request: TuneRequest) -> PackageTuning:
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
    gpu = None
    if request.target is not None:
        gpu = gpu_named(request.target, request.gpus)
    return PackageTuning(torch.cuda.get_device_name() if gpu is None else gpu.title, is_timed, tuple(kernels))


def _kernel(found: Imported, operator: Operator, index: int, request: TuneRequest) -> TunedConfigurations:
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
        classes = list(_timed(found, operator, index, wanted, request.seconds))
    return TunedConfigurations(name_of(kernel), tuple(classes), current[0], current)


def _source(kernel: Any) -> str:
    import inspect

    try:
        return inspect.getsource(function_of(kernel).fn)
    except OSError:
        return ""


def candidates(current: Iterable[KernelConfiguration], source: str, most: int) -> tuple[KernelConfiguration, ...]:
    """Return the configurations to try: the kernel's own, then their neighbors, nearest first."""
    own = tuple(current)
    stages: tuple[int, ...] = (own[0].stages,)
    if "for " in source or "tl.dot" in source:  # a pipeline needs a loop
        stages = _STAGES
    # The order stays, and each choice of blocks is scaled once.
    blocks = list(dict.fromkeys(tuple(each.blocks.items()) for each in own))
    sizes = {tuple(sorted(each.items())): each for chosen in blocks for each in _scaled(dict(chosen))}
    found = {each.key: each for each in own}
    around = [
        KernelConfiguration(dict(each), warps, stage)
        for each, warps, stage in itertools.product(sizes.values(), _WARPS, stages)
    ]
    # Nearest first, because only so many are tried, and a neighbor of a good choice is more often good.
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


def _distance(one: KernelConfiguration, other: KernelConfiguration) -> float:
    import math

    blocks = sum(abs(math.log2(size / (other.blocks.get(name) or 1))) for name, size in one.blocks.items())
    return blocks + abs(math.log2(one.warps / other.warps)) + abs(one.stages - other.stages)


def _compiled(
    operator: Operator, index: int, case: Case, configuration: KernelConfiguration, gpu: TargetGpu
) -> TriedConfiguration:
    try:
        made = compiled(operator.kernels[index], launch_of(operator, case, index).args, configuration)
    except Exception as error:
        return TriedConfiguration(configuration, failed=telling_line(kind_and_message(error))[:200])
    share, limit = resident(gpu, made, configuration)
    return TriedConfiguration(configuration, made.registers, made.spills, made.shared, share, limit)


def _timed(
    found: Imported, operator: Operator, index: int, wanted: Sequence[KernelConfiguration], seconds: float
) -> Iterator[SizeClass]:
    """Yield each size class with the times of all configurations that are right for every case of every size."""
    kernel = operator.kernels[index]
    own = len(kernel.configs)
    checked = [each for each in every_case(found, operator, "cuda") if operator.module.covers(*each.args)]
    # For all cases at once: a configuration that is wrong for one size may be the fastest for another.
    wrong = [_within(seconds, each, partial(_wrong, operator, index, checked, each)) for each in wanted]
    for number, case in enumerate(cases(found, operator, "cuda")):
        tried = tuple(
            TriedConfiguration(each, failed=why, equal=False)
            if why
            else _within(seconds, each, partial(_time, operator, index, case, each))
            for each, why in zip(wanted, wrong, strict=True)
        )
        best = _best(operator, index, case, tried, own)
        yield SizeClass("as captured" if not number else f"size {number + 1}", case.name, tried, best)


def _within(seconds: float, configuration: KernelConfiguration, work: Callable[[], _T]) -> _T:
    what = f"{text_of(configuration)}: {too_long(seconds)}"
    with limited(seconds, lambda: FailedTask(what, "check the kernel first: ctrace kernels edit DIR --once")):
        return work()


def _wrong(operator: Operator, index: int, checked: Iterable[Case], configuration: KernelConfiguration) -> str:
    """Return for which case a configuration is wrong, and how; empty if it is right."""
    kernels = operator.with_kernels(partial(_with, operator.kernels[index], configuration))
    for case in checked:
        if case.kind == "random inputs 1" and case.configuration:
            continue  # the same inputs once more, for another one of the present configurations
        found = compared(operator, case, guarded(partial(operator.module.run_kernel, kernels), "gpu", case.args, {}))
        if not found.equal:
            if found.wrong is not None:
                at = f"differs at {list(found.wrong.at)}"
            else:
                at = found.note
            return f"{', '.join(filter(None, (found.sizes, found.inputs)))}: {at}"[:200]
    return ""


def _time(operator: Operator, index: int, case: Case, configuration: KernelConfiguration) -> TriedConfiguration:
    """Compile a configuration, and time one launch."""
    try:
        made = _resources(operator, index, case, configuration)
        return replace(made, equal=True, seconds=_seconds(_launching(operator, index, case, configuration)))
    except Exception as error:
        return TriedConfiguration(configuration, failed=telling_line(kind_and_message(error))[:200])


def _best(
    operator: Operator, index: int, case: Case, tried: Sequence[TriedConfiguration], own: int
) -> KernelConfiguration | None:
    """Return the configuration to keep: the fastest present one, unless another is measurably faster.

    The first times, of all configurations, only choose which ones to compare: in turns, so that what disturbs one of
    them disturbs the others, too.
    """
    timed = sorted((each for each in tried if each.seconds is not None), key=lambda each: each.seconds or 0.0)
    # By identity, because a tried configuration may equal one of the kernel's own in all that it holds.
    present = next((each for each in timed if any(each is one for one in tried[:own])), None)
    if present is None:
        if timed:
            return timed[0].configuration
        return None
    others = [each for each in timed if not any(each is one for one in tried[:own])][:_COMPARED]
    launches = [_launching(operator, index, case, each.configuration) for each in (present, *others)]
    # One launch of each in a round, so what slows the GPU for a while slows all of them.
    rounds = [[_seconds(each, _SHORT) for each in launches] for _ in range(ROUNDS)]
    by_launch = list(zip(*rounds, strict=True))
    faster = faster_of(by_launch[0], dict(enumerate(by_launch[1:])))
    if faster is None:
        return present.configuration
    return others[faster].configuration


def _launching(operator: Operator, index: int, case: Case, configuration: KernelConfiguration) -> Callable[[], object]:
    """Return what launches a kernel once, on the inputs of a case."""
    launch = launch_of(operator, case, index)
    launch.prepare()
    run = function_of(operator.kernels[index])[launch.grid]
    return lambda: run(*launch.args, **options(configuration))


def _with(wanted: Any, configuration: KernelConfiguration, kernel: Any) -> Any:
    """Return what launches the wanted kernel with a configuration, and another one with its own."""
    if kernel is wanted:
        return FixedLaunch(kernel, configuration)
    return own(kernel)


def _seconds(launch: Callable[[], object], milliseconds: float = _LONG) -> float:
    """Return the median time of a launch, with a cold L2 cache."""
    from triton.testing import do_bench

    return float(do_bench(launch, rep=milliseconds, quantiles=[0.5])) * 1e-3


def _resources(operator: Operator, index: int, case: Case, configuration: KernelConfiguration) -> TriedConfiguration:
    """Compile a configuration for this machine's GPU, and read what it needs."""
    made = compiled(operator.kernels[index], launch_of(operator, case, index).args, configuration)
    share, limit = _resident_here(made, configuration)
    return TriedConfiguration(configuration, made.registers, made.spills, made.shared, share, limit)


def _resident_here(made: Any, configuration: KernelConfiguration) -> tuple[float | None, str]:
    import torch

    from ctrace.inspector.facts.target_gpu import Multiprocessor
    from ctrace.inspector.findings.kernels.built_view import occupancy

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
    if seen is None:
        return (None, "")
    return (seen.share, ", ".join(seen.limits))
