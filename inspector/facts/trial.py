"""Extra runs, as plain data: what a trial changes to check advice or a repair, and what a proof observes in calls.

Most trials run Dynamo without a backend (`Options.trace_only`): that counts graphs, breaks and recompilations, and
costs an import of torch and the time that Dynamo takes. What two proofs observed is compared without torch.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.wire import Integer, Number, Record


class LineEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """A replacement for one line of a source file; line numbers do not change."""

    file: str
    line: Integer
    text: str
    """The new line, with its indentation and without a line end."""
    was: str = ""
    """The old line without its indentation; the edit is refused if the file has another line there."""


class Marked(Struct, frozen=True, forbid_unknown_fields=True):
    """A dimension to mark dynamic before each call, in an argument of the model."""

    argument: str
    """The parameter's name, or the argument's position."""
    dim: Integer


class NewText(Struct, frozen=True, forbid_unknown_fields=True):
    """The text of a source file in a trial."""

    file: str
    text: str


class Trial(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to change in a run; what it does not change is not written, since an older ctrace refuses a newer field."""

    settings: tuple[tuple[str, bool], ...] = ()
    """Names in `torch._dynamo.config`, and their values."""
    grad: str | None = None
    """`off` calls the model under torch.no_grad()."""
    calls: tuple[tuple[str, str], ...] = ()
    """Methods of the model to call first, such as `set_experts_implementation`, each with the string to pass to it."""
    evaluate: bool = False
    """Whether to call `model.eval()` first."""
    dynamic: bool | None = None
    """The argument `dynamic` of torch.compile."""
    marked: tuple[Marked, ...] = ()
    edits: tuple[LineEdit, ...] = ()
    ignored: tuple[str, ...] = ()
    """Functions, as `module:qualname`, for `torch._dynamo.config.ignore_logging_functions`."""
    sources: tuple[NewText, ...] = ()
    """Whole files with another text; those on disk do not change."""
    parts: tuple[str, ...] = ()
    """Modules to compile instead of the whole model, as paths of a `Part`."""


class Part(Struct, frozen=True):
    """A module that could be compiled instead of the whole model."""

    path: str
    """How the user's code reaches it, such as `model.blocks.0`, or `net` for a variable of the model's file."""
    kind: str
    """Its class."""
    file: str
    """Where its `forward` is."""
    first: int
    last: int
    """The lines of `forward`."""
    parameters: int = 0
    """The elements of its parameters, with those of the modules inside."""


class LaterCalls(Struct, frozen=True, forbid_unknown_fields=True):
    """What more calls did, which cycle through the scenarios."""

    calls: Integer
    graphs: Integer
    recompiles: Integer
    limit_hit: bool


class Tried(Record, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A trial that ran, and its counts; see `Trial` for what is not written."""

    KIND: ClassVar[str] = "trial"
    trial: Trial
    counts: Counts | None
    """The counts of the run; None: the run failed, so the trial does not support the advice."""
    seconds: Number
    breaks: tuple[str, ...] = ()
    """Where the graph still broke, as `file:line`."""
    compiled: tuple[str, ...] = ()
    """The functions that were compiled, as `file:line`, for a trial that compiles parts."""
    error: str = ""
    calls: Integer | None = None
    """The calls that the run made; None: not known, as in logs of an earlier ctrace."""
    outlook: LaterCalls | None = None
    """The counts after all its calls; `counts` are those after two calls in each scenario."""
    compile_seconds: Number | None = None
    """The compile time of a trial that is about it; None for any other."""
    same_results: bool | None = None
    """Whether edits leave the results of the first eager calls as they were; None: no edits, or not known. Of the
    unchanged model, whether two runs return the same: a parameter of uninitialized memory differs from run to run."""
    settled: bool = False
    """Whether what was left of breaks and recompilations needs no change."""


UNCHANGED = Trial()
"""The trial that changes nothing, and only makes more calls."""


def later_calls_of(trials: Iterable[Tried]) -> LaterCalls | None:
    """Return what more calls of the unchanged model did; None if they were not made."""
    return next((each.outlook for each in trials if each.trial == UNCHANGED), None)


class Condition(Struct, frozen=True):
    """An expression at a line; a proof must see it both true and false. Without an expression, the line must run."""

    file: str
    line: int
    expression: str
    constructed: str = ""
    """A class whose constructor has the line: it has run where a call runs a method of such an object."""
    is_part: bool = False
    """Whether it is what a condition evaluates first, as `a` in `a and b`: after a change, `b` may be evaluated in any
    case. Calls need not reach both sides of it, but what is tried is repeated on a side that they reach."""


class Mined(Struct, frozen=True):
    """What the code compares with, and which attributes decide which lines run: worth trying in a proof."""

    integers: tuple[int, ...] = ()
    fractions: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """Dotted, without `self.`."""
    methods: tuple[str, ...] = ()
    """Those that write what repairs store or read."""
    files: tuple[str, ...] = ()
    """The files that repairs change."""
    further_integers: tuple[int, ...] = ()
    """More numbers of the code, tried as sizes and arguments only."""
    further_fractions: tuple[float, ...] = ()
    reporting: tuple[str, ...] = ()
    """Methods that only say what a repair sets by another method, as `get_x` does for `set_x`."""
    chosen: tuple[str, ...] = ()
    """Attributes that callers choose, of those that repairs read."""
    untyped: tuple[str, ...] = ()
    """Those of `chosen` that are a parameter without an annotation: a caller may pass a tensor for a number."""
    undefined: tuple[str, ...] = ()
    """Those of `untyped` whose parameter has no default, either: nothing in the file says what it is."""

    @property
    def numbers(self) -> tuple[int | float, ...]:
        """Return the integers and the fractions."""
        return (*self.integers, *self.fractions)

    @property
    def further(self) -> tuple[int | float, ...]:
        """Return the further integers and fractions."""
        return (*self.further_integers, *self.further_fractions)


ON = " on "
"""In the name of a call, between what is done with the model and the inputs."""
PENALTY = "gradient penalty"
"""In the name of a call that differentiates gradients."""
MOST_ALONE = 4
"""Numbers, flags and tensors of one number that are changed one by one, where a call has several."""
NO_ELEMENTS = "no elements"
"""The name of a call with empty lists, tuples and dictionaries."""
WITHOUT_KEY = "without key "
"""What the name of a call begins with that leaves a key out of dictionaries."""
ATTRIBUTE = "object with "
"""What the name of a call begins with that gives an attribute a value of another kind."""
OTHERS_IN_FLOAT64 = "tensors of other objects in float64"
"""The name of a call whose model reads tensors of float64 from objects that are no modules."""
BUFFERS_IN_FLOAT64 = "buffers in float64"
"""The name of a call of a model with buffers of float64, which an array or a checkpoint that is assigned brings."""
NEEDED = "noting what a backward pass needs"
"""The name of a call in which `Entry.needed` is noted."""
REDRAWN = "other random numbers"
"""The name of a call that differs from others in the random numbers that it draws."""


class ProofRequest(Struct, frozen=True):
    """Observe the calls of a target instead of compiling it."""

    result: str
    """The file to write the `Observed` to, as JSON."""
    compiled: bool = False
    """Whether to call through torch.compile, with a backend that runs graphs as captured."""
    probes: tuple[str, ...] | None = None
    """The inputs to try besides the scenarios, by name; None: all that fit into `seconds`."""
    kept: tuple[str, ...] = ()
    """Those of `probes` that run what the compiled calls before them compiled, if its guards allow: a graph that holds
    for one number of chosen elements need not hold for another."""
    conditions: tuple[Condition, ...] = ()
    """Conditions to evaluate whenever their line runs."""
    gradients: bool = True
    """Whether to compute gradients of what calls return."""
    seconds: float = 20.0
    """Time for probes."""
    values: str = ""
    """Folder for the values of outputs and gradients, to compare within rounding; empty: keep digests only."""
    against: str = ""
    """Folder with the values of the changed target's run; those that are not close are compared by their distance from
    float64."""
    mined: Mined = Mined()
    timed: tuple[str, ...] | None = ()
    """Calls to time in eager, by name; None: the scenarios, and a call for each side of a condition."""


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
    stored: Any = None
    """Gradients through the tensors that the call left in the state."""
    state: Any = None
    """What the call changed in the state that it can reach."""
    memory: Any = None
    """Which tensors of the state share memory with others than before the call."""
    needed: tuple[str, ...] = ()
    """Inputs and tensors of the state that a backward pass of the call needs as they are; only where it was noted."""
    printed: str = ""
    logged: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    random: str = ""
    """Digest of the generators after the call."""
    unended: float = 0.0
    """Seconds after which the call was ended because it took too long; 0: it ended."""


class Sides(Struct, frozen=True):
    """The calls in which a condition was true, and false."""

    condition: Condition
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    failed: str = ""
    """Why the condition could not be evaluated."""


class Observed(Struct, frozen=True):
    """All observations of one run of a proof."""

    entries: tuple[Entry, ...] = ()
    sides: tuple[Sides, ...] = ()
    probes: tuple[str, ...] = ()
    """Probes that were run, in order."""
    rounding: tuple[str, ...] = field(default=())
    """Differences from the run in `against` that rounding does not explain."""
    compared: int = 0
    """Calls compared with `against`."""
    left_out: str = ""
    """Why probes are missing."""
    uncopied: str = ""
    """Why the model cannot be copied, so that each probe gets it as the last one left it; empty: it can."""
    times: tuple[tuple[str, float], ...] = ()
    """Seconds of the fastest of several calls in eager, by name of the call."""
    compiles: bool = False
    """Whether eager calls ran code that the program itself compiles, on which options of torch.compile act."""
