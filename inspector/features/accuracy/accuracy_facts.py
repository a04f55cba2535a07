"""What `ctrace accuracy` asks of its child process, and what it finds, as `--json` prints it."""

from msgspec import Struct

from ctrace.inspector.runs.capture_request import CaptureRequest

LARGEST = 1e18
"""The largest error that the report has as a number; beyond it, a result is garbage, as NaN and infinities are."""


class AccuracyRequest(Struct, frozen=True):
    """The request to the child process."""

    capture: CaptureRequest
    against_eager: bool = False
    """Whether a kernel counts that differs from eager and is no further from float64."""
    promises: bool = False
    """Whether to call the model again: the same call, and one row alone."""
    steps: int = 0
    """How many steps of an optimizer to take."""
    max_bytes: int | None = None
    """The most memory that the inputs of one kernel may have, if it is to be compared; None: a sixteenth of what is
    free."""


class Culprit(Struct, frozen=True):
    """What changed the numbers: on its real inputs, its result is further off than rounding explains."""

    kind: str
    """`kernel`, `external`, `pass`, `decomposition` or `graph`."""
    name: str
    """The kernel, the operator of a library, or the stage of the compiler."""
    part: int | None
    """The graph that it belongs to, counted in the order in which Inductor compiled them; None: no single one."""
    stage: str
    """`forward`, `backward` or `inference`."""
    scenario: str
    file: str | None
    line: int | None
    """The line of the operation, also inside of a fused kernel; None: not known."""
    function: str | None
    ops: tuple[str, ...]
    """The operation; several if it is not known which of them it is."""
    error: float | None
    """Largest distance from float64 (`against` eager: from eager), or the mean or relative one where only that is
    beyond rounding; None: NaN, infinities or more than 1e18."""
    eager_error: float | None
    """That of eager on the same inputs."""
    against: str
    """`float64`: further from it than eager; `eager`: only other than eager, and no less exact."""
    source: str = ""
    """The line of code."""
    reason: str | None = None
    """The one change that makes the difference go away, as its cause; None: none of those tried does."""
    remedy: str | None = None
    """A statement that makes this change."""
    remedy_error: float | None = None
    """The error with this change."""
    step: int | None = None
    """The training step at which it was found; None: in a single call."""


class FirstNonfinite(Struct, frozen=True):
    """Where NaN or an infinity was first made, from inputs without any."""

    file: str | None
    line: int | None
    op: str
    name: str
    """The kernel."""
    in_eager: bool
    """Whether eager makes it as well, on the same inputs."""
    stage: str = ""
    """`forward`, `backward` or `inference`; empty: no graph makes it."""
    step: int | None = None
    """The training step; None: in a single call."""


class PathStep(Struct, frozen=True):
    """The error after a kernel, against float64 from the graph's inputs on."""

    name: str
    line: str | None
    """`file:line` of what the kernel computes last."""
    error: float | None


class Promises(Struct, frozen=True):
    """What many expect of a model, bit for bit; None: not tried."""

    run_to_run: bool | None = None
    batch_invariant: bool | None = None
    run_to_run_broken_by: str | None = None
    """The first kernel whose result differs between two equal calls."""


class NotCompared(Struct, frozen=True):
    """What was not compared, and why."""

    what: str
    why: str


class TrainingStep(Struct, frozen=True):
    """One step of an optimizer. Numbers are None if they are NaN, infinite or more than 1e18, or without such a run."""

    step: int
    loss_eager: float | None
    loss_compiled: float | None
    parted: bool
    """Whether loss, gradients or buffers of compiled are further from float64 than rounding explains, where eager takes
    the same step from the parameters that compiled has."""
    parameter: str | None
    """The parameter or buffer where that is worst, if it parted."""
    error: float | None = None
    """How far compiled is from float64 there."""
    eager_error: float | None = None
    loss_float64: float | None = None
    loss_one_bit: float | None = None
    """Of the eager run with one bit changed."""
    gradient_norm_eager: float | None = None
    gradient_norm_compiled: float | None = None
    gradient_norm_float64: float | None = None
    apart_compiled: float | None = None
    """After the step: the distance of all parameters from those of the eager run, by the norm of those."""
    apart_one_bit: float | None = None
    apart_float64: float | None = None


class Training(Struct, frozen=True):
    """How the steps were taken, and what makes eager and compiled part."""

    loss: str
    optimizer: str
    changed_bit: str | None
    """The value whose last bit is changed in the second eager run; None: the loss depends on none."""
    parted_by: str
    """`compiler`: a step is beyond rounding. `chaos`: none is, and one bit gets about as far. `rounding`: none is."""


class Accuracy(Struct, frozen=True):
    """The answer of `ctrace accuracy`."""

    equal: bool | None
    """Whether nothing is beyond rounding; None: something was not compared."""
    culprits: tuple[Culprit, ...]
    """The worst first."""
    first_nonfinite: FirstNonfinite | None
    path: tuple[PathStep, ...]
    promises: Promises
    not_compared: tuple[NotCompared, ...]
    compared: int
    """How many stored results of kernels were compared."""
    kernels: int
    """How many kernels and library calls ran, over all scenarios."""
    graphs: int
    scenarios: tuple[str, ...]
    result: str
    """The whole result beside eager's: `rounding` if nothing is beyond it, `wrong` or `not_compared`."""
    compiled_runs: int
    pieces: int
    """How many parts of graphs were compiled to find operations and reasons."""
    device: str = "cpu"
    steps: tuple[TrainingStep, ...] = ()
    training: Training | None = None
    program: str | None = None
    """How a program ended: `exit code 0`, or its exception; None: a model was compared."""
