"""The user's part of a traceback."""

import os
from types import TracebackType

from ctrace.inspector.own import CAPTURE

_OURS = f"{CAPTURE}{os.sep}"
_RUNNERS = ("<frozen runpy>", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def without_our_frames(tb: TracebackType | None) -> TracebackType | None:
    """Drop our frames, and from the top those of Python that ran or imported the user's file."""
    while tb is not None and _is_ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    below = tb
    while below is not None:
        while below.tb_next is not None and below.tb_next.tb_frame.f_code.co_filename.startswith(_OURS):
            below.tb_next = below.tb_next.tb_next
        below = below.tb_next
    return tb


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) or file in _RUNNERS
