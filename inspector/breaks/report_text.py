"""From torch's words on a graph break to its parts: gb ids, reason, hints and the user's stack.

The text (2.13, _dynamo/symbolic_convert.py:5026) has a header, the reason with explanation, hints and a link that holds
the gb id, the user's traceback and Dynamo's own.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from ctrace.inspector.model.findings import Frame
from ctrace.inspector.source.stacks import frames_in

_GB = re.compile(r"/gb/gb(\d+)\.html", re.IGNORECASE)
_HEADER = re.compile(r"Graph break in user code at (?P<file>.*):(?P<line>\d+)")
_DISABLED = frozenset(("GB0098", "GB0099"))
_LOOP = re.compile(r"^graph break in loop$", re.MULTILINE)


class Outcome(StrEnum):
    """What became of the function that Dynamo was compiling when it met a break."""

    CUT = "cut"
    """A graph before, the broken statement in Python, and a function that resumes after it."""
    REST_IN_EAGER = "rest_in_eager"
    """A graph up to an earlier point; all the rest in Python."""
    SKIPPED = "skipped"
    """The whole function in Python."""


@dataclass(frozen=True, slots=True)
class ParsedBreak:
    """A break as torch tells it, once."""

    gb: tuple[str, ...]
    title: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    frames: tuple[Frame, ...]
    """Outermost first; the last one is where Dynamo was."""
    outcome: Outcome = Outcome.CUT
    in_loop: bool = False
    """Whether the function was given up because the break is in a loop."""

    @property
    def is_disabled(self) -> bool:
        """Whether the author of a function keeps torch.compile away from it."""
        return not _DISABLED.isdisjoint(self.gb)


def parse_break(text: str) -> ParsedBreak:
    """Read one break reason; parts that are not there are empty."""
    told, _, dynamo = text.partition("\nUser code traceback:\n")
    user, _, _ = dynamo.partition("\n\n")
    # What follows an "another graph break occurred" is a consequence: the function is given up for the first one.
    reason, _, consequence = told.partition("Graph Break Reason: ")[2].partition(
        "\n*** While handling this graph break"
    )
    reason = f"\n{reason}"
    title, explanation, hints, context = _reason(reason)
    frames = frames_in(user) or _header_frame(told)
    gb = tuple(dict.fromkeys(f"GB{number}" for number in _GB.findall(reason)))
    in_loop = _LOOP.search(consequence) is not None
    return ParsedBreak(gb, title, explanation, hints, context, frames, _outcome(told), in_loop)


def _outcome(told: str) -> Outcome:
    """Tell by torch's own lead (2.11 and 2.13, _dynamo/symbolic_convert.py, `log_graph_break` and its callers)."""
    if "Skipping the function and falling back to eager" in told or "results in a skip" in told:
        return Outcome.SKIPPED
    return Outcome.REST_IN_EAGER if "then skipping the rest of the function" in told else Outcome.CUT


def _reason(text: str) -> tuple[str, str, tuple[str, ...], str]:
    """Take the last `title / Explanation / Hint / context` group: before it stands what Dynamo was doing."""
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
    return (Frame(match["file"], int(match["line"]), ""),) if match else ()
