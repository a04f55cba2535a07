"""Graphs in which tensors of the GPU meet tensors of the CPU: the program itself would raise on the GPU.

Torch finds them as it traces the moved graph (2.11 to 2.13, _subclasses/fake_tensor.py: `_find_common_device`).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ctrace.inspector.capture.recorder import Recorder

_MEETING = re.compile(r"at least two devices|two different devices|on the same device")
_PLACE = re.compile(r'File "([^"\n]+)", line (\d+), in ')


@contextmanager
def mixes_named(recorder: Recorder) -> Iterator[None]:
    """Say of an exception of torch's that the program would have met it, and where."""
    try:
        yield
    except Exception as error:
        text = str(error)
        if _MEETING.search(text):
            recorder.problem(
                f"this would raise on the GPU{_place(text)}: a tensor on the CPU meets one on the GPU."
                " A tensor that is made without a device is on the CPU: give it `device=x.device`"
            )
        raise


def _place(text: str) -> str:
    """Name the innermost line of the user's that torch quotes after its message."""
    places = _PLACE.findall(text.partition("Original traceback")[2])
    return f" at {places[-1][0]}:{places[-1][1]}" if places else ""
