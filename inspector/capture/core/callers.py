"""Record stacks of the running program without the frames of torch, ctrace and Python's import system."""

import os
import sys
from pathlib import Path
from types import CodeType, FrameType, TracebackType

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.install_folders import INSPECTOR

OURS = f"{INSPECTOR}/"
GRAPH_FILE = "<eval_with_key>"
"""Prefix of the file names of torch.fx's generated code (2.13, fx/graph_module.py)."""


def folder_of_torch() -> str:
    """Return the folder of the imported torch, with a trailing slash."""
    import torch

    return f"{Path(torch.__file__ or '').parent}/"


def folder_of_triton() -> str:
    """Return the folder of the imported triton, with a trailing slash; without triton, one that contains no file."""
    triton = sys.modules.get("triton")
    if triton is not None and triton.__file__:
        return f"{Path(triton.__file__).parent}/"
    return "\0"


def callers(frame: FrameType | None, torch_folder: str) -> tuple[Frame, ...]:
    """Describe `frame` and its callers, outermost first."""
    stack = []
    while frame is not None:
        # Python's frozen modules, such as importlib and runpy, have no source to show.
        if not frame.f_code.co_filename.startswith((torch_folder, OURS, "<frozen ")):
            stack.append(place(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(stack))


def place(code: CodeType, line: int) -> Frame:
    """Describe a line of a function."""
    return Frame(code.co_filename, line, code.co_name)


_OURS = f"{INSPECTOR}{os.sep}"
_RUNNERS = ("<frozen runpy>", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def without_our_frames(tb: TracebackType | None) -> TracebackType | None:
    """Drop ctrace's frames, and the outermost ones in which Python runs or imports the user's file."""
    while tb is not None and _is_ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    below = tb
    while below is not None:
        # The user's code may call a hook of ours, and that the user's code again.
        while below.tb_next is not None and below.tb_next.tb_frame.f_code.co_filename.startswith(_OURS):
            # In place: the traceback belongs to the exception, which other code may still show.
            below.tb_next = below.tb_next.tb_next
        below = below.tb_next
    return tb


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) or file in _RUNNERS
