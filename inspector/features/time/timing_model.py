"""The measurements that screens and JSON share; times in seconds, memory in bytes, None: not measured."""

from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.rounds import WarmedUp
from ctrace.inspector.features.time.events import Compiled, Differed, Failed, Noted, Setup, SharesMeasured
from ctrace.inspector.features.time.timing_request import CompileConfiguration
from ctrace.inspector.findings.ratios import Interval, SpeedComparison


class PeakMemory(Struct, frozen=True):
    """The peak memory of a call on each side; None: not measured."""

    eager: int | None
    compiled: int | None


class TimedPart(Struct, frozen=True):
    """The times of one part of a scenario's calls: forward, backward, or a whole step."""

    JSON: ClassVar[str] = (
        "name=scenario part eager compiled speedup peak_memory=peaks warm_up=warm_ups rounds_that_compiled=unclean"
    )
    scenario: str
    part: str
    eager: Interval | None
    compiled: Interval | None
    speedup: SpeedComparison | None
    """The comparison with eager; None if no round was measured."""
    eager_peak: int | None
    compiled_peak: int | None
    warm_ups: tuple[WarmedUp, ...]
    unclean: int
    """The number of rounds in which torch compiled something, and which therefore do not count."""
    drifts: bool
    """Whether eager calls get slower or faster from round to round; then calls probably change the model's state."""

    @property
    def peaks(self) -> PeakMemory:
        """The peak memory of both sides."""
        return PeakMemory(self.eager_peak, self.compiled_peak)

    @property
    def saved(self) -> float | None:
        """Seconds that compiling saves per call; negative if it makes calls slower."""
        if self.eager is None or self.compiled is None:
            return None
        return self.eager.median - self.compiled.median


class MeasuredConfiguration(Struct, frozen=True):
    """One configuration, measured in a separate process."""

    configuration: CompileConfiguration
    setup: Setup | None
    """The process that measured; None if it ended before its measurements began."""
    parts: tuple[TimedPart, ...]
    shares: tuple[SharesMeasured, ...]
    differences: tuple[Differed, ...]
    compiled: Compiled | None
    notes: tuple[Noted, ...]
    failures: tuple[Failed, ...]
    compile_seconds: float | None
    """The compile time with empty caches: the extra time of the first scenario's first calls over its later calls."""
    warm_seconds: float | None = None
    """The compile time in a second process, with filled caches."""
    stopped: str = ""
    """Why measurements are missing: `interrupted`, `timed out after 60 s`, or how the process ended."""
    printed: tuple[str, ...] = ()
    """What torch printed while it autotuned."""
    load: float | None = None
    """The machine's load average in the minute before the measurement; None: not known."""

    @property
    def first(self) -> TimedPart | None:
        """The part in the headline: the whole step or the forward of the first scenario."""
        return next((each for each in self.parts if each.speedup is not None), None)


class Timings(Struct, frozen=True):
    """All measurements of a command."""

    target: str
    configurations: tuple[MeasuredConfiguration, ...]
    is_table: bool = False
    """Whether the command compares configurations."""
