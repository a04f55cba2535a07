"""From torch's words on a graph break to its parts: gb ids, reason, hints and the user's stack.

The text (2.13, _dynamo/symbolic_convert.py:5026) has a header, the reason with explanation, hints and a link that holds
the gb id, the user's traceback and Dynamo's own.
"""

import re
from dataclasses import dataclass

from ctrace.inspector.model import Frame

_GB = re.compile(r"/gb/gb(\d+)\.html", re.IGNORECASE)
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+), in (?P<name>.*)')
_RESUME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")
_HEADER = re.compile(r"Graph break in user code at (?P<file>.*):(?P<line>\d+)")
_DISABLED = "GB0098"


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

    @property
    def is_disabled(self) -> bool:
        """Whether the author of a function keeps torch.compile away from it."""
        return _DISABLED in self.gb


def resumed(name: str) -> tuple[str, int | None]:
    """Split a resume function's name into the function it resumes and the line; any other name stays as it is."""
    match = _RESUME.fullmatch(name)
    return (match["name"], int(match["line"])) if match else (name, None)


def parse_break(text: str) -> ParsedBreak:
    """Read one break reason; parts that are not there are empty."""
    told, _, dynamo = text.partition("\nUser code traceback:\n")
    user, _, _ = dynamo.partition("\n\n")
    # What follows an "another graph break occurred" is a consequence: the function is given up for the first one.
    reason = "\n" + told.partition("Graph Break Reason: ")[2].partition("\n*** While handling this graph break")[0]
    title, explanation, hints, context = _reason(reason)
    frames = _frames(user) or _header_frame(told)
    gb = tuple(dict.fromkeys(f"GB{number}" for number in _GB.findall(reason)))
    return ParsedBreak(gb, title, explanation, hints, context, frames)


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


def _frames(text: str) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    for line in text.splitlines():
        if match := _FRAME.match(line):
            frames.append(Frame(match["file"], int(match["line"]), resumed(match["name"])[0]))
        elif frames and not frames[-1].source and line.startswith("    "):
            last = frames[-1]
            frames[-1] = Frame(last.file, last.line, last.function, line.strip())
    return tuple(frames)


def _header_frame(text: str) -> tuple[Frame, ...]:
    match = _HEADER.search(text)
    return (Frame(match["file"], int(match["line"]), ""),) if match else ()
