"""The user's part of a traceback."""

import os
from pathlib import Path
from types import TracebackType

_OURS = f"{Path(__file__).resolve().parent}{os.sep}"
_RUNNERS = ("<frozen runpy>", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def without_our_frames(tb: TracebackType | None) -> TracebackType | None:
    """Drop our frames from the top, and those of Python that ran or imported the user's file."""
    while tb is not None and _is_ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    return tb


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) or file in _RUNNERS
