"""A diagnosis (`Diagnosis`): root causes with their symptoms, and advice with its measured effect.

`SuggestedRepair` is what `ctrace check --suggest` found for a finding: a proved repair as replacements of lines, or why
there is none.
"""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.wire import Integer, Number


class Finding(StrEnum):
    """The lists of findings in a JSON report; `failure` stands for the report's `error`."""

    BREAK = "break"
    SKIP = "skip"
    RECOMPILE = "recompile"
    DANGER = "danger"
    ATTENTION = "attention"
    FAILURE = "failure"


class RootKind(StrEnum):
    """What the user can change. Each kind of `CauseKind`, for recompilations, is here under the same name."""

    TENSOR_BRANCH = "tensor_branch"
    """Python branches on a tensor's value."""
    TENSOR_VALUE = "tensor_value"
    """A tensor becomes a Python number or list: `.item()`, `int()`, `.tolist()`."""
    DYNAMIC_OUTPUT = "dynamic_output"
    """The shape of an op's result depends on data: `nonzero`, boolean indexing, `unique`."""
    OUTPUT = "output"
    """Printing, logging, warnings, clocks."""
    DISABLED = "disabled"
    """The author of a function excludes it from compilation."""
    UNSUPPORTED_CALL = "unsupported_call"
    """A call that Dynamo cannot trace: C extensions, skipped functions, custom ops without a fake kernel."""
    UNSUPPORTED_PYTHON = "unsupported_python"
    """Python that Dynamo does not support, such as some context managers, generators and mutations."""
    BACKEND = "backend"
    """AOTAutograd or the backend failed on a graph."""
    TRAINING_STEP = "training_step"
    """The user compiles a function that also runs the backward or an optimizer."""
    NOT_TRACED = "not_traced"
    """A function that Dynamo skips by a rule."""
    SIZE = "size"
    ZERO_ONE = "zero_one"
    RANGE = "range"
    DUCK_SHAPE = "duck_shape"
    STRIDE = "stride"
    DTYPE = "dtype"
    DEVICE = "device"
    LAYOUT = "layout"
    REQUIRES_GRAD = "requires_grad"
    DISPATCH_KEYS = "dispatch_keys"
    GRAD_MODE = "grad_mode"
    AUTOCAST = "autocast"
    GLOBAL_STATE = "global_state"
    TRAINING_MODE = "training_mode"
    ATTRIBUTE_VALUE = "attribute_value"
    ARGUMENT_VALUE = "argument_value"
    GLOBAL_VALUE = "global_value"
    CLOSURE_VALUE = "closure_value"
    BREAK_RESULT = "break_result"
    LENGTH = "length"
    KEY_ORDER = "key_order"
    NONE = "none"
    TYPE = "type"
    IDENTITY = "identity"
    ALIASING = "aliasing"
    WRONG_RESULT = "wrong_result"
    """Compiled code and eager return different results."""
    ATTENTION = "attention"
    """An attention that torch did not fuse into one op."""
    FAILURE = "failure"
    """Compiling or the program raised."""
    OTHER = "other"


class Symptom(Struct, frozen=True):
    """A reference to one finding: the list of findings, and the index in that list."""

    what: Finding
    index: int = 0


class RootCost(Struct, frozen=True):
    """What a cause costs; None: not measured."""

    graphs: int | None = None
    """Graphs that exist only because of it: one per recompilation; for breaks, as many as a trial saved."""
    ops: int | None = None
    """Aten ops that run eagerly because of it."""
    seconds: float | None = None
    """Compile time that it costs, in seconds; each second counts for one cause only."""


class RootCause(Struct, frozen=True):
    """Something that the user can change, with all findings that follow from it."""

    JSON: ClassVar[str] = "id kind title file|path line function cost symptoms why expected|null_if_empty"
    id: str
    """Stable between runs of the same code."""
    kind: RootKind
    title: str
    """One sentence in the user's terms, without a final period."""
    file: str | None
    line: int | None
    function: str | None
    symptoms: tuple[Symptom, ...]
    cost: RootCost = RootCost()
    source: str = ""
    """The user's line, without indentation."""
    why: str = ""
    expected: str = ""
    """Why the user need not change anything; empty if something should change."""
    detail: str = ""
    """What follows from a break, or torch's reason for a recompilation that is about another entry than the nearest."""


_SAME_COVERAGE = 0.5
"""The coverage of two runs of one model may differ by this many percentage points."""


class Counts(Struct, frozen=True, forbid_unknown_fields=True):
    """The counts of a run."""

    graphs: Integer
    breaks: Integer
    recompiles: Integer
    coverage: Number | None = None
    """Share of ops in graphs, in percent; None: not measured."""

    @property
    def total(self) -> int:
        """Return the number of graphs, breaks and recompilations."""
        return self.graphs + self.breaks + self.recompiles


class Effect(Struct, frozen=True):
    """What a trial changed."""

    JSON: ClassVar[str] = "graphs breaks recompiles coverage"
    before: Counts
    after: Counts

    @property
    def graphs(self) -> tuple[int, int]:
        """The number of graphs without and with it."""
        return self.before.graphs, self.after.graphs

    @property
    def breaks(self) -> tuple[int, int]:
        """The number of graph breaks without and with it."""
        return self.before.breaks, self.after.breaks

    @property
    def recompiles(self) -> tuple[int, int]:
        """The number of recompilations without and with it."""
        return self.before.recompiles, self.after.recompiles

    @property
    def coverage(self) -> tuple[float | None, float | None]:
        """The share of ops in graphs without and with it, in percent; None: not measured."""
        return self.before.coverage, self.after.coverage

    @property
    def gain(self) -> int:
        """Return by how much the number of graphs, breaks and recompilations fell; negative if it rose."""
        return self.before.total - self.after.total

    @property
    def helps(self) -> bool:
        """Whether the trial improved the run, without more breaks and without less coverage.

        The number of graphs, breaks and recompilations must fall. It may stay the same if breaks become fewer and
        coverage clearly rises: a setting that removes a break may cause a recompilation instead. If nothing was
        compiled before, the first graphs are an improvement.
        """
        # First, because code that is no longer compiled needs no graphs and no recompilations.
        if self.after.breaks > self.before.breaks or self._covers(less=True):
            return False
        return self.gain > 0 or self.is_first or (self.after.breaks < self.before.breaks and self.covers_more)

    @property
    def saves(self) -> bool:
        """Whether a graph or recompilation is gone, or more ops are compiled; one break less is not enough."""
        graphs, recompiles = self.before.graphs - self.after.graphs, self.before.recompiles - self.after.recompiles
        return graphs + recompiles > 0 or self.covers_more or self.is_first

    @property
    def is_first(self) -> bool:
        """Whether nothing was compiled without the change, and something is with it."""
        return self.before.graphs == 0 < self.after.graphs

    @property
    def covers_more(self) -> bool:
        """Whether the share of ops in graphs is clearly higher."""
        return self._covers(less=False)

    @property
    def keeps_most(self) -> bool:
        """Whether at least half of the share of ops in graphs is still there; True if it was not measured."""
        before, after = self.before.coverage, self.after.coverage
        return before is None or after is None or after >= before / 2

    def _covers(self, *, less: bool) -> bool:
        """Whether the share of ops in graphs is clearly higher; with `less`, whether it is clearly lower."""
        before, after = self.before.coverage, self.after.coverage
        if before is None or after is None:
            return False
        if less:
            return after < before - _SAME_COVERAGE
        return after > before + _SAME_COVERAGE


class ApplyKind(StrEnum):
    """How a program carries out a piece of advice."""

    SETTING = "setting"
    """Python statements to run before anything is compiled."""
    ARGUMENT = "argument"
    """Keyword arguments of torch.compile."""
    PATCH = "patch"
    """A unified diff of one file."""
    PLACE = "place"
    """Python statements to run instead of `model = torch.compile(model)`."""


class Apply(Struct, frozen=True):
    """A change that a program can carry out without ctrace."""

    JSON: ClassVar[str] = "kind file|relative line text"
    kind: ApplyKind
    text: str
    file: str | None = None
    """The file that a patch changes."""
    line: int | None = None
    """The first line that a patch changes."""


LAST_RESORT = "last_resort"
"""The rule that says of a finding that nothing is known which would help."""


class Suggestion(Struct, frozen=True):
    """A change that removes one or several root causes."""

    JSON: ClassVar[str] = "text causes checked effect general apply calls rule|null_if_empty same_results"
    text: str
    causes: tuple[str, ...] = ()
    """Ids of its root causes."""
    checked: bool | None = None
    """True if a trial showed that it helps, False if a trial showed that it does not, None if it was not tried."""
    effect: Effect | None = None
    general: bool = False
    """Whether it is general advice on this kind of finding, without evidence from this run."""
    apply: Apply | None = None
    """The change as a program can carry it out; None: only a person can, or nothing is to be done."""
    calls: int | None = None
    """The calls that its trial made; None: it was not tried."""
    later: tuple[int, int] | None = None
    """The recompilations in so many calls, without and with the change; None: not measured."""
    rule: str = ""
    """The rule that offers it."""
    ends_failure: bool = False
    """Whether its trial went on where the run raised; the counts of the two are not comparable then."""
    optional: bool = False
    """Whether all its causes are expected and no trial shows a gain, so that nothing has to change."""
    new_breaks: tuple[str, ...] = ()
    """Where the graph breaks in its trial and did not without the change, such as `/home/me/net.py:8`."""
    compile_time: tuple[float, float] | None = None
    """Seconds of compile time without and with the change, for advice that is about it; None: not measured."""
    same_results: bool | None = None
    """Whether the model returns the same in eager with its edits; None: it has none, or that is not known."""


class Diagnosis(Struct, frozen=True):
    """The root causes, costliest first, and the advice, best first."""

    causes: tuple[RootCause, ...] = ()
    advice: tuple[Suggestion, ...] = field(default=())
    has_later: bool = False
    """Whether more calls recompile more often than the two of each scenario that are counted."""


class Replacement(Struct, frozen=True):
    """Lines of a file that a repair replaces, inserts or removes, with a line of context where a review needs one."""

    file: str
    """Absolute."""
    line: int
    """The first line that is replaced, from 1; for an insertion, the line before which the text goes."""
    end: int
    """The line after the last one that is replaced; for an insertion, `line`."""
    old: str
    """The lines that are replaced, whole."""
    new: str
    """The lines that replace them, whole."""
    before: str = ""
    """The line before the replaced ones, whole; empty at the top of the file."""


class SuggestedRepair(Struct, frozen=True):
    """The outcome of the search for a repair of one finding."""

    repair: str = ""
    """Name of the repair; empty if there is none."""
    kind: str = ""
    """`configuration` or `source`."""
    summary: str = ""
    proved: bool = False
    why: str = ""
    """Why nothing is proved; empty if a repair is."""
    note: str = ""
    """How far the proof reaches."""
    question: str = ""
    """What only the author can decide: the repair is proved except for that, and must not be applied without an answer.
    """
    library: str = ""
    """The package that the repair changes; empty: the user's own files."""
    how: str = ""
    """What to write where no file can be changed."""
    command: str = ""
    """The command that shows the repair, or applies it."""
    patch: str = ""
    replacements: tuple[Replacement, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether the repair can be applied as it is: proved, in the user's own files, without a question."""
        return self.proved and not self.question and not self.library
