"""What a gate works on: jobs, what runs showed, and the lock's baseline.

A *job* is one capture: a model, one of the policy's scenarios, and a target (the CPU, or a GPU that code is emitted
for). A *site* is a place that holds a model back, known by what it is and not by its line number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.gate.policy.model import CPU, Count, Limits
from ctrace.inspector.model.findings import Cost, Owner
from ctrace.inspector.runs.order import Options

if TYPE_CHECKING:
    from ctrace.inspector.model.session import Session

TRACE = "trace"
"""Stands for the target of what ran elsewhere, and left a log."""


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """Which capture: a model, the policy's scenario, the target."""

    model: str
    """As the policy names it: a path below its folder, with `/`, perhaps with `:name`; or `package.module:name`.

    Of a check in a test the test's node id, `tests/test_net.py::test_net`, perhaps with `#2` or `#name`.
    """
    scenario: str = "base"
    target: str = CPU

    @property
    def is_of_test(self) -> bool:
        """Whether a test made it, and not `ctrace check`."""
        return "::" in self.model

    @property
    def is_of_policy(self) -> bool:
        """Whether it is of a model that a policy names: not of a test, nor of a log made elsewhere."""
        return not self.is_of_test and self.target != TRACE

    def __str__(self) -> str:
        more = [each for each in (self.scenario, self.target) if each not in ("base", CPU, TRACE)]
        return " · ".join([self.model, *more])


class SiteKind(StrEnum):
    """What holds a model back at a site."""

    BREAK = "break"
    DISABLED = "disabled"
    """A break that the author asked for."""
    SKIP = "skip"
    RECOMPILE = "recompile"
    """One after warm-up; see `facts.py`."""
    DANGER = "danger"
    """A compiled call gave other results than eager."""


@dataclass(frozen=True, slots=True, order=True)
class SiteKey:
    """What makes a site the same in another run: nothing that moving or reformatting code changes."""

    kind: SiteKind
    causes: tuple[str, ...]
    """Of a break its gb ids, of a skip those or the rule's name, of the others the kinds of causes; sorted."""
    owner: Owner
    place: str
    """`path/of/file.py::Class.method`; relative to the policy's folder or to site-packages, with `/`."""
    text: str
    """Source of the statement, normalised: no comments, no line breaks, one spelling. Of a recompile what changed."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place that holds a model back, as a run showed it."""

    key: SiteKey
    times: int = 1
    """Of a break, the compilations of its own function that met it; of a recompile, how many there were."""
    file: str = ""
    line: int = 0
    source: str = ""
    """The line as its file has it, with its indentation; empty: not known."""
    span: tuple[int, int] | None = None
    """Columns of the line that did it, without its indentation; see `findings.Frame.span`."""
    reason: str = ""
    fix: str = ""
    cost: Cost = field(default_factory=Cost)
    by_inductor: bool = False
    """Of a recompile, whether guards that Inductor added to a graph may be why."""
    places: int = 1
    """How many statements of a function read the same and are this site; limits count each of them."""


@dataclass(frozen=True, slots=True)
class State:
    """What a job showed that a gate looks at."""

    job: JobKey
    torch: str = ""
    """Minor version, such as 2.13."""
    counts: Mapping[Count, int] = field(default_factory=dict)
    """Those that were measured."""
    coverage: float | None = None
    """Percentage of ops in graphs; None: not measured."""
    sites: tuple[Site, ...] = ()
    by_inductor: bool = False
    """Whether guards that Inductor added to a graph may be why there is another graph, in warm-up or after it."""
    not_lowered: int = 0
    """Graphs with symbolic sizes whose guards from Inductor were left out."""
    notes: tuple[str, ...] = ()
    """What is worth knowing of how it ran: values that were not its own."""


@dataclass(frozen=True, slots=True)
class Known:
    """A site of the lock."""

    key: SiteKey
    times: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """A capture that a check makes."""

    key: JobKey
    target: str
    """What to run, as `ctrace explain` takes it."""
    options: Options
    limits: Limits = field(default_factory=Limits)
    timeout: float = 600.0
    """Seconds."""
    known_as: JobKey | None = None
    """What the lock calls it, if something else: all ranks of a job elsewhere are one."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that ran, or could not."""

    job: Job
    session: "Session | None" = None
    error: CtraceError | None = None
    """Why there is no session: the target, an option or the machine is wrong."""
    seconds: float = 0.0
    run: str | None = None
    """The saved run, for `ctrace breaks RUN`."""
    said: str = ""
    """The last lines that the program wrote, where it failed."""
    left: tuple[str, ...] = ()
    """What the program left running, which was killed then: `command (pid)`."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the lock says of one job."""

    counts: Mapping[Count, int] = field(default_factory=dict)
    sites: tuple[Known, ...] = ()


@dataclass(frozen=True, slots=True)
class Lock:
    """What models showed when the lock was last written, by minor version of torch."""

    sections: Mapping[str, Mapping[JobKey, Baseline]] = field(default_factory=dict)
    file: str | None = None
    """Its file; None: there is none."""
