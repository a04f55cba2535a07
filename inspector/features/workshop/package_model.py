"""What `ctrace kernels apply`, `tune` and `edit` find out; plain records."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import Struct, field

from ctrace.inspector.runs.capture_request import Options

KERNEL_SECONDS = 120.0
"""How long a check of a kernel may take if no limit was set: an endless kernel must not keep a person waiting."""


class Element(Struct, frozen=True):
    """The first value in which two tensors differ."""

    JSON: ClassVar[str] = "tensor at expected|number found|number differing of"
    tensor: str
    """Which tensor: an output of the operator, or a result of the model."""
    at: tuple[int, ...]
    expected: str
    """As text, because it may be `nan` or `inf`."""
    found: str
    differing: int
    """How many values differ."""
    of: int
    """How many values the tensor has."""


class ExpectedPlace(Struct, frozen=True):
    """A place in the target's graphs where the kernel's region was expected or found."""

    JSON: ClassVar[str] = "graph line applied why|null_if_empty stage operator launch why_operator=operator_called"
    graph: str
    stage: str
    line: str | None
    """`file:line` of the user's code; None: torch does not know."""
    operator: str
    applied: bool
    why: str = ""
    """Why the region was not replaced, with the node that differs."""
    operator_called: str | None = None
    """Why compiled code calls the operator at a replaced place; None: it launches the kernels directly."""

    @property
    def launch(self) -> Literal["direct", "operator"] | None:
        """How compiled code gets to the kernels; None: the place was not replaced."""
        if not self.applied:
            return None
        if self.operator_called is None:
            return "direct"
        return "operator"


class RegionCheck(Struct, frozen=True):
    """The operator against the part of the graph that it replaces, on the model's own values."""

    JSON: ClassVar[str] = "place ran=kernel equal largest_difference=largest first_difference=wrong note|null_if_empty"
    place: int
    """Index in `AppliedPackage.places`."""
    kernel: str
    """`gpu`, `cpu` or `interpreter` where the kernel itself ran; `fallback` where only the operator's CPU code ran."""
    equal: bool
    largest: float | None
    """The largest difference, relative to the largest value of the same tensor; None: not finite."""
    wrong: Element | None = None
    note: str = ""
    """Such as a store outside of a tensor, or why the interpreter did not run the kernel."""


class Compared(Struct, frozen=True):
    """Results of the model in one scenario."""

    JSON: ClassVar[str] = "scenario against equal largest_difference=largest first_difference=wrong note|null_if_empty"
    scenario: str
    against: str
    """`eager` or `compiled`."""
    equal: bool
    largest: float | None
    """None: there is nothing to compare, or the difference is not finite."""
    wrong: Element | None = None
    note: str = ""


class Times(Struct, frozen=True):
    """Seconds before and after."""

    JSON: ClassVar[str] = "before after"
    before: float
    after: float
    verdict: str = ""
    """`faster`, `slower`, `no_difference` or `undecided`; empty: not compared."""


class AppliedPackage(Struct, frozen=True):
    """The result of `ctrace kernels apply`."""

    device: str
    """The name of the device on which the target ran."""
    is_gpu: bool
    places: tuple[ExpectedPlace, ...]
    regions: tuple[RegionCheck, ...] = ()
    compared: tuple[Compared, ...] = ()
    model: Times | None = None
    kernel: Times | None = None
    not_measured: str = ""
    """Why there are no times."""
    notes: tuple[str, ...] = ()
    part: str = "forward"
    """What one call of the model is: `forward`, or `step` with the backward."""

    @property
    def equal(self) -> bool | None:
        """Whether every comparison holds; None: nothing was applied, or nothing compared."""
        # What was not replaced equals itself.
        if not any(each.applied for each in self.places):
            return None
        checks = [*(each.equal for each in self.regions), *(each.equal for each in self.compared)]
        if not checks:
            return None
        return all(checks)

    @property
    def largest(self) -> float | None:
        """The largest difference from the unchanged compile, or in a region."""
        found = [each.largest for each in self.regions if each.largest is not None]
        found += [each.largest for each in self.compared if each.largest is not None and each.against == "compiled"]
        return max(found, default=None)

    @property
    def wrong(self) -> Element | None:
        """The first value that differs: in a region where possible, because its coordinates say more."""
        found = [*(each.wrong for each in self.regions), *(each.wrong for each in self.compared)]
        return next((each for each in found if each is not None), None)


class ApplyDocument(Struct, frozen=True, kw_only=True):
    """Where a package was applied, whether results are equal, and times of a call of the model."""

    JSON: ClassVar[str] = (
        "schema target package summary places=of.places equal=of.equal|truth largest_difference=of.largest "
        "first_difference=of.wrong before=of.model.before after=of.model.after verdict=of.model.verdict|null_if_empty "
        "kernel=of.kernel not_measured=of.not_measured|null_if_empty part=of.part device=of.device regions=of.regions "
        "compared=of.compared diffs notes=of.notes"
    )
    target: str
    package: str
    # The answer in one line.
    summary: str
    of: AppliedPackage
    # How a program uses the package without ctrace.
    diffs: tuple[str, ...] = ()


class ApplyRequest(Struct, frozen=True):
    """Apply packages to a model, in a child process."""

    folders: tuple[str, ...]
    """The packages' own folders."""
    path: str | None
    module: str | None
    name: str | None
    options: Options
    places: tuple[int, ...] = ()
    """Which occurrences to replace, from 1; empty: all."""
    is_timed: bool = True
    rounds: int | None = None
    seconds: float = KERNEL_SECONDS
    """How long all configurations of a kernel may take at one place."""


class KernelConfiguration(Struct, frozen=True):
    """One configuration of a kernel."""

    JSON: ClassVar[str] = "blocks num_warps=warps num_stages=stages"
    blocks: Mapping[str, int]
    warps: int
    stages: int

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others."""
        return (*sorted(self.blocks.items()), self.warps, self.stages)


class TriedConfiguration(Struct, frozen=True):
    """A configuration, compiled or timed."""

    JSON: ClassVar[str] = (
        "*configuration registers spills shared occupancy limited_by|null_if_empty seconds equal failed|null_if_empty"
    )
    configuration: KernelConfiguration
    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    occupancy: float | None = None
    limited_by: str = ""
    seconds: float | None = None
    equal: bool | None = None
    failed: str = ""


class SizeClass(Struct, frozen=True):
    """The sizes for which one configuration is chosen."""

    JSON: ClassVar[str] = "name sizes best tried"
    name: str
    sizes: str
    tried: tuple[TriedConfiguration, ...] = ()
    best: KernelConfiguration | None = None
    """The configuration to keep: a present one, unless another is measurably faster; None: none was timed."""


class TunedConfigurations(Struct, frozen=True):
    """All configurations of one kernel."""

    JSON: ClassVar[str] = "kernel current sizes=classes"
    kernel: str
    classes: tuple[SizeClass, ...]
    current: KernelConfiguration | None = None
    """The first of the present configurations."""
    present: tuple[KernelConfiguration, ...] = ()


class PackageTuning(Struct, frozen=True):
    """The result of `ctrace kernels tune`."""

    device: str
    is_timed: bool
    kernels: tuple[TunedConfigurations, ...]
    notes: tuple[str, ...] = ()


class TunedPackage(Struct, frozen=True):
    """A package that was tuned."""

    JSON: ClassVar[str] = "package=folder device=of.device timed=of.is_timed written=is_written kernels=of.kernels"
    folder: str
    of: PackageTuning
    is_written: bool
    notes: tuple[str, ...] = ()


class TuneDocument(Struct, frozen=True):
    """Every configuration of each package: compiled, and timed where the GPU is there."""

    JSON: ClassVar[str] = "schema packages"
    packages: tuple[TunedPackage, ...]


class TuneRequest(Struct, frozen=True):
    """Compile or time configurations of a package's kernels, in a child process."""

    folder: str
    target: str | None
    most: int
    """How many configurations to try per kernel."""
    gpus: tuple[str, ...] = ()
    """Files of GPUs from the project's settings."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels to tune; empty: all of the package."""
    seconds: float = KERNEL_SECONDS
    """How long one configuration may take."""


class Sizes(Struct, frozen=True):
    """One check of the operator on inputs of one size."""

    JSON: ClassVar[str] = (
        "operator sizes inputs|null_if_empty configuration|null_if_empty ran=kernel equal "
        "largest_difference=largest first_difference=wrong note|null_if_empty seconds"
    )
    operator: str
    sizes: str
    kernel: str
    equal: bool
    largest: float | None
    wrong: Element | None = None
    note: str = ""
    seconds: float | None = None
    inputs: str = ""
    """What is special about the inputs, such as `non-contiguous inputs`."""
    configuration: str = ""
    """The configuration that ran, such as `XBLOCK=256 4w 1s`; empty: the kernel has none."""


class CheckedPackage(Struct, frozen=True):
    """One round of `ctrace kernels edit`."""

    device: str
    checks: tuple[Sizes, ...]
    code: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of each kernel, the code by stage: ttir, ttgir, ptx."""
    notes: tuple[str, ...] = ()
    untimed: str = ""
    """Why no time was measured; empty if one was, or if a result is wrong."""

    @property
    def is_right(self) -> bool:
        """Whether the kernel ran, and no result is wrong; a definition that equals itself says nothing about it."""
        return all(each.equal for each in self.checks) and any(each.kernel != "fallback" for each in self.checks)


class CheckDocument(Struct, frozen=True):
    """One check of a package, as `ctrace kernels edit --once` makes it."""

    JSON: ClassVar[str] = (
        "schema package device=of.device failed|null_if_empty equal=of.is_right left_out=LEFT_OUT checks=of.checks "
        "code=of.code not_measured=of.untimed|null_if_empty notes=of.notes"
    )
    LEFT_OUT: ClassVar[int] = 0  # a check runs all cases, or is not correct
    package: str
    of: CheckedPackage
    failed: str = ""


class PackageCheckRequest(Struct, frozen=True):
    """Check a package as it is now, in a child process."""

    folder: str
    is_timed: bool = True
    code: bool = False
    """Whether to compile the kernels and return their code."""
    target: str = "h100"
    """The GPU to compile for where there is none."""
    seconds: float = KERNEL_SECONDS
    """How long the check may take."""
