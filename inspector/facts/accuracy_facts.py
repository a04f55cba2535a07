"""What `ctrace accuracy` finds, as `--json` prints it and a run records it."""

from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.wire import Integer, Number, Record

LARGEST = 1e18
"""The largest error that the report has as a number; beyond it, a result is garbage, as NaN and infinities are."""


class Culprit(Struct, frozen=True):
    """What changed the numbers: on its real inputs, its result is further off than rounding explains."""

    JSON: ClassVar[str] = (
        "kind name part stage scenario file|relative line function ops error eager_error against source reason remedy "
        "remedy_error dtype step"
    )
    kind: str
    """`kernel`, `external`, `pass`, `decomposition` or `graph`."""
    name: str
    """The kernel, the operator of a library, or the stage of the compiler."""
    part: Integer | None
    """The graph that it belongs to, counted in the order in which Inductor compiled them; None: no single one."""
    stage: str
    """`forward`, `backward` or `inference`."""
    scenario: str
    file: str | None
    line: Integer | None
    """The line of the operation, also inside of a fused kernel; None: not known."""
    function: str | None
    ops: tuple[str, ...]
    """The operation; several if it is not known which of them it is."""
    error: Number | None
    """Largest distance from float64 (`against` eager: from eager), or the mean or relative one where only that is
    beyond rounding; None: NaN, infinities or more than 1e18."""
    eager_error: Number | None
    """That of eager on the same inputs."""
    against: str
    """`float64`: further from it than eager; `eager`: only other than eager, and no less exact."""
    source: str = ""
    """The line of code."""
    reason: str | None = None
    """The one change that makes the difference go away, as its cause; None: none of those tried does."""
    remedy: str | None = None
    """A statement that makes this change."""
    remedy_error: Number | None = None
    """The error with this change; of the whole graph, if the culprit is a stage of the compiler."""
    dtype: str = ""
    """Of the wrong value, such as `float32`; empty: not known."""
    step: Integer | None = None
    """The training step at which it was found; None: in a single call."""


class FirstNonfinite(Struct, frozen=True):
    """Where NaN or an infinity was first made, from inputs without any."""

    file: str | None
    line: Integer | None
    op: str
    name: str
    """The kernel."""
    in_eager: bool
    """Whether eager makes it as well, on the same inputs."""
    stage: str = ""
    """`forward`, `backward` or `inference`; empty: no graph makes it."""
    step: Integer | None = None
    """The training step; None: in a single call."""


class PathStep(Struct, frozen=True):
    """The error after a kernel, against float64 from the graph's inputs on."""

    name: str
    line: str | None
    """`file:line` of what the kernel computes last."""
    error: Number | None


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

    step: Integer
    loss_eager: Number | None
    loss_compiled: Number | None
    parted: bool
    """Whether loss, gradients or buffers of compiled are further from float64 than rounding explains, where eager takes
    the same step from the parameters that compiled has."""
    parameter: str | None
    """The parameter or buffer where that is worst, if it parted."""
    error: Number | None = None
    """How far compiled is from float64 there."""
    eager_error: Number | None = None
    loss_float64: Number | None = None
    loss_one_bit: Number | None = None
    """Of the eager run with one bit changed."""
    gradient_norm_eager: Number | None = None
    gradient_norm_compiled: Number | None = None
    gradient_norm_float64: Number | None = None
    apart_compiled: Number | None = None
    """After the step: the distance of all parameters from those of the eager run, by the norm of those."""
    apart_one_bit: Number | None = None
    apart_float64: Number | None = None


class Training(Struct, frozen=True):
    """How the steps were taken, and what makes eager and compiled part."""

    loss: str
    optimizer: str
    changed_bit: str | None
    """The value whose last bit is changed in the second eager run; None: the loss depends on none."""
    parted_by: str
    """`compiler`: a step is beyond rounding. `chaos`: none is, and one bit gets about as far. `rounding`: none is."""


class Accuracy(Record, frozen=True):
    """The answer of `ctrace accuracy`.

    The worst culprit comes first.
    """

    KIND: ClassVar[str] = "accuracy"
    JSON: ClassVar[str] = (
        "equal result first_nonfinite path promises not_compared steps training program scenarios compared kernels "
        "graphs device compiled_runs pieces"
    )
    equal: bool | None = None
    """Whether nothing is beyond rounding; None: something was not compared."""
    culprits: tuple[Culprit, ...] = ()
    first_nonfinite: FirstNonfinite | None = None
    path: tuple[PathStep, ...] = ()
    promises: Promises = Promises()
    not_compared: tuple[NotCompared, ...] = ()
    compared: Integer = 0
    """How many stored results of kernels were compared."""
    kernels: Integer = 0
    """How many kernels and library calls ran, over all scenarios."""
    graphs: Integer = 0
    """Compiled graphs, each with its backward."""
    scenarios: tuple[str, ...] = ()
    result: str = "not_compared"
    """The whole result beside eager's: `rounding` if nothing is beyond it, `wrong` or `not_compared`."""
    compiled_runs: Integer = 0
    pieces: Integer = 0
    """How many parts of graphs were compiled to find operations and reasons."""
    device: str = "cpu"
    steps: tuple[TrainingStep, ...] = ()
    training: Training | None = None
    program: str | None = None
    """How a program ended: `exit code 0`, or its exception; None: a model was compared."""


class AccuracyDocument(Struct, frozen=True):
    """What `ctrace accuracy` answers for a target."""

    JSON: ClassVar[str] = "schema target culprits=found.culprits *found"
    target: str
    found: Accuracy
    folder: str
    """The working directory, in which the screen shortens paths."""
