"""Record which of torch's functions a process and its forks call."""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


def record_calls(file: Path) -> None:
    """Append a line for each of torch's functions that is called from now on: its file below torch's folder, its name.

    At once, not at the end: kernels are generated in a fork, which ends without exit functions.
    """
    import torch

    home = f"{Path(torch.__file__ or '').parent}/"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    # By identity: the hash of a code object reads all its constants, and this runs for each call of the process.
    codes: dict[int, CodeType] = {}

    def called(frame: FrameType, _event: str, _value: Any) -> None:
        code = frame.f_code
        if id(code) in codes:
            return
        codes[id(code)] = code
        if code.co_filename.startswith(home):
            with suppress(OSError):  # the program has closed it
                os.write(descriptor, f"{code.co_filename.removeprefix(home)}\t{code.co_qualname}\n".encode())

    threading.setprofile(called)
    sys.setprofile(called)
