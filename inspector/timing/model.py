"""What was measured: the nouns that screens and JSON share; times in seconds, memory in bytes, None: not measured."""

from msgspec import Struct

from ctrace.inspector.timing.events import Compiled, Differed, Failed, Noted, Setup, SharesMeasured, WarmedUp
from ctrace.inspector.timing.ratios import Comparison, Interval
from ctrace.inspector.timing.request import Configuration


class Part(Struct, frozen=True):
    """One part of a scenario's calls: forward, backward, or a whole step."""

    scenario: str
    part: str
    eager: Interval | None
    compiled: Interval | None
    speedup: Comparison | None
    """None: no round was measured."""
    eager_peak: int | None
    compiled_peak: int | None
    warm_ups: tuple[WarmedUp, ...]
    unclean: int
    """Rounds that compiled something, which do not count."""
    drifts: bool
    """Whether eager calls get slower or faster from round to round, as if calls changed the model's state."""

    @property
    def saved(self) -> float | None:
        """Seconds that compiling saves a call; negative if it costs some."""
        if self.eager is None or self.compiled is None:
            return None
        return self.eager.median - self.compiled.median


class Measured(Struct, frozen=True):
    """One configuration, measured in a process of its own."""

    configuration: Configuration
    setup: Setup | None
    """None: it ended before it was ready to measure."""
    parts: tuple[Part, ...]
    shares: tuple[SharesMeasured, ...]
    differences: tuple[Differed, ...]
    compiled: Compiled | None
    notes: tuple[Noted, ...]
    failures: tuple[Failed, ...]
    compile_seconds: float | None
    """Of the first scenario, with empty caches: the first calls, beyond what later calls take."""
    warm_seconds: float | None = None
    """The same in a second process, which finds the caches filled."""
    stopped: str = ""
    """Why not all was measured: `interrupted`, `timed out after 60 s`, how the process ended."""
    printed: tuple[str, ...] = ()
    """What torch printed while it autotuned."""
    load: float | None = None
    """How many processes of this machine wanted a core in the minute before; None: not known."""

    @property
    def first(self) -> Part | None:
        """The part that the headline is about: the whole step or the forward of the first scenario."""
        return next((each for each in self.parts if each.speedup is not None), None)


class Timings(Struct, frozen=True):
    """All that a command measured."""

    target: str
    configurations: tuple[Measured, ...]
    is_table: bool = False
    """Whether the command compares configurations."""
