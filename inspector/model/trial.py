"""What can be tried on a model to check a piece of advice: as data, which travels to a capture of its own.

A trial is one run in which nothing behind Dynamo is asked (`Options.trace_only`), so it counts graphs, breaks and
recompilations, and costs an import of torch and the time that Dynamo takes.
"""

from typing import Any

from msgspec import Struct, to_builtins

from ctrace.inspector.model.diagnosis import Counts


class LineEdit(Struct, frozen=True):
    """One line of a source file, replaced; the number of lines stays, so that line numbers do."""

    file: str
    line: int
    text: str
    """The new line, with its indentation and without a line end."""
    was: str = ""
    """The old line without its indentation: the edit is refused where the file says something else."""


class Marked(Struct, frozen=True):
    """A dimension of an argument of the model to mark dynamic before each call."""

    argument: str
    """Its parameter's name, or its position."""
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
    """`off`: call the model under torch.no_grad()."""
    calls: tuple[tuple[str, str], ...] = ()
    """Methods of the model to call first, each with a word, such as `set_experts_implementation`."""
    evaluate: bool = False
    """Whether to call `model.eval()` first."""
    dynamic: bool | None = None
    """What to give torch.compile as `dynamic`."""
    marked: tuple[Marked, ...] = ()
    edits: tuple[LineEdit, ...] = ()
    ignored: tuple[str, ...] = ()
    """Functions, as `module:qualname`, for `torch._dynamo.config.ignore_logging_functions`."""
    sources: tuple[NewText, ...] = ()
    """Whole files with another text; those on disk do not change."""


class Tried(Struct, frozen=True):
    """A trial that was run, and what it counted."""

    trial: Trial
    counts: Counts | None
    """None: the run failed, so the trial says nothing in favor of the advice."""
    seconds: float
    breaks: tuple[str, ...] = ()
    """Where the graph still broke, as `file:line`."""
    error: str = ""

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        data: dict[str, Any] = to_builtins(self)
        return data
