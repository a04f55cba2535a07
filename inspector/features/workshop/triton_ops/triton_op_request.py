"""The request of `ctrace kernels wrap` to its child process."""

from msgspec import Struct

from ctrace.inspector.runs.capture_request import Options


class WrapRequest(Struct, frozen=True):
    """Write and check an operator for a kernel."""

    file: str
    kernel: str
    options: Options
    is_model: bool
    """Whether the file has a model and inputs, with which the kernel can be run."""
