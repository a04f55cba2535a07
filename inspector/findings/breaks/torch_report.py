"""Parse torch's report of a graph break: gb ids, reason, hints and the user's stack.

The text (2.13, _dynamo/symbolic_convert.py:5026) has a header, the reason with explanation, hints and a link that
contains the gb id, then the user's traceback and Dynamo's.
"""

import re
from enum import StrEnum

from msgspec import Struct

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.source.stacks import frames_in

_GB = re.compile(r"/gb/gb(\d+)\.html", re.IGNORECASE)
_HEADER = re.compile(r"Graph break in user code at (?P<file>.*):(?P<line>\d+)")
_DISABLED = frozenset(("GB0098", "GB0099"))
_UNBACKED = re.compile(r"GuardOnDataDependentSymNode: Could not guard on data-dependent expression ")
"""How torch names a condition on a symbol without a value (2.11 to 2.15, fx/experimental/symbolic_shapes.py)."""
CONSEQUENCE = "\n*** While handling this graph break"
"""What comes before a break that torch met while it handled another one."""
_LOOP = re.compile(r"^graph break in loop$", re.MULTILINE)


class BreakOutcome(StrEnum):
    """How Dynamo went on after a break in the function that it was compiling."""

    CUT = "cut"
    """It ends the graph at the break, runs the statement in Python, and compiles a function that resumes after it."""
    REST_IN_EAGER = "rest_in_eager"
    """It ends the graph at an earlier point, and runs the rest in Python."""
    SKIPPED = "skipped"
    """It runs the whole function in Python."""


class ParsedBreak(Struct, frozen=True):
    """One of torch's reports of a break, parsed."""

    gb: tuple[str, ...]
    title: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    frames: tuple[Frame, ...]
    """Outermost first; the break is at the last frame."""
    outcome: BreakOutcome = BreakOutcome.CUT
    in_loop: bool = False
    """Whether Dynamo gave up on the function because the break is in a loop."""
    is_unbacked: bool = False
    """Whether Dynamo could not decide a condition on a size or number that has no value while it compiles."""

    @property
    def is_disabled(self) -> bool:
        """Whether `torch.compiler.disable` excludes a function from compilation."""
        return not _DISABLED.isdisjoint(self.gb)


def parse_break(text: str) -> ParsedBreak:
    """Parse one report; a part that it lacks stays empty."""
    head, _, dynamo = text.partition("\nUser code traceback:\n")
    user, _, _ = dynamo.partition("\n\n")
    # The text after "another graph break occurred" is a consequence: Dynamo skips the function for the first break.
    reason, _, consequence = head.partition("Graph Break Reason: ")[2].partition(CONSEQUENCE)
    reason = f"\n{reason}"
    title, explanation, hints, context = _reason(reason)
    frames = frames_in(user) or _header_frame(head)
    gb = tuple(dict.fromkeys(f"GB{number}" for number in _GB.findall(reason)))
    in_loop = _LOOP.search(consequence) is not None
    return ParsedBreak(
        gb=gb,
        title=title,
        explanation=explanation,
        hints=hints,
        context=context,
        frames=frames,
        outcome=_outcome(head),
        in_loop=in_loop,
        is_unbacked=_UNBACKED.search(dynamo) is not None,
    )


def _outcome(head: str) -> BreakOutcome:
    """Read the outcome from torch's first lines (2.11 and 2.13, _dynamo/symbolic_convert.py, `log_graph_break`)."""
    if "Skipping the function and falling back to eager" in head or "results in a skip" in head:
        return BreakOutcome.SKIPPED
    if "then skipping the rest of the function" in head:
        return BreakOutcome.REST_IN_EAGER
    return BreakOutcome.CUT


def _reason(text: str) -> tuple[str, str, tuple[str, ...], str]:
    """Parse the last group of title, explanation, hints and context; the text before says what Dynamo was doing."""
    head, found, tail = text.rpartition("\n  Explanation: ")
    if not found:
        return text.strip().partition("\n")[0], "", (), ""
    title = head.rstrip().rpartition("\n")[2].strip()
    body, _, context = tail.partition("\n  Developer debug context: ")
    explanation, *hints = re.split(r"\n  Hint: ", body)
    clean = tuple(" ".join(hint.split()) for hint in hints)
    return title, " ".join(explanation.split()), clean, context.partition("\n\n")[0].strip()


def _header_frame(text: str) -> tuple[Frame, ...]:
    match = _HEADER.search(text)
    if match:
        return (Frame(match["file"], int(match["line"]), ""),)
    return ()
