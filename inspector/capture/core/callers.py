"""Stacks of the running program, as we record them: without frames of torch's, of ours and of Python's import."""

import os
import sys
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from ctrace.inspector.own import CAPTURE

OURS = f"{CAPTURE}/"


def folder_of_torch() -> str:
    """Give the folder of the torch that is imported, with a slash at the end."""
    import torch

    return f"{Path(torch.__file__ or '').parent}/"


def folder_of_triton() -> str:
    """Give the folder of the triton that is imported, with a slash at the end; of none, a folder that no file is in."""
    triton = sys.modules.get("triton")
    return f"{Path(triton.__file__).parent}/" if triton is not None and triton.__file__ else "\0"


def callers(frame: FrameType | None, torch_folder: str) -> list[dict[str, Any]]:
    """Describe the frames from `frame` up, outermost first."""
    stack = []
    while frame is not None:
        if not frame.f_code.co_filename.startswith((torch_folder, OURS, "<frozen ")):
            stack.append(place(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return stack[::-1]


def place(code: CodeType, line: int) -> dict[str, Any]:
    """Describe a line of a function."""
    return {"file": code.co_filename, "line": line, "name": code.co_name}


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
