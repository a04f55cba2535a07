"""What `ctrace accuracy` asks of its child process."""

from msgspec import Struct

from ctrace.inspector.runs.capture_request import CaptureRequest


class AccuracyRequest(Struct, frozen=True):
    """The request to the child process."""

    capture: CaptureRequest
    against_eager: bool = False
    """Whether a kernel counts that differs from eager and is no further from float64."""
    promises: bool = False
    """Whether to call the model again: the same call, and one row alone."""
    scenarios: tuple[str, ...] = ()
    """The scenarios to compare; empty: all."""
