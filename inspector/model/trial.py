"""The changes with which a separate capture checks a piece of advice, as data. Most trials run Dynamo without a backend
(`Options.trace_only`): that counts graphs, breaks and recompilations, and costs an import of torch and the time that
Dynamo takes.
"""

from typing import Any

from msgspec import Struct, to_builtins

from ctrace.inspector.model.diagnosis import Counts


class LineEdit(Struct, frozen=True):
    """A replacement for one line of a source file; line numbers do not change."""

    file: str
    line: int
    text: str
    """The new line, with its indentation and without a line end."""
    was: str = ""
    """The old line without its indentation; the edit is refused if the file has another line there."""


class Marked(Struct, frozen=True):
    """A dimension to mark dynamic before each call, in an argument of the model."""

    argument: str
    """The parameter's name, or the argument's position."""
    dim: int


class NewText(Struct, frozen=True):
    """The text of a source file in a trial."""

    file: str
    text: str


class Trial(Struct, frozen=True):
    """What to change in a run."""

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


class Tried(Struct, frozen=True):
    """A trial that ran, and its counts."""

    trial: Trial
    counts: Counts | None
    """The counts of the run; None: the run failed, so the trial does not support the advice."""
    seconds: float
    breaks: tuple[str, ...] = ()
    """Where the graph still broke, as `file:line`."""
    error: str = ""

    def to_data(self) -> dict[str, Any]:
        """Return the trial as plain data."""
        data: dict[str, Any] = to_builtins(self)
        return data
