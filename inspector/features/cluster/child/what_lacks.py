"""End a rank at the program's line if an exception only says what a rank without peers, or without a GPU, lacks."""

import dis
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import UnpicklingError
from types import FrameType
from typing import Any

from ctrace.inspector.capture.calls.answering import place_of_failure
from ctrace.inspector.capture.core.callers import folder_of_torch, without_our_frames
from ctrace.inspector.capture.core.exception_text import message
from ctrace.inspector.errors import TargetError

_FOLDERS = ("cuda/", "accelerator/", "distributed/_symmetric_memory/")
"""Folders of torch whose functions raise without a GPU (2.11 to 2.13)."""
_NCCL = re.compile(r"\bNCCL\b|ProcessGroupNCCL|not safe to split|not support splitting")
_SAYS = re.compile(
    rf"{_NCCL.pattern}|not compiled with CUDA|Cannot access accelerator device|only work with GPU|input tensor to be on"
)
"""What torch says where C++ code refuses, or where this build lacks a class or a backend (2.11 to 2.13)."""
_ON_CPU = (
    "a rank's tensors are on the CPU, which has no such thing: leave that line out under --world, or let the program "
    "find no GPU (CUDA_VISIBLE_DEVICES=)"
)
_WITHOUT_NCCL = "use that only where torch has NCCL: if torch.distributed.is_nccl_available()"
_UNREADABLE = (EOFError, UnpicklingError)
"""What reading an object raises that another rank would have sent: the bytes of a fake group are zeros."""


@contextmanager
def refusing_what_lacks() -> Iterator[None]:
    """Name the line of an exception in the block that only a missing GPU or a missing peer explains.

    Raises:
        TargetError: in place of such an exception.
    """
    try:
        yield
    except TargetError:
        raise
    except Exception as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        raise refusal from error


def _refusal(error: Exception) -> TargetError | None:
    place = place_of_failure(error)
    if place is None or "torch" not in sys.modules:
        return None
    import torch

    at = f"{place[0]}:{place[1]}"
    if isinstance(error, _UNREADABLE) and any(_is_distributed(frame) for frame, _at in _frames(error)):
        what = f"{at} needs an object that another rank sends, and --world runs a rank without its peers"
        return TargetError(what, "leave that line out under --world")
    if torch.cuda.is_available():
        return None
    owner = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and type(owner).__module__ == "torch._C._distributed_c10d":
        what = f"{at} asks a process group for {error.name}, which --world has not: its groups are torch's fake ones"
        return TargetError(what, f'ask first whether there is one: hasattr(..., "{error.name}")')
    if not _is_for_gpus(error):
        return None
    said = message(error).partition("\n")[0][:100]
    needs, todo = ("NCCL", _WITHOUT_NCCL) if _NCCL.search(said) else ("a GPU", _ON_CPU)
    return TargetError(f"{at} needs {needs}, and there is none here ({said})", todo)


def _is_for_gpus(error: Exception) -> bool:
    """Whether torch raised it below the user's line because of a GPU, or the line divides by the number of GPUs."""
    folder = folder_of_torch()
    frames = _frames(error)
    below = len(frames)
    while below and frames[below - 1][0].f_code.co_filename.startswith(folder):
        below -= 1
    if any(_takes_gpu(frame, folder) for frame, _at in frames[below:]):
        return True
    if isinstance(error, ZeroDivisionError):
        return below == len(frames) > 0 and "device_count" in _names(*frames[-1])
    is_torchs = below < len(frames) or isinstance(error, AttributeError | ImportError | TypeError)
    return is_torchs and _SAYS.search(message(error)) is not None


def _frames(error: Exception) -> list[tuple[FrameType, int]]:
    """Return the frames of a traceback without ctrace's, and the offset at which each one is."""
    found, trace = [], without_our_frames(error.__traceback__)
    while trace is not None:
        found.append((trace.tb_frame, trace.tb_lasti))
        trace = trace.tb_next
    return found


def _takes_gpu(frame: FrameType, torch_folder: str) -> bool:
    """Whether a frame of torch belongs to its code for GPUs, or holds the GPU that the program names."""
    if frame.f_code.co_filename.removeprefix(torch_folder).startswith(_FOLDERS):
        return True
    return any(_is_gpu(value) for value in frame.f_locals.values())


def _is_gpu(value: Any) -> bool:
    import torch

    return isinstance(value, torch.device) and value.type == "cuda"


def _is_distributed(frame: FrameType) -> bool:
    """Whether a frame belongs to torch's code for several ranks, other than that which reads files."""
    part = frame.f_code.co_filename.removeprefix(folder_of_torch())
    return part.startswith("distributed/") and not part.startswith("distributed/checkpoint/")


def _names(frame: FrameType, at: int) -> set[Any]:
    """Return the names that the running line of a frame uses."""
    instructions = list(dis.get_instructions(frame.f_code))
    line = next((each.positions.lineno for each in instructions if each.offset == at and each.positions), None)
    return {each.argval for each in instructions if each.positions and each.positions.lineno == line}
