"""What a project asks of its models: the policy of `ctrace check`, and the counts that it can limit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from ctrace.inspector.runs.order import Options

CPU = "cpu"
"""The target of a job that emits no code for a GPU."""


class Count(StrEnum):
    """Numbers of a job that a policy can limit and a lock keeps. Of all of them, less is better."""

    BREAKS = "breaks"
    """Sites of graph breaks in code of the user, without those that the author asked for."""
    LIBRARY_BREAKS = "library_breaks"
    TORCH_BREAKS = "torch_breaks"
    SKIPPED = "skipped"
    """Functions that were left in eager altogether."""
    RECOMPILES = "recompiles"
    """Recompiles after warm-up; see `facts.py`."""
    GRAPHS = "graphs"
    EAGER_OPS = "eager_ops"
    """Aten ops of an eager call that no graph holds."""
    LIMIT_HITS = "limit_hits"
    """Functions whose cache was full when a call came by."""
    KERNELS = "kernels"
    """Generated kernels; only where code was emitted."""
    SPILLS = "spills"
    """Registers that kernels spill to memory; only for a GPU."""
    MISSED_BYTES = "missed_bytes"
    """Bytes that fusions which did not happen would have saved; only where code was emitted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a check lets pass of each count; a count that is not there is not limited."""

    most: Mapping[Count, int] = field(default_factory=dict)
    coverage: float | None = None
    """The least percentage of ops in graphs, 0 to 100; None: not limited."""

    def over(self, other: "Limits") -> "Limits":
        """Give these limits, and those of `other` where these say nothing."""
        coverage = other.coverage if self.coverage is None else self.coverage
        return Limits({**other.most, **self.most}, coverage)


STRICT = Limits({Count.BREAKS: 0, Count.SKIPPED: 0, Count.RECOMPILES: 0, Count.LIMIT_HITS: 0})
"""What holds for a model that neither the policy nor the lock says anything of."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Sites that the policy lets pass, and why."""

    reason: str
    gb: str | None = None
    """A gb id, such as GB0170."""
    place: str | None = None
    """`file.py::Class.method` with `*` and `?` for any text; the file may be the end of a path."""
    text: str | None = None
    """Part of the line's normalised source."""
    expires: date | None = None
    """The last day on which it holds."""
    line: int = 0
    """In the policy."""


@dataclass(frozen=True, slots=True)
class ModelRule:
    """Models that the policy names, and what holds for them."""

    models: str
    """A path, a glob, `file.py:name` or `package.module:name`; paths are relative to the policy's folder."""
    scenarios: tuple[str, ...] = ()
    """Names of the policy's scenarios; empty: all."""
    targets: tuple[str, ...] = ()
    """Names of targets; empty: the policy's."""
    limits: Limits = Limits()
    timeout: float | None = None
    """Seconds; None: the policy's."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """What a project asks of its models."""

    models: tuple[ModelRule, ...] = ()
    scenarios: Mapping[str, Options] = field(default_factory=lambda: {"base": Options()})
    """Ways to capture each model: options of `ctrace explain`, by name. A model file's own scenarios run in each."""
    targets: tuple[str, ...] = (CPU,)
    owned: tuple[str, ...] = ()
    """Folders and files whose code counts as the user's, beside what pyproject.toml says; absolute."""
    limits: Limits = Limits()
    allow: tuple[Allow, ...] = ()
    timeout: float = 600.0
    """Seconds for one job."""
    inductor_guards: bool = True
    """Whether graphs with symbolic sizes are lowered for the guards that Inductor adds; see `order.Options`."""
    file: str | None = None
    """The policy's file; None: there is none, and the defaults hold."""
