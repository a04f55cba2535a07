"""The policy of `ctrace check`, and the counts that it can limit."""

from collections.abc import Mapping
from datetime import date
from enum import StrEnum

from msgspec import Struct, field

from ctrace.inspector.runs.capture_request import Options

CPU = "cpu"
"""The target of a job without a target GPU."""


class Count(StrEnum):
    """Numbers of a job that a policy can limit and a lock records. Less is always better."""

    BREAKS = "breaks"
    """Sites of graph breaks in user code, without breaks that the author requested."""
    LIBRARY_BREAKS = "library_breaks"
    TORCH_BREAKS = "torch_breaks"
    SKIPPED = "skipped"
    """Functions of which no part is compiled."""
    RECOMPILES = "recompiles"
    """Recompilations after warm-up; see `sites.is_after_warm_up`."""
    GRAPHS = "graphs"
    EAGER_OPS = "eager_ops"
    """Aten ops of an eager call that are in no graph."""
    LIMIT_HITS = "limit_hits"
    """Functions that hit the recompile limit."""
    KERNELS = "kernels"
    """Generated kernels; only with generated code."""
    SPILLS = "spills"
    """Registers that kernels spill to memory; only for a GPU."""
    MISSED_BYTES = "missed_bytes"
    """Bytes of memory traffic that missed fusions would save; only with generated code."""
    CUDA_GRAPH_SKIPS = "cuda_graph_skips"
    """Graph parts that torch skips the CUDA graph of; only where torch.compile is asked for CUDA graphs, for a GPU."""
    CUDA_GRAPH_RERECORDINGS = "cuda_graph_rerecordings"
    """Recordings of CUDA graphs beyond the first of each graph part; only where a run on a GPU recorded them."""
    CULPRITS = "culprits"
    """Operations whose compiled results are wrong, by dtype; only with `accuracy`."""
    PEAK_BYTES = "peak_bytes"
    """The computed peak of a compiled step's memory; only with `memory`."""


class Limits(Struct, frozen=True):
    """The maximum for each count; a count that is missing has no limit."""

    most: Mapping[Count, int] = field(default_factory=dict)
    coverage: float | None = None
    """The minimum percentage of ops in graphs, 0 to 100; None for no limit."""

    def over(self, other: "Limits") -> "Limits":
        """Return these limits, with the limits of `other` where these have none."""
        coverage = other.coverage if self.coverage is None else self.coverage
        return Limits({**other.most, **self.most}, coverage)


STRICT = Limits({Count.BREAKS: 0, Count.SKIPPED: 0, Count.RECOMPILES: 0, Count.LIMIT_HITS: 0})
"""The limits for a model that has neither limits in the policy nor an entry in the lock."""


class Allow(Struct, frozen=True):
    """An entry of the policy that allows sites: which sites, and why."""

    reason: str
    gb: str | None = None
    """A gb id, such as GB0170."""
    place: str | None = None
    """`policy_file.py::Class.method`, in which `*` and `?` are wildcards; the file may be the end of a path."""
    text: str | None = None
    """A part of the line's normalized source."""
    expires: date | None = None
    """The last day on which it applies."""
    line: int = 0
    """Line in the policy."""


class ModelRule(Struct, frozen=True):
    """An entry of the policy that names models, with settings for them."""

    models: str
    """A path, a glob, `policy_file.py:name` or `package.module:name`; paths are relative to the policy's folder."""
    scenarios: tuple[str, ...] = ()
    """Names of the policy's scenarios; empty for all."""
    targets: tuple[str, ...] = ()
    """Names of targets; empty for the policy's targets."""
    limits: Limits = Limits()
    timeout: float | None = None
    """Seconds for one job; None for the policy's timeout."""
    accuracy: bool | None = None
    """Whether each kernel is compared with eager; None for the policy's choice."""
    memory: bool | None = None
    """Whether the memory of a step is followed; None for the policy's choice."""
    line: int = 0


class CheckPolicy(Struct, frozen=True):
    """A project's policy."""

    models: tuple[ModelRule, ...] = ()
    scenarios: Mapping[str, Options] = field(default_factory=lambda: {"base": Options()})
    """Options of `ctrace explain`, keyed by scenario name. The scenarios in a model file run in each of these."""
    targets: tuple[str, ...] = (CPU,)
    owned: tuple[str, ...] = ()
    """Absolute paths whose code counts as the user's, in addition to those in pyproject.toml."""
    limits: Limits = Limits()
    allow: tuple[Allow, ...] = ()
    timeout: float = 600.0
    """Seconds for one job."""
    inductor_guards: bool = True
    """Whether graphs with symbolic sizes are lowered to record Inductor's guards; see `request.Options`."""
    accuracy: bool = False
    """Whether the kernels of each model are built, and compared with eager and float64."""
    memory: bool = False
    """Whether the memory of a step of each model is followed."""
    file: str | None = None
    """The policy's file; None if there is no file, so that the policy has only defaults."""
