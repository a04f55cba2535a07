"""Record every code object that Dynamo compiles: its name, its callers, and its bytecode before and after.

Source: `torch._dynamo.convert_frame.register_bytecode_hook` (2.13, convert_frame.py:873), the only public hook that
sees every frame; torch's structured trace has the bytecode of resume functions only.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Any

from ctrace.inspector.capture.core.callers import callers, folder_of_torch
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.facts.events.tracing import BytecodeSeen
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.source.disassembly import disassembled


@contextmanager
def bytecode(recorder: Recorder, when: When) -> Iterator[None]:
    """Record the name, place, callers and bytecode of each compiled function."""
    handles: list[Any] = []

    def hook(code: CodeType, new_code: CodeType) -> None:
        with recorder.watching("bytecode"):
            # Torch's own stack (dynamo_start) lacks the innermost callers: it drops too many frames.
            above = callers(sys._getframe(1), folder_of_torch())
            recorder.add(_describe(code, new_code, above))

    def install(_dynamo: ModuleType) -> None:
        from torch._dynamo.convert_frame import register_bytecode_hook

        # A hook that returns None leaves the code as it is (convert_frame.py, 2.13).
        handles.append(register_bytecode_hook(hook))

    when("torch._dynamo", install)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _describe(code: CodeType, new: CodeType, above: tuple[Frame, ...]) -> BytecodeSeen:
    return BytecodeSeen(
        name=code.co_name,
        qualname=code.co_qualname,
        file=code.co_filename,
        line=code.co_firstlineno,
        before=len(code.co_code),
        after=len(new.co_code),
        code=disassembled(code),
        new_code=disassembled(new),
        callers=above,
    )
