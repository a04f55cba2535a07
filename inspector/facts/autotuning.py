"""The candidates that autotuning times: the choices of an operation, and the configurations of a Triton kernel."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.wire import Integer, Number, OfCompilation, Place


class ChoiceStatus(StrEnum):
    """The outcome of a choice."""

    TIMED = "timed"
    NOT_TIMED = "not_timed"
    """It has no time, and nothing shows that it failed."""
    FAILED_TO_COMPILE = "failed_to_compile"
    FAILED_TO_RUN = "failed_to_run"
    DOES_NOT_FIT = "does_not_fit"
    """It needs more registers or memory than the GPU has."""


# Without limits of their own: these come from `Runs`, where decoding has checked them.
class TimeSpread(Struct, frozen=True):
    """The times of a choice's runs, in seconds."""

    runs: int
    fastest: float
    low: float
    """A quarter of the runs is faster."""
    median: float
    high: float
    """A quarter of the runs is slower."""


class Choice(Struct, frozen=True):
    """One way to compute an operation, or one configuration of a kernel."""

    JSON: ClassVar[str] = "name kind|null_if_empty configuration seconds status spread error|null_if_empty"
    name: str
    """As torch names it: `mm`, `triton_mm_4`."""
    kind: str = ""
    """`external` (a library), `triton`, `cpp`, `cutlass` or `graph`; empty: another one."""
    configuration: str = ""
    """Such as `BLOCK_M=64, BLOCK_N=32, num_warps=4`."""
    status: ChoiceStatus = ChoiceStatus.NOT_TIMED
    seconds: float | None = None
    """Torch's own number, by which it chooses: the fastest of many runs on a GPU, the median of them on a CPU."""
    spread: TimeSpread | None = None
    """None: torch kept one number for all runs."""
    error: str = ""
    """As torch or the compiler words it."""


class TunedInput(Struct, frozen=True):
    """An input of an operation; sizes may be symbols."""

    shape: tuple[str, ...]
    stride: tuple[str, ...] = ()
    dtype: str = ""
    device: str = ""


class Untried(Struct, frozen=True):
    """Templates that torch did not try for an operation."""

    what: str
    """`Triton templates`"""
    reasons: tuple[str, ...]


class TunedOperation(Struct, frozen=True):
    """An operation that torch has choices for."""

    graph: str
    stage: Stage | None
    """None: a log that torch wrote does not say."""
    op: str
    """As torch names it: `mm`, `packed_linear`."""
    inputs: tuple[TunedInput, ...]
    choices: tuple[Choice, ...]
    """The fastest first, those without a time last."""
    taken: str | None = None
    """The choice that the code uses; None: not known."""
    is_fused: bool = False
    """Whether torch chose it by timing it fused with other ops."""
    untried: tuple[Untried, ...] = ()
    lines: tuple[str, ...] = ()
    """Lines of the user's code, as `file:line`."""
    is_on: bool | None = None
    """Whether max_autotune was on; None: not known."""
    is_swept: bool = False
    """Whether torch has times."""
    is_cached: bool = False
    """Whether the times come from torch's cache."""
    seconds: float | None = None
    """The total cost of the sweep; None: not measured."""
    compile_seconds: float | None = None
    timing_seconds: float | None = None
    unnamed: int = 0
    """Choices that a log counts without naming them."""

    @property
    def device(self) -> str | None:
        """The device of its inputs; None: not known."""
        return next((each.device for each in self.inputs if each.device), None)


class TunedKernel(Struct, frozen=True):
    """A Triton kernel for which torch chose one of several configurations."""

    graph: str
    stage: Stage
    kernel: str
    """The same as `Kernel.name`."""
    configurations: tuple[Choice, ...]
    """The fastest first; empty: torch's cache knew the best one."""
    taken: str
    cache: str = ""
    """`hit` or `miss` of torch's cache of best configurations; empty: not known."""
    sizes: Mapping[str, str] = field(default_factory=dict)
    """The sizes that Inductor made the configurations for, by axis."""
    seconds: float | None = None
    """What compiling and timing them cost; None: not measured."""


class AutotuningRecord(OfCompilation, frozen=True, tag_field="what"):
    """A record about choices that torch times; `what` in the log tells which."""

    KIND: ClassVar[str] = "autotune"
    stage: Stage


class ListedChoice(Struct, frozen=True):
    """A choice before it is timed; see `Choice`."""

    name: str
    kind: str
    configuration: str


class ChoicesListed(AutotuningRecord, frozen=True, tag="choices"):
    """A lowering passed its choices for an operation to torch."""

    number: Integer
    op: str
    inputs: tuple[TunedInput, ...]
    choices: tuple[ListedChoice, ...]
    is_on: bool
    """As in `TunedOperation`."""
    untried: tuple[Untried, ...] = ()
    lines: tuple[Place, ...] = ()


class Runs(Struct, frozen=True, omit_defaults=True):
    """The times of several runs as the log has them: all fields of `TimeSpread`, or none."""

    name: str
    runs: Integer | None = None
    fastest: Number | None = None
    low: Number | None = None
    median: Number | None = None
    high: Number | None = None

    def __post_init__(self) -> None:
        """Refuse a part of a spread.

        Raises:
            ValueError: a field is missing.
        """
        # A part of the numbers would read as none, and hide that the log is damaged.
        if self.runs is not None and self.spread is None:
            raise ValueError("the times of runs are not complete")

    @property
    def spread(self) -> TimeSpread | None:
        """The times of the runs; None: torch kept one number for all."""
        runs, fastest, low, median, high = self.runs, self.fastest, self.low, self.median, self.high
        if runs is None or fastest is None or low is None or median is None or high is None:
            return None
        return TimeSpread(runs, fastest, low, median, high)


class ChoiceTiming(Runs, frozen=True, kw_only=True):
    """The result of timing one choice."""

    is_built: bool = field(name="built")
    has_run: bool = field(name="ran")
    error: str
    seconds: Number | None = None


class ChoicesTimed(AutotuningRecord, frozen=True, tag="times"):
    """Torch has the times of an operation's choices."""

    number: Integer
    timings: tuple[ChoiceTiming, ...] = field(name="choices")
    is_cached: bool = field(name="cached")
    seconds: Number
    compile_seconds: Number | None = None
    timing_seconds: Number | None = None


class ChoiceTaken(AutotuningRecord, frozen=True, tag="taken"):
    """Torch used a choice."""

    number: Integer
    name: str
    is_fused: bool = field(name="fused")


class TimedConfiguration(Runs, frozen=True):
    """A configuration of a Triton kernel that torch timed; without seconds, it did not run."""

    seconds: Number | None = None


class KernelTuned(AutotuningRecord, frozen=True, tag="configurations"):
    """Torch chose the configuration of a Triton kernel; see `TunedKernel`."""

    kernel: str
    configurations: tuple[TimedConfiguration, ...]
    taken: str
    cache: str = ""
    sizes: Mapping[str, str] = field(default_factory=dict)
    seconds: Number | None = None


class SweepReported(Struct, frozen=True):
    """Torch's own log names the best choices of a sweep, and counts the others."""

    tuned: TunedOperation


AutotuningEvent = AutotuningRecord | SweepReported
