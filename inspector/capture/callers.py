"""Stacks of the running program, as we record them: without frames of torch's, of ours and of Python's import."""

from pathlib import Path
from types import CodeType, FrameType
from typing import Any

OURS = f"{Path(__file__).resolve().parent}/"


def folder_of_torch() -> str:
    """Give the folder of the torch that is imported, with a slash at the end."""
    import torch

    return f"{Path(torch.__file__ or '').parent}/"


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
