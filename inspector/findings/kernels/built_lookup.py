"""Collect compiled kernels from the log: their configurations, which one torch launches, their code and times."""

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from ctrace.inspector.facts.built import Built, BuiltEvent, KernelChosen, KernelCode, LaunchTiming

_OPS = "torch.ops."


def built_of(events: Sequence[BuiltEvent]) -> tuple[Built, ...]:
    """Return each configuration of each kernel once, with its code if the log has it."""
    found = {_key(each): each for each in events if isinstance(each, Built)}
    used = {(each.graph, each.stage, each.kernel): each.hash for each in events if isinstance(each, KernelChosen)}
    codes = {each.hash: each.ir for each in events if isinstance(each, KernelCode)}
    configurations = Counter((each.graph, each.stage, each.kernel) for each in found.values())
    made = []
    for each in found.values():
        kernel = each.graph, each.stage, each.kernel
        only = configurations[kernel] == 1
        chosen = used[kernel] == each.hash if kernel in used else each.chosen and only
        made.append(replace(each, chosen=chosen, ir=codes.get(each.hash, {})))
    return tuple(made)


def _key(built: Built) -> tuple[str, ...]:
    return built.graph, built.stage, built.kernel, built.hash


def timed_of(events: Sequence[BuiltEvent], kernels: Collection[str]) -> tuple[LaunchTiming, ...]:
    """Return the last time of each launch, with the name that the kernel has in `kernels`."""
    launches = (_named(each, kernels) for each in events if isinstance(each, LaunchTiming))
    return tuple({(each.graph, each.stage, each.kernel, each.launch): each for each in launches}.values())


def _named(timed: LaunchTiming, kernels: Collection[str]) -> LaunchTiming:
    """Name an op as Inductor does, which omits `torch.ops.` for ops with an out argument (2.11 to 2.13, ir.py)."""
    short = timed.kernel.removeprefix(_OPS)
    return replace(timed, kernel=short) if timed.kernel not in kernels and short in kernels else timed
