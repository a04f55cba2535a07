"""What a run found: breaks, functions that run eagerly, recompilations and silent dangers; frozen records."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.scenario_facts import Comparison
from ctrace.inspector.facts.wire import Integer


class Owner(StrEnum):
    """Who owns a frame."""

    USER = "user"
    LIBRARY = "library"
    """The standard library or an installed package."""
    TORCH = "torch"


class Frame(Struct, frozen=True, omit_defaults=True):
    """One line of a stack."""

    JSON: ClassVar[str] = "file|relative line function"
    # Hooks record the first three fields.
    file: str
    line: Integer
    # The log has torch's word, as in its own stacks.
    function: str = field(name="name")
    source: str = ""
    span: tuple[int, int] | None = None
    """Columns of `source` that ran, end exclusive; None: the whole line ran, or the columns are not known."""


class BreakKind(StrEnum):
    """Why there is a break: torch could not continue, or the author disabled compilation."""

    BREAK = "break"
    DISABLED = "disabled"


class Cost(Struct, frozen=True):
    """What a break or skip costs: how many aten ops run eagerly (None: not measured), and how many graphs it adds."""

    ops: int | None = None
    graphs: int = 0


class Advice(Struct, frozen=True):
    """What to change: code before and after, and a torch setting that helps, with its risk."""

    before: str = ""
    after: str = ""
    switch: str = ""
    risk: str = ""


class UserLine(Struct, frozen=True):
    """A line of the user's code that leads to a break, itself or through a library."""

    JSON: ClassVar[str] = "*at"
    at: Frame
    owner: Owner
    """Who owns the innermost frame of the first break that the line led to."""
    times: int
    compilations: tuple[str, ...]


class Break(Struct, frozen=True):
    """A site of graph breaks: those with equal gb ids and the same innermost line outside of torch.

    `file`, `line`, `function`, `source` and `span` are those of the user's first line that leads there.
    """

    JSON: ClassVar[str] = (
        "gb kind owner file|relative line function place reached_from=user_lines source reason fix times "
        "compilations expression columns=span cost advice"
    )
    gb: tuple[str, ...]
    kind: BreakKind
    owner: Owner
    file: str
    line: int
    function: str
    source: str
    reason: str
    fix: str
    times: int
    compilations: tuple[str, ...]
    paths: tuple[tuple[Frame, ...], ...] = ()
    span: tuple[int, int] | None = None
    """Columns of `source` that broke; see `Frame.span`."""
    expression: str = ""
    """The user's code that broke, shortened; empty: the source is not known."""
    advice: Advice = Advice()
    cost: Cost = Cost()
    construct: str = ""
    """The kind of code that broke: `if`, `assert`, `print`, `cast` ...; see `constructs.Construct.kind`."""
    title: str = ""
    """The break in a few words; torch's title if ctrace has none."""
    torch_hint: bool = False
    """Whether `fix` is torch's first hint, because ctrace has no advice on this break."""
    called: str = ""
    """What Dynamo could not call or trace, in torch's words."""
    inside: Frame | None = None
    """The innermost frame outside of torch; None: it is the user's line."""
    reached_from: tuple[UserLine, ...] = ()
    """All lines of the user's code that lead there, in order; empty: only `line`."""

    def __repr__(self) -> str:
        """Return one line, as a failing assert shows it; the frames of all paths take pages."""
        what = "graph break" if self.kind is BreakKind.BREAK else "disabled call"
        code = self.expression or self.source.strip()
        at = f"{self.file}:{self.line}"
        return f"<{what} at {at} in {self.function}: {code or self.title} ({', '.join(self.gb)})>"

    @property
    def place(self) -> Frame:
        """Return the innermost frame outside of torch, where the graph breaks."""
        return self.inside or Frame(self.file, self.line, self.function, self.source, self.span)

    @property
    def user_lines(self) -> tuple[UserLine, ...]:
        """Return all lines of the user's code that lead to the break."""
        at = Frame(self.file, self.line, self.function, self.source, self.span)
        # Most breaks have one such line, which they have as their own already.
        return self.reached_from or (UserLine(at, self.owner, self.times, self.compilations),)


class Skip(Struct, frozen=True):
    """A function that runs eagerly, as a whole or after a break, or whose compilation raised."""

    JSON: ClassVar[str] = "function file|relative line reason break=break_index rule fix cost"
    function: str
    file: str
    line: int
    reason: str
    break_index: int | None = None
    """Index into `Session.breaks` of the break that caused it."""
    rule: str = ""
    """The reason, as a key of advice/skips.yaml."""
    fix: str = ""
    cost: Cost = Cost()

    @property
    def outcome(self) -> str:
        """What became of the function, as far as the log shows."""
        # Compiling raised, and the log does not show whether the function ran after that.
        if self.rule in ("thrown", "unclear"):
            return "was not compiled"
        return "runs eagerly"


class CauseKind(StrEnum):
    """What differed in a call that needed a recompilation."""

    SIZE = "size"
    ZERO_ONE = "zero_one"
    """A size became 0 or 1, or was 0 or 1 before."""
    RANGE = "range"
    """A condition on a size or a number is true in one call and false in another."""
    DUCK_SHAPE = "duck_shape"
    """Two sizes that were equal when the graph was compiled differ now."""
    STRIDE = "stride"
    DTYPE = "dtype"
    DEVICE = "device"
    LAYOUT = "layout"
    REQUIRES_GRAD = "requires_grad"
    DISPATCH_KEYS = "dispatch_keys"
    GRAD_MODE = "grad_mode"
    AUTOCAST = "autocast"
    GLOBAL_STATE = "global_state"
    """A setting of torch, such as the number of threads."""
    TRAINING_MODE = "training_mode"
    ATTRIBUTE_VALUE = "attribute_value"
    ARGUMENT_VALUE = "argument_value"
    GLOBAL_VALUE = "global_value"
    CLOSURE_VALUE = "closure_value"
    """A variable from an enclosing function."""
    BREAK_RESULT = "break_result"
    """A value that the call at a graph break returned."""
    LENGTH = "length"
    KEY_ORDER = "key_order"
    """The keys of a dict, or their order."""
    NONE = "none"
    """None in one call, a value in the other."""
    TYPE = "type"
    IDENTITY = "identity"
    """Another object in the same place."""
    ALIASING = "aliasing"
    """Two inputs are the same object, or share memory, in only one of the two calls."""
    OTHER = "other"


TENSOR_CAUSES = frozenset(
    (
        CauseKind.SIZE,
        CauseKind.ZERO_ONE,
        CauseKind.DUCK_SHAPE,
        CauseKind.STRIDE,
        CauseKind.DTYPE,
        CauseKind.DEVICE,
        CauseKind.LAYOUT,
        CauseKind.REQUIRES_GRAD,
        CauseKind.DISPATCH_KEYS,
    )
)
"""Kinds whose subject is a tensor."""


class Cause(Struct, frozen=True):
    """One guard that failed for a new call."""

    JSON: ClassVar[str] = "kind subject was now file|relative line others open=is_open fix reason expected advice"
    kind: CauseKind
    subject: str
    was: str | None = None
    now: str | None = None
    line: int | None = None
    """Where the user's code specialized on the value."""
    fix: str = ""
    file: str | None = None
    """The file of `line`."""
    others: int = 0
    """How many more guards failed in the same way, such as one dtype guard per parameter."""
    is_open: bool = False
    """Whether the new graph treats the value as dynamic."""
    reason: str = ""
    """Why torch recompiles, in plain words."""
    expected: str = ""
    """Why this recompilation is expected; empty if it is not."""
    advice: Advice = Advice()


class Recompile(Struct, frozen=True):
    """A compilation of a function that was compiled before, and its causes."""

    JSON: ClassVar[str] = (
        "compilation function file|relative line expected why_expected scenario call nearest "
        "shared_by|null_if_empty causes"
    )
    compilation: str
    function: str
    file: str
    line: int
    expected: bool
    causes: tuple[Cause, ...]
    reason: str = ""
    """Torch's reason, verbatim."""
    why_expected: str = ""
    nearest: str | None = None
    """The cache entry that the call is compared with to find the causes."""
    distances: Mapping[str, int] = field(default_factory=dict)
    """How many guards failed, keyed by cache entry."""
    scenario: str | None = None
    """The scenario of the call; None for a program."""
    call: int | None = None
    """Which call of the scenario, from 0."""
    shared_by: str = ""
    """What shares the code, such as `Layer modules`, if it was compiled for another one of them, and nothing changed
    over time; else empty.
    """
    caller: Frame | None = None
    """The frame outside of torch that called the function; None if it is not known."""


class CacheUse(Struct, frozen=True):
    """How much of its cache a function has used."""

    JSON: ClassVar[str] = "function used of"
    function: str
    used: int
    of: int
    frame: str = ""
    """Dynamo's number of the code object."""
    refused: bool = False
    """Whether Dynamo refused to compile for a call because the cache was full."""


class Limit(Struct, frozen=True):
    """The recompile limit: whether any function hit it, and how close each function is."""

    hit: bool = False
    functions: tuple[CacheUse, ...] = ()


class Danger(Struct, frozen=True):
    """A compiled call whose results differ from eager, and the state without a guard that explains the difference."""

    JSON: ClassVar[str] = (
        "scenario call calls kind subject|null_if_empty was now file|relative line difference proven why "
        "fix rule=comparison.rule eager_error=comparison.eager_error "
        "compiled_error=comparison.compiled_error no_reference=comparison.no_reference|null_if_empty"
    )
    scenario: str
    call: int
    """The first call of the scenario that showed it, from 0."""
    kind: str
    """A key of advice/dangers.yaml."""
    subject: str
    """What changed, in the user's words."""
    difference: str = ""
    """How the results differ."""
    was: str | None = None
    """The value that compiled code still uses."""
    now: str | None = None
    file: str | None = None
    """Where the code reads the changed state, or where the added or removed function is defined."""
    line: int | None = None
    proven: bool = False
    why: str = ""
    fix: str = ""
    calls: int = 1
    """How many calls showed it."""
    comparison: Comparison | None = None
    """How the results were compared; None: not in the log of an older ctrace."""
