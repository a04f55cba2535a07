"""Record user-written Triton kernels in a compiled region, and how torch lowers each call.

Inductor makes one `UserDefinedTritonKernel` (2.11 and 2.13, _inductor/ir.py) for each call. Meanwhile, it asks
`identify_mutated_tensors` (2.11) or `identify_accessed_tensors` (2.13, _higher_order_ops/triton_kernel_wrap.py) which
arguments the kernel writes. If that analysis fails, it catches the exception, warns, and assumes that the kernel
writes every tensor. The hook replaces its logger, whose `warning` is called while the exception is being handled.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, ModuleType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.capture.kernels.user_kernel_facts import Analysis, TritonOpCall, described, emitted, side_table
from ctrace.inspector.knowledge.versions.torch_names import KERNEL_ANALYSIS, KERNEL_EPILOGUE

_TRITON_OP = "functional_decomp"
"""The function with which AOTAutograd traces into a triton_op (2.11 and 2.13, _library/triton.py)."""


class _Origins(Struct):
    """The origins of calls that torch knows only by number."""

    kernels: dict[int, Any] = field(default_factory=dict)
    """The kernel that the user called, keyed by the id of torch's copy (with heuristics or warps applied)."""
    ops: dict[int, TritonOpCall] = field(default_factory=dict)
    """The `triton_op` of a call, keyed by the number of the call's constant arguments."""


class _Log:
    """Replaces the logger of triton_kernel_wrap.py, and keeps the exception behind a warning."""

    def __init__(self, logger: Any, current: threading.local) -> None:
        self._logger = logger
        self._current = current

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def warning(self, *args: Any, **kwargs: Any) -> None:
        error = sys.exc_info()[1]
        if error is not None:
            self._current.raised = kind_and_message(error)
        self._logger.warning(*args, **{"stacklevel": 2, **kwargs})


@contextmanager
def userkernels(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each call of a user's kernel when Inductor lowers it, and again when it writes the code."""
    current = threading.local()
    origins = _Origins()
    with ExitStack() as patches:

        def install_wrap(module: ModuleType) -> None:
            with recorder.watching("what user-written kernels write"):
                name = KERNEL_ANALYSIS.needed_of(module)
                # By module attribute: the logger itself belongs to all of torch.
                patches.enter_context(patched(module, "log", _Log(module.log, current)))
                patches.enter_context(patched(module, name, _analysing(getattr(module, name), current)))
            with recorder.watching("which kernel the user called"):
                # Dynamo and the tracer of a `triton_op` share this class.
                hopifier = module.TritonHOPifier
                call = _calling(hopifier.call_triton_kernel, origins, current)
                patches.enter_context(patched(hopifier, "call_triton_kernel", call))
            with recorder.watching("which triton_op calls a kernel"):
                tracer = module.TracingTritonHOPifier
                store = _storing(recorder, tracer.store_non_graphable_args, origins)
                patches.enter_context(patched(tracer, "store_non_graphable_args", store))

        def install_ir(module: ModuleType) -> None:
            with recorder.watching("user-written kernels"):
                kernel = module.UserDefinedTritonKernel
                lowered = _lowering(recorder, kernel.__init__, origins, current)
                patches.enter_context(patched(kernel, "__init__", lowered))
                # The code is written once for the kernel alone, or with what fusion added to it.
                for name, fused in (("codegen", False), (KERNEL_EPILOGUE.of(kernel), True)):
                    if name is not None:
                        write = _writing(getattr(kernel, name), current, fused=fused)
                        patches.enter_context(patched(kernel, name, write))

        def install_wrapper(module: ModuleType) -> None:
            with recorder.watching("the names of user-written kernels"):
                wrapper = module.PythonWrapperCodegen
                defined = _defining(recorder, wrapper.define_user_defined_triton_kernel, current)
                patches.enter_context(patched(wrapper, "define_user_defined_triton_kernel", defined))

        when("torch._higher_order_ops.triton_kernel_wrap", install_wrap)
        when("torch._inductor.ir", install_ir)
        when("torch._inductor.codegen.wrapper", install_wrapper)
        yield


def _analysing(original: Callable[..., Any], current: threading.local) -> Callable[..., Any]:
    """Keep the last result of the analysis, and why it failed."""

    def analyze(*args: Any, **kwargs: Any) -> Any:
        current.raised = ""
        found = original(*args, **kwargs)
        current.analysis = Analysis(found, current.raised)
        return found

    return analyze


def _calling(original: Callable[..., Any], origins: _Origins, current: threading.local) -> Callable[..., Any]:
    """Keep the kernel that the user called: torch calls this again for each copy that it makes."""

    def call(self: Any, variable: Any, *args: Any, **kwargs: Any) -> Any:
        outer = getattr(current, "called", None)
        current.called = variable.kernel if outer is None else outer
        origins.kernels[id(variable.kernel)] = current.called
        try:
            return original(self, variable, *args, **kwargs)
        finally:
            current.called = outer

    return call


def _storing(recorder: Recorder, original: Callable[..., Any], origins: _Origins) -> Callable[..., Any]:
    """Keep the op that a call belongs to, which only the stack shows."""

    def store(self: Any, *args: Any, **kwargs: Any) -> Any:
        stored = original(self, *args, **kwargs)
        with recorder.watching("which triton_op calls a kernel"):
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_name != _TRITON_OP:
                frame = frame.f_back
            if frame is not None:
                constants = side_table().get_constant_args(stored[1])
                origins.ops[stored[1]] = TritonOpCall(constants, frame.f_locals["op"]._name, frame.f_locals["fn"])
        return stored

    return store


def _lowering(
    recorder: Recorder, original: Callable[..., Any], origins: _Origins, current: threading.local
) -> Callable[..., Any]:
    def lower(self: Any, *args: Any, **kwargs: Any) -> None:
        # Torch asks for the analysis while it makes the node, so what is there afterwards belongs to it.
        current.analysis = None
        original(self, *args, **kwargs)
        with recorder.watching("a user-written kernel"):
            recorder.add(described(self, current.analysis, origins.kernels, origins.ops))

    return lower


def _writing(original: Callable[..., Any], current: threading.local, *, fused: bool) -> Callable[..., Any]:
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        current.writing = self, fused
        try:
            return original(self, *args, **kwargs)
        finally:
            current.writing = None

    return write


def _defining(recorder: Recorder, original: Callable[..., Any], current: threading.local) -> Callable[..., Any]:
    def define(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        writing = getattr(current, "writing", None)
        if writing is not None:
            with recorder.watching("the code of a user-written kernel"):
                kernel, fused = writing
                recorder.add(emitted(kernel, made[0], made[1], fused=fused))
        return made

    return define
