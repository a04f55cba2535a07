"""What `ctrace accuracy` asks of its child process, and what `ctrace repro --culprit` gets beside the result."""

from msgspec import Struct

from ctrace.inspector.facts.accuracy_facts import Accuracy, Culprit
from ctrace.inspector.runs.capture_request import CaptureRequest


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
    scenarios: tuple[str, ...] = ()
    """The scenarios to compare; empty: all."""
    writes_programs: bool = False
    """Whether to write the worst culprit as programs; the answer is then `Drafts`."""
    site: str = ""
    """The culprit to write, as `file.py:12`; empty: the worst."""


class Draft(Struct, frozen=True):
    """A program that may show a culprit."""

    text: str
    what: str
    """What it has of the kernel, in a few words."""


class Drafts(Struct, frozen=True):
    """A culprit as programs, the shortest first."""

    accuracy: Accuracy
    culprit: Culprit | None = None
    drafts: tuple[Draft, ...] = ()
    no_program: str = ""
    """Why no program of plain PyTorch can show it; empty: one may."""
    torch: str = ""
    python: str = ""
