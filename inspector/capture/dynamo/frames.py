"""Record the functions that Dynamo skips, each with the rule that decides (`frames`), and the code objects that it
compiles (`bytecode`).

Most skipped functions leave no entry in torch's structured trace. Every such decision ends in a `ConvertFrameReturn`
without code, created in `torch/_dynamo/convert_frame.py` (2.11 and 2.13). The hook is on the creation of this object,
not on the call around it: Dynamo counts the frames above itself, so ctrace must not add a frame between Dynamo and the
user's code.

Of a compiled code object, its name, its callers and its bytecode before and after are recorded, by
`torch._dynamo.convert_frame.register_bytecode_hook` (2.13, convert_frame.py:873), the only public hook that sees every
frame; torch's structured trace has the bytecode of resume functions only.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FrameType, ModuleType
from typing import Any

from ctrace.inspector.capture.core.callers import callers, folder_of_torch, place
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.bytecode_facts import BytecodeSeen
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.run_events import FrameLeft
from ctrace.inspector.source.disassembly import disassembled

_GENERATOR = 0x20  # inspect.CO_GENERATOR


@contextmanager
def frames(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each code object that Dynamo skips, and why."""
    with ExitStack() as patches:

        def install(_dynamo: ModuleType) -> None:
            from torch._dynamo import convert_frame
            from torch._dynamo.types import ConvertFrameReturn

            torch_folder = folder_of_torch()

            # `convert_frame.py` looks the name up in its own module, so that only its decisions are seen.
            class Left(ConvertFrameReturn):
                """A decision not to compile; decisions with compiled code are created in `wrap_guarded_code`."""

                def __init__(self, *args: Any, **kwargs: Any) -> None:
                    super().__init__(*args, **kwargs)
                    with recorder.watching("a skipped frame"):
                        if described := _describe(sys._getframe(1), self, torch_folder):
                            recorder.add(described)

            with recorder.watching("frames that Dynamo skips"):
                patches.enter_context(patched(convert_frame, "ConvertFrameReturn", Left))

        when("torch._dynamo", install)
        yield


def _describe(decider: FrameType, decision: Any, torch_folder: str) -> FrameLeft | None:
    """Return the code and the rule, or None for torch's own code and for Dynamo's helpers, which decide nothing."""
    top = _with_frame(decider)
    if top is None:
        return None
    code: CodeType = top.f_locals["frame"].f_code
    if code.co_filename.startswith(torch_folder):
        return None
    return FrameLeft(
        name=code.co_name,
        qualname=code.co_qualname,
        file=code.co_filename,
        line=code.co_firstlineno,
        rule=_rule(decider, top, code, decision),
        reason=getattr(decision, "skip_reason", None),
        fullgraph=_is_fullgraph(top),
        stack=(*callers(top, torch_folder), place(code, code.co_firstlineno)),
    )


def _with_frame(decider: FrameType) -> FrameType | None:
    """Return the caller in `convert_frame.py` that has the user's frame in its local `frame`, or None."""
    above: FrameType | None = decider
    while above is not None:
        if above.f_code.co_filename == decider.f_code.co_filename and hasattr(above.f_locals.get("frame"), "f_code"):
            return above
        above = above.f_back
    return None


def _rule(decider: FrameType, top: FrameType, code: CodeType, decision: Any) -> str:
    """Return the rule, from the place of the decision in `convert_frame.py` and its local variables."""
    from torch._dynamo.convert_frame import has_tensor_in_frame

    known = decider.f_locals
    # Local variables tell the place of a decision: line numbers differ between releases, names hardly.
    # `CatchErrorsWrapper.__call__` has this local, and decides before anything else.
    if "is_skipfile" in known:
        return _rule_before(known)
    # `_compile` decides so where it catches SkipFrame.
    if "e" in known and type(known["e"]).__name__ == "SkipFrame":
        return "no_ops"
    # Only `disable(recursive=False)` skips this call and lets Dynamo try the code again later.
    if not decision.apply_to_code:
        return "disabled"
    if "cache_entry" in known and "result" not in known and "soft_fail" not in known and _is_assert(known):
        # The last of its rules asks for tensors; those before it exclude names, such as `__setattr__`, without a local
        # of their own.
        if not has_tensor_in_frame(top.f_locals["frame"]):
            return "no_tensor"
        return "excluded"
    # Dynamo raises Unsupported for a generator, and `ConvertFrame` catches it like any failure to compile.
    if code.co_flags & _GENERATOR:
        return "generator"
    return "failed"


def _is_assert(known: dict[str, Any]) -> bool:
    """Whether a decision was made in `ConvertFrameAssert`, so before any tracing."""
    return type(known.get("self")).__name__ == "ConvertFrameAssert"


def _rule_before(known: dict[str, Any]) -> str:
    """Return the first rule of `CatchErrorsWrapper` that applies, in its order (2.13, convert_frame.py:2554)."""
    from torch._dynamo import config

    if known["has_started_execution"]:
        return "started"
    if known["is_skipfile"]:
        return "skipfile"
    if config.disable:
        return "switched_off"
    if known["should_skip_for_dispatch_mode"]:
        return "dispatch_mode"
    return "constructor"


def _is_fullgraph(top: FrameType) -> bool:
    owner: Any = top.f_locals.get("self")
    return bool(getattr(getattr(owner, "_torchdynamo_orig_backend", owner), "_one_graph", False))


@contextmanager
def bytecode(recorder: Recorder, when: When) -> Iterator[None]:
    """Record the name, place, callers and bytecode of each compiled function."""
    handles: list[Any] = []

    def hook(code: CodeType, new_code: CodeType) -> None:
        with recorder.watching("bytecode"):
            # Torch's own stack (dynamo_start) lacks the innermost callers: it drops too many frames.
            above = callers(sys._getframe(1), folder_of_torch())
            recorder.add(_described_code(code, new_code, above))

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


def _described_code(code: CodeType, new: CodeType, above: tuple[Frame, ...]) -> BytecodeSeen:
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
