"""Explain why one configuration of a model is slower than another: what differs, and how much time that takes."""

import re
from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.features.time.events import KernelUsed, SharesMeasured
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, Timings
from ctrace.inspector.features.time.timing_view import Ranking, break_even, compiled_shares, kernels_a_call, ranking
from ctrace.inspector.findings.ratios import RatioVerdict
from ctrace.inspector.knowledge.counting import count

# Chosen, as is the next one: a reason is one sentence.
_SHOWN_KERNELS = 3
_LONG_NAME = 60
"""Characters of a kernel's name in a table; names of templates have hundreds."""
_SMALL = 0.02
"""Omit differences below this share of the gap between two calls."""


class SpeedReason(Struct, frozen=True):
    """One thing in which two configurations differ."""

    kind: str
    """`cuda_graphs`, `kernels`, `program`, `gpu`, `graphs`."""
    text: str
    seconds: float | None = None
    """How much longer the slower configuration takes because of it; None if not measured."""


class SpeedDifference(Struct, frozen=True):
    """Why one configuration is slower than another."""

    JSON: ClassVar[str] = "best other seconds=gap reasons"
    best: str
    other: str
    gap: float
    """How much longer a call of the other configuration takes, in seconds."""
    reasons: tuple[SpeedReason, ...]


def differences(timings: Timings) -> tuple[SpeedDifference, ...]:
    """Compare the fastest configuration with each one that is measurably slower."""
    found = ranking(timings)
    if found.lead is None:
        return ()
    others = (each.measured for each in found.ranks if each.verdict is RatioVerdict.FASTER)
    return tuple(difference(found.lead, other) for other in others)


def difference(best: MeasuredConfiguration, other: MeasuredConfiguration) -> SpeedDifference:
    """Explain why `other` takes longer than `best`, the largest reason first."""
    reasons = [*_cuda_graphs(best, other), *_graphs(best, other)]
    ours, theirs = compiled_shares(best), compiled_shares(other)
    if ours is None or theirs is None:
        timed = []
    else:
        timed = [*_kernels(ours, theirs), *_program(ours, theirs)]
    # Reasons without a time come first: they say what kind of difference it is.
    timed.sort(key=lambda each: -abs(each.seconds or 0.0))
    return SpeedDifference(best.configuration.name, other.configuration.name, _gap(best, other), (*reasons, *timed))


def _gap(best: MeasuredConfiguration, other: MeasuredConfiguration) -> float:
    """Return how much longer a call of `other` takes, in seconds, computed from each process's speed-up over eager."""
    one, two = best.first, other.first
    if one is None or two is None or one.speedup is None or two.speedup is None or one.eager is None:
        return 0.0
    # Not from the compiled times themselves: two processes differ in eager, too.
    return one.eager.median * (1 / two.speedup.ratio.median - 1 / one.speedup.ratio.median)


_STATES = {
    "recorded": "replays a CUDA graph",
    "skipped": "launches each kernel: torch skipped its CUDA graph",
    "partly": "replays a CUDA graph for a part of the calls only",
    "off": "launches each kernel",
    "unknown": "launches each kernel: torch recorded no CUDA graph",
}


def _cuda_graphs(best: MeasuredConfiguration, other: MeasuredConfiguration) -> Iterator[SpeedReason]:
    if best.compiled is None or other.compiled is None:
        return
    ours, theirs = best.compiled, other.compiled
    if ours.cuda_graphs != theirs.cuda_graphs and {ours.cuda_graphs, theirs.cuda_graphs} & set(_STATES) - {"off"}:
        names = best.configuration.name, other.configuration.name
        words = _STATES.get(ours.cuda_graphs, "has no GPU"), _STATES.get(theirs.cuda_graphs, "has no GPU")
        yield SpeedReason("cuda_graphs", f"{names[0]} {words[0]}; {names[1]} {words[1]}")
    # One recording is what each replayed graph needs.
    if theirs.recordings > max(ours.recordings, 1):
        yield SpeedReason(
            "cuda_graphs", f"{other.configuration.name} recorded {count(theirs.recordings, 'CUDA graph')}"
        )
    for skip in theirs.skips[:2]:
        yield SpeedReason("cuda_graphs", f"{other.configuration.name}: {skip.reason}")


def _graphs(best: MeasuredConfiguration, other: MeasuredConfiguration) -> Iterator[SpeedReason]:
    if best.compiled is not None and other.compiled is not None and best.compiled.graphs != other.compiled.graphs:
        text = f"{count(other.compiled.graphs, 'graph')} instead of {best.compiled.graphs}"
        yield SpeedReason("graphs", text)


def _kernels(ours: SharesMeasured, theirs: SharesMeasured) -> Iterator[SpeedReason]:
    """Name the kernels that only one side runs, and compare the times of the other kernels."""
    known = {each.name: each for each in ours.kernel_list}
    others = {each.name: each for each in theirs.kernel_list}
    only_ours = [each for name, each in known.items() if name not in others]
    only_theirs = [each for name, each in others.items() if name not in known]
    if only_ours or only_theirs:
        seconds = _sum(only_theirs) - _sum(only_ours)
        yield SpeedReason("kernels", f"{_named(only_theirs)} instead of {_named(only_ours)}", seconds)
    both = [(known[name], others[name]) for name in known.keys() & others.keys()]
    seconds = sum(theirs_.seconds - ours_.seconds for ours_, theirs_ in both)
    total = sum(ours_.seconds for ours_, _ in both)
    # Equal kernels never take exactly as long.
    if both and abs(seconds) > _SMALL * max(total, 1e-9):
        yield SpeedReason("kernels", f"the same {count(len(both), 'kernel')}", seconds)


def _sum(kernels: list[KernelUsed]) -> float:
    return sum(each.seconds for each in kernels)


def short_name(kernel: str) -> str:
    """Remove result, namespaces, parameters and template arguments from the name of a C++ kernel.

    For a CUTLASS kernel, the first template argument contains the name.
    """
    text = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    head, _, rest = text.partition("<")
    # e.g. `void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128>(Params)`.
    if head.endswith("::Kernel2") or head.endswith("::Kernel"):
        head = re.split(r"[<>,(]", rest, maxsplit=1)[0]
    name = head.partition("(")[0].rpartition("::")[2].strip() or kernel
    if len(name) <= _LONG_NAME:
        return name
    return f"{name[: _LONG_NAME - 1]}…"


def _named(kernels: list[KernelUsed]) -> str:
    if not kernels:
        return "nothing"
    largest = sorted(kernels, key=lambda each: -each.seconds)
    names = ", ".join(short_name(each.name) for each in largest[:_SHOWN_KERNELS])
    left = len(kernels) - _SHOWN_KERNELS
    if left <= 0:
        return names
    return f"{names} and {left} more"


def _program(ours: SharesMeasured, theirs: SharesMeasured) -> Iterator[SpeedReason]:
    """Compare the program's work around the kernels, and how long the GPU waits for the program."""
    fields = (
        ("guards", "guards"),
        ("runtime", "Dynamo and AOTAutograd"),
        ("wrapper", "Inductor's wrapper"),
        ("launches", "launches"),
    )
    gap = max(abs(theirs.call - ours.call), 1e-9)
    for field, name in fields:
        one, two = getattr(ours, field), getattr(theirs, field)
        if one is not None and two is not None and abs(two - one) > _SMALL * gap:
            yield SpeedReason("program", name, two - one)
    if ours.gaps is not None and theirs.gaps is not None and abs(theirs.gaps - ours.gaps) > _SMALL * gap:
        yield SpeedReason("gpu", "the GPU waits for the program", theirs.gaps - ours.gaps)


class ConfigurationTimes(Struct, frozen=True):
    """One configuration, measured in a separate process; `first` is the part in the headline."""

    JSON: ClassVar[str] = (
        "name=of.configuration.name mode=of.configuration.mode backend=of.configuration.backend "
        "options=of.configuration.options scenario=of.first.scenario eager=of.first.eager compiled=of.first.compiled "
        "speedup=of.first.speedup compile_seconds=of.compile_seconds warm_compile_seconds=of.warm_seconds "
        "break_even_calls peak_memory=of.first.peaks scenarios=of.parts shares=of.shares graphs=of.compiled.graphs "
        "breaks=of.compiled.breaks kernels cuda_graphs=of.compiled difference_from_eager=of.differences "
        "device=of.setup.device threads=of.setup.threads cores=of.setup.cores torch=of.setup.torch "
        "python=of.setup.python load=of.load stopped=of.stopped|null_if_empty autotuning_log=of.printed "
        "failures=of.failures notes=of.notes"
    )
    of: MeasuredConfiguration
    break_even_calls: int | None
    """After how many calls compiling has paid off; None if it never does, or if not known."""
    kernels: int | None
    """How many kernels a call launches."""


class TimingDocument(Struct, frozen=True):
    """The times of one configuration."""

    JSON: ClassVar[str] = "schema target=timings.target *first"
    timings: Timings
    configurations: tuple[ConfigurationTimes, ...]

    @property
    def first(self) -> ConfigurationTimes:
        """The configuration."""
        return self.configurations[0]


class TimingTable(TimingDocument, frozen=True):
    """The times of several configurations, the best one, and why the others are slower."""

    JSON: ClassVar[str] = (
        "schema target=timings.target best=ranking.best tied=ranking.tied eager_noise=ranking.noise configurations "
        "differences"
    )
    ranking: Ranking
    differences: tuple[SpeedDifference, ...]


def timing_document(timings: Timings) -> TimingDocument:
    """Answer with a table if the command compares configurations."""
    found = tuple(ConfigurationTimes(each, break_even(each), kernels_a_call(each)) for each in timings.configurations)
    if not timings.is_table:
        return TimingDocument(timings, found)
    return TimingTable(timings, found, ranking(timings), differences(timings))
