"""What is asked of a run that proves a repair, and what it observed: plain data, compared without torch."""

from typing import Any

from msgspec import Struct, field


class Condition(Struct, frozen=True):
    """An expression at a line; a proof must have seen it true and false."""

    file: str
    line: int
    expression: str


class ProofRequest(Struct, frozen=True):
    """Observe the calls of a target instead of compiling it."""

    result: str
    """The file that receives the `Observed`, as JSON."""
    compiled: bool = False
    """Whether to call through torch.compile, with a backend that runs graphs as captured."""
    probes: tuple[str, ...] | None = None
    """The inputs to try besides the scenarios, by name; None: all that fit into `seconds`."""
    conditions: tuple[Condition, ...] = ()
    """Conditions to evaluate whenever their line runs."""
    gradients: bool = True
    """Whether to compute gradients of what calls return."""
    seconds: float = 20.0
    """Time for probes."""
    values: str = ""
    """Folder for the values of outputs and gradients, to compare within rounding; empty: keep digests only."""
    against: str = ""
    """Folder with the values of another run, to compare these with by their distance from float64."""


class Entry(Struct, frozen=True):
    """One observed call: each field is data in which equal calls are equal."""

    name: str
    """The scenario or probe."""
    call: int = 0
    raised: str = ""
    """Type and message of the exception; empty: it returned."""
    outputs: Any = None
    inputs: Any = None
    gradients: Any = None
    state: Any = None
    """What the call changed in the state that it can reach."""
    printed: str = ""
    logged: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    random: str = ""
    """Digest of the generators after the call."""
    is_scenario: bool = False


class Sides(Struct, frozen=True):
    """The calls in which a condition was true, and false."""

    condition: Condition
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    failed: str = ""
    """Why it could not be evaluated."""


class Observed(Struct, frozen=True):
    """Everything that a run of a proof saw."""

    entries: tuple[Entry, ...] = ()
    sides: tuple[Sides, ...] = ()
    probes: tuple[str, ...] = ()
    """Probes that were run, in order."""
    rounding: tuple[str, ...] = field(default=())
    """Differences from the run in `against` that rounding does not explain."""
    compared: int = 0
    """Values compared with `against`."""
    left_out: str = ""
    """Why probes are missing."""
