"""Where compile time goes, what caches returned, and whether compiled is faster than eager: as a Session has it, and as
events of the log.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.stored import Stored
from ctrace.inspector.facts.wire import MAYBE_COMPILATION, Integer, Number, Record


class Span(Struct, frozen=True):
    """One timed step of compiling; times in seconds since the first step of the log."""

    name: str
    """Torch's name of the step, such as `Scheduler.codegen`."""
    begin: float
    end: float
    graph: str | None = None
    """The compilation that it belongs to; None: it belongs to none."""
    children: tuple["Span", ...] = ()
    is_cut: bool = False
    """Whether the log ends before the step does."""

    @property
    def seconds(self) -> float:
        """How long it took, with its children."""
        return self.end - self.begin


class Lane(Struct, frozen=True):
    """The steps of one thread or process, in order; none overlaps the next."""

    thread: str
    spans: tuple[Span, ...]
    is_parallel: bool = False
    """Whether it works beside the thread that compiles, so that its seconds do not add to the compile time."""


class MarkColumns(Struct, frozen=True):
    """The begin and end marks of compile steps in columns; `log/collected_log.py` writes and reads them."""

    # Columns and no Structs: a large model has very many marks, and few views ask for them.
    texts: tuple[str | None, ...] = ()
    """Threads, names and compilations, which the rows number."""
    rows: bytes = b""
    times: bytes = b""


class LookupOutcome(StrEnum):
    """The outcome of a cache look-up."""

    HIT = "hit"
    MISS = "miss"
    BYPASS = "bypass"
    """Torch skipped the cache, because it cannot cache this."""


class KeyPart(Struct, frozen=True):
    """One component of a cache key."""

    name: str
    """Such as `gm`, `example_inputs[0]` or `inductor_config[epilogue_fusion]`."""
    digest: str
    text: str


class KeyDifference(Struct, frozen=True, forbid_unknown_fields=True):
    """A component in which two keys differ; None: that key does not have it."""

    component: str
    was: str | None
    now: str | None


class CacheLookup(Struct, frozen=True):
    """One cache look-up."""

    cache: str
    """`precompile`, `aot_autograd`, `fx_graph`, `triton` or `autotune`."""
    outcome: LookupOutcome
    graph: str | None = None
    stage: str | None = None
    """`forward`, `backward` or `inference`; None: the look-up is for the whole graph."""
    key: str | None = None
    detail: str = ""
    """Torch's own word for it, such as `full_miss` or `guard_miss`."""
    reason: str = ""
    """Why torch bypassed the cache."""
    kernel: str | None = None
    components: tuple[KeyPart, ...] = ()
    record: Stored | None = None
    """In a large log: torch's record, which has the components (`findings/compile_time_view.py` reads them)."""
    is_stored: bool | None = None
    """Whether torch stored what it compiled after a miss; None: not recorded."""
    not_stored: str = ""
    """Why torch did not store it."""


class EarlierKey(Record, frozen=True, forbid_unknown_fields=True):
    """How a key that was missed differs from the nearest key of an earlier run."""

    KIND: ClassVar[str] = "cache_earlier"
    cache: str
    key: str
    run: str
    """The earlier run."""
    earlier: str
    """Its key."""
    differs: tuple[KeyDifference, ...]


class Metrics(Struct, frozen=True):
    """Torch's metrics of one compilation; `findings/compile_time_fold.py` returns them by name."""

    graph: str
    is_backward: bool
    values: Mapping[str, Any] = field(default_factory=dict)
    """Empty in a large log, which keeps them until they are needed."""
    record: Stored | None = None
    """The first line of their record, in a large log."""


class TorchCachesUsed(Record, frozen=True, forbid_unknown_fields=True):
    """Which caches a run could use."""

    JSON: ClassVar[str] = "kind|null_if_empty folder|null_if_empty switched_off"
    KIND: ClassVar[str] = "caches"
    kind: str = ""
    """`private`, `user` or `off`; empty: the log does not say."""
    folder: str = ""
    switched_off: tuple[str, ...] = ()
    """The caches that torch's settings switch off."""


class CompileTime(Struct, frozen=True):
    """Everything a run recorded about the time and the caches of compiling."""

    marks: MarkColumns = MarkColumns()
    """The steps; `findings/compile_time_fold.py:lanes_of` returns them as spans."""
    lookups: tuple[CacheLookup, ...] = ()
    earlier: tuple[EarlierKey, ...] = ()
    use: TorchCachesUsed = TorchCachesUsed()
    counted: Mapping[str, int] | None = field(default=None)
    """Torch's own counters of cache outcomes, such as `fxgraph_cache_hit`; None: not recorded."""


class SpeedRange(Struct, frozen=True):
    """How far the ratio of eager to compiled varies between rounds."""

    median: Number
    """How many times faster compiled is; below 1, it is slower."""
    low: Number | None
    high: Number | None
    rounds: Integer


class Speed(Record, frozen=True, forbid_unknown_fields=True):
    """Eager against compiled, as `ctrace time` measures it, with fewer rounds; times in seconds for one call."""

    KIND: ClassVar[str] = "speed"
    JSON: ClassVar[str] = (
        "verdict scenario|null_if_empty part|null_if_empty eager compiled speedup why|null_if_empty "
        "measuring_seconds=cost"
    )
    verdict: str = "not_measured"
    """`faster`, `slower`, `no_difference`, `undecided` or `not_measured`."""
    scenario: str = ""
    part: str = ""
    """`forward`, or `step` with --train."""
    eager: Number | None = None
    compiled: Number | None = None
    ratio: Number | None = None
    """How many times faster compiled is; below 1, it is slower."""
    low: Number | None = None
    high: Number | None = None
    rounds: Integer = 0
    why: str = ""
    """Why nothing was measured."""
    cost: Number = 0.0
    """The time of the measurement, after the run."""

    @property
    def speedup(self) -> SpeedRange | None:
        """The ratio; None: not measured."""
        return None if self.ratio is None else SpeedRange(self.ratio, self.low, self.high, self.rounds)


class CacheAsked(Struct, frozen=True):
    """Torch asked a cache."""

    lookup: CacheLookup


class OwnCacheAsked(Record, frozen=True, kw_only=True):
    """Torch asked a cache of which it records nothing: Triton's or the autotuner's."""

    KIND: ClassVar[str] = "cache"
    graph: str | None = MAYBE_COMPILATION
    cache: str
    outcome: LookupOutcome
    kernel: str | None = None
    stage: str | None = None
    key: str | None = None
    reason: str = ""

    @property
    def lookup(self) -> CacheLookup:
        """Return it as any other look-up."""
        return CacheLookup(
            cache=self.cache,
            outcome=self.outcome,
            graph=self.graph,
            stage=self.stage,
            key=self.key,
            reason=self.reason,
            kernel=self.kernel,
        )


class CacheStored(Record, frozen=True):
    """Torch stored what it compiled, or could not."""

    KIND: ClassVar[str] = "cache_stored"
    cache: str
    key: str
    is_stored: bool = field(name="stored")
    why: str = ""
    is_bypass: bool = field(name="bypassed", default=False)
    """Whether torch counts it as a bypass, in addition to the miss before."""


class CacheKeyed(Record, frozen=True):
    """The components of a cache key, where torch's own record leaves them out."""

    KIND: ClassVar[str] = "cache_key"
    cache: str
    key: str
    components: tuple[str, ...]
    """As torch words them; `log/decode_compile_time.py` reads them."""
