"""Combine the events of a measuring process into its measurements."""

import statistics
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
from ctrace.inspector.features.time.events import (
    AutotuningPrinted,
    Compiled,
    Differed,
    Event,
    Failed,
    Noted,
    Peaks,
    Setup,
    SharesMeasured,
)
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, TimedPart
from ctrace.inspector.features.time.timing_request import CompileConfiguration
from ctrace.inspector.findings.ratios import compared, has_trend, interval_of

_LAST = 3
"""How many of the last warm-up calls to use; their median is the time of a call."""


class Fold(Struct):
    """Collect the events of one process."""

    configuration: CompileConfiguration
    setup: Setup | None = None
    compiled: Compiled | None = None
    is_done: bool = False
    warm_ups: list[WarmedUp] = field(default_factory=list)
    rounds: dict[tuple[str, str], list[RoundDone]] = field(default_factory=dict)
    peaks: dict[tuple[str, str], Peaks] = field(default_factory=dict)
    shares: list[SharesMeasured] = field(default_factory=list)
    differences: list[Differed] = field(default_factory=list)
    notes: list[Noted] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def add(self, event: Event) -> None:  # noqa: C901 - one case an event
        """Add one event."""
        match event:
            case Setup():
                self.setup = event
            case WarmedUp():
                self.warm_ups.append(event)
                self.rounds.setdefault((event.scenario, event.part), [])
            case RoundDone():
                self.rounds.setdefault((event.scenario, event.part), []).append(event)
            case Peaks():
                self.peaks[event.scenario, event.part] = event
            case SharesMeasured():
                self.shares.append(event)
            case Differed():
                self.differences.append(event)
            case Compiled():
                self.compiled = event
            case Noted():
                self.notes.append(event)
            case Failed():
                self.failures.append(event)
            case AutotuningPrinted(text=text):
                self.printed.append(text)
            case _:
                self.is_done = True

    def measured(self, *, stopped: str = "", load: float | None = None) -> MeasuredConfiguration:
        """Return what has been measured so far."""
        parts = tuple(self._part(scenario, part) for scenario, part in self.rounds)
        return MeasuredConfiguration(
            configuration=self.configuration,
            setup=self.setup,
            parts=parts,
            shares=tuple(self.shares),
            differences=tuple(self.differences),
            compiled=self.compiled,
            notes=tuple(self.notes),
            failures=tuple(self.failures),
            printed=tuple(self.printed),
            compile_seconds=self.compile_seconds(),
            stopped=stopped,
            load=load,
        )

    def compile_seconds(self) -> float | None:
        """Return how much longer the compiled model's first calls take than later ones."""
        scenario = next((each.scenario for each in self.warm_ups), None)
        first = [each for each in self.warm_ups if each.scenario == scenario and each.side == "compiled"]
        return sum(map(_beyond, first)) if first else None

    def _part(self, scenario: str, part: str) -> TimedPart:
        rounds = self.rounds[scenario, part]
        clean = [each for each in rounds if each.clean]
        eager, compiled = [each.eager for each in clean], [each.compiled for each in clean]
        found = TimedPart(
            scenario=scenario,
            part=part,
            eager=None,
            compiled=None,
            speedup=None,
            eager_peak=None,
            compiled_peak=None,
            warm_ups=tuple(each for each in self.warm_ups if (each.scenario, each.part) == (scenario, part)),
            unclean=len(rounds) - len(clean),
            drifts=has_trend(eager),
        )
        if clean:
            speedup = compared(eager, compiled)
            found = replace(found, eager=interval_of(eager), compiled=interval_of(compiled), speedup=speedup)
        if (peaks := self.peaks.get((scenario, part))) is not None:
            # The peak does not include a replayed CUDA graph's memory, which was reserved when the graph was recorded.
            is_replayed = self.compiled is not None and self.compiled.recordings > 0
            compiled_peak = None if is_replayed else peaks.compiled
            found = replace(found, eager_peak=peaks.eager, compiled_peak=compiled_peak)
        return found


def _beyond(warm_up: WarmedUp) -> float:
    """Return how many seconds longer all calls up to the last one that compiled take than as many later calls."""
    if not warm_up.compiled:
        return 0.0
    later = statistics.median(warm_up.seconds[-_LAST:])
    return sum(max(each - later, 0.0) for each in warm_up.seconds[: max(warm_up.compiled) + 1])


def folded(configuration: CompileConfiguration, events: Iterable[Event]) -> Fold:
    """Return a Fold with these events."""
    fold = Fold(configuration)
    for event in events:
        fold.add(event)
    return fold
