"""Record user-written Triton kernels in a compiled region, and how torch lowers each call.

Inductor makes one `UserDefinedTritonKernel` (2.11 and 2.13, _inductor/ir.py) for each call. Meanwhile, it asks
`identify_mutated_tensors` (2.11) or `identify_accessed_tensors` (2.13, _higher_order_ops/triton_kernel_wrap.py) which
arguments the kernel writes. If that analysis fails, it catches the exception, warns, and assumes that the kernel
writes every tensor. The hook replaces its logger, whose `warning` is called while the exception is being handled.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType, ModuleType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.user_kernels import (
    Configuration,
    Epilogue,
    Grid,
    Parameter,
    ParameterKind,
    TritonOp,
    UserKernel,
    UserKernelWritten,
)
from ctrace.inspector.knowledge.torch_names import KERNEL_ANALYSIS, KERNEL_EPILOGUE

_TRITON_OP = "functional_decomp"
"""The function with which AOTAutograd traces into a triton_op (2.11 and 2.13, _library/triton.py)."""
# Chosen: a constant of a kernel may be any object, whose text a table cuts anyway.
_LONG = 200
_LONGEST = 2000
"""Maximum characters to keep of the analysis's exception: Triton's compiler quotes the whole kernel."""
_SETTINGS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Settings of a triton.Config besides the kernel's arguments."""


class TritonOpCall(Struct, frozen=True):
    """A `triton_op`'s call of a kernel."""

    constants: Any
    """The call's constant arguments, as stored in torch's table."""
    name: str
    function: Any
    """The function that the user decorated."""


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
        # One level more, so that the warning has the line of torch that gives it, not ours.
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
                # Only here is the kernel's name in the wrapper chosen, and returned with what is fixed in it.
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
        if outer is None:
            current.called = variable.kernel
        else:
            current.called = outer
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
            # The tracer stands a few frames above, with the op and its function as local variables.
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


class Analysis(Struct, frozen=True):
    """Torch's analysis of what a kernel writes."""

    found: Any
    """A list of names (2.11), or `TensorAccesses` (2.13)."""
    raised: str
    """Why torch assumes that the kernel writes every tensor, or "" if it does not."""


def described(
    user: Any, analysis: Analysis | None, originals: Mapping[int, Any], ops: Mapping[int, TritonOpCall]
) -> UserKernel:
    """Describe a new `UserDefinedTritonKernel`: the kernel, its arguments, and what it writes."""
    from torch._inductor.virtualized import V

    node: Any = V.graph.current_node
    kernel, configs, restored, zeroed = user.get_kernel_and_metadata()
    registered = side_table().get_kernel(user.kernel_idx)
    chain = tuple(_chain(originals.get(id(registered), registered)))
    # `triton.autotune` may be outside or inside of `triton.heuristics`.
    tuner = next((each for each in chain if hasattr(each, "configs")), None)
    constants = node.kwargs["constant_args_idx"]
    op = ops.get(constants)
    if op is not None and op.constants is not side_table().get_constant_args(constants):
        op = None  # torch._dynamo.reset() restarts the numbers
    described_op = None
    if op is not None:
        described_op = _op(op)
    file, line = _defined_at(kernel)
    return UserKernel(
        stage=current_stage(),
        operation=user.get_operation_name(),
        kernel=kernel.__name__,
        file=file,
        line=line,
        stack=node.meta.get("stack_trace") or "",
        device=str(user.get_device()),
        decorators=tuple(type(each).__name__ for each in chain),
        parameters=tuple(_parameters(user, kernel, configs, analysis)),
        assumed=None if analysis is None else analysis.raised[:_LONGEST],
        all_grids=tuple(Grid(tuple(map(str, grid))) for grid in user.grid),
        all_configs=tuple(Configuration(_config(each)) for each in configs),
        key=tuple(map(str, getattr(tuner, "keys", None) or ())),
        # `triton.heuristics` keeps its functions by the names of the arguments that they compute.
        heuristics=tuple(name for each in chain for name in getattr(each, "values", None) or ()),
        restored=tuple(restored),
        zeroed=tuple(zeroed),
        flops=_has_formula(kernel),
        op=described_op,
    )


def emitted(user: Any, name: str, meta: Mapping[str, Any], *, fused: bool) -> UserKernelWritten:
    """Return a kernel's name in the wrapper, the values that are fixed in it, and whether its epilogue is fused."""
    return UserKernelWritten(
        stage=current_stage(),
        operation=user.get_operation_name(),
        name=name,
        constants={name: _text(value) for name, value in meta["constants"].items()},
        epilogue=Epilogue.FUSED if fused else _epilogue(user),
    )


def _epilogue(user: Any) -> Epilogue:
    """Return whether an epilogue can be fused: the conditions of `can_fuse_epilogue` in order (2.13, ir.py:7989)."""
    from torch._inductor import config

    if not hasattr(user, "can_fuse_epilogue"):
        return Epilogue.UNKNOWN_TO_TORCH
    if not user.arg_accesses.can_fuse_epilogue:
        return Epilogue.WRITES
    if len(user.kernel_stores.stores) != 1:
        return Epilogue.STORES
    if not config.epilogue_fusion_user_defined_triton_kernel:
        return Epilogue.SWITCHED_OFF
    if user.can_fuse_epilogue():
        return Epilogue.POSSIBLE
    return Epilogue.NOT_EMPTY


def _chain(kernel: Any) -> Iterator[Any]:
    """Return a kernel's decorators, outermost first, then the `JITFunction`."""
    while kernel is not None:
        yield kernel
        inner = getattr(kernel, "fn", None)
        # The `fn` of a `JITFunction` is the user's Python function, which has no `arg_names`.
        kernel = None
        if hasattr(inner, "arg_names"):
            kernel = inner


def side_table() -> Any:
    """Return torch's table of what a graph cannot contain: kernels and constant arguments, keyed by number."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table


def _defined_at(kernel: Any) -> tuple[str, int]:
    """Return the file and line of `def`; a code object starts at the first decorator."""
    code = kernel.fn.__code__
    source = getattr(kernel, "raw_src", None) or ()
    before = next((at for at, line in enumerate(source) if line.lstrip().startswith("def ")), 0)
    return code.co_filename, code.co_firstlineno + before


def _parameters(user: Any, kernel: Any, configs: Any, analysis: Analysis | None) -> Iterator[Parameter]:
    written, read = _accessed(analysis)
    tuned = {name for config in configs for name in config.kwargs}
    for parameter in kernel.params:
        name = parameter.name
        value = _described_tensor(user.kwargs.get(name))
        kind = _kind(name, value, user.kwargs, tuned, parameter.is_constexpr)
        text = dtype = ""
        shape: tuple[str, ...] = ()
        is_written = is_read = None
        if kind is ParameterKind.TENSOR:
            dtype = str(value.get_dtype()).removeprefix("torch.")
            shape = tuple(map(str, value.get_size()))
            is_written = None
            if written is not None:
                is_written = name in written
            is_read = None
            if read is not None:
                is_read = name in read
        elif name in user.kwargs:
            text = _text(value)
        yield Parameter(
            name=name,
            kind=kind,
            constexpr=bool(parameter.is_constexpr),
            value=text,
            dtype=dtype,
            shape=shape,
            written=is_written,
            read=is_read,
        )


def _described_tensor(value: Any) -> Any:
    """Return the tensor behind a TMA descriptor; return anything else unchanged."""
    if type(value).__name__.startswith("TMADescriptor"):
        return value.tensor
    return value


def _kind(name: str, value: Any, passed: Mapping[str, Any], tuned: set[str], is_constexpr: bool) -> ParameterKind:
    if hasattr(value, "get_dtype") and hasattr(value, "get_size"):
        return ParameterKind.TENSOR
    if name not in passed:
        if name in tuned:
            return ParameterKind.CONFIG
        return ParameterKind.DEFAULT
    if is_constexpr:
        return ParameterKind.CONSTANT
    if value is None:
        return ParameterKind.NONE
    return ParameterKind.NUMBER


def _accessed(analysis: Analysis | None) -> tuple[set[str] | None, set[str] | None]:
    """Return the names of written and of read arguments, or None if they are unknown."""
    if analysis is None:
        return None, None
    accesses = getattr(analysis.found, "read_writes", None)
    if accesses is None:
        return set(analysis.found), None
    # After a failed analysis, torch knows nothing of reads; what it assumes of writes is true of its code.
    written, read = ({access.name for access in each} for each in (accesses.writes, accesses.reads))
    return written, None if analysis.raised else read


def _config(config: Any) -> dict[str, str]:
    settings = {name: getattr(config, name, None) for name in _SETTINGS}
    return {name: _text(value) for name, value in {**config.kwargs, **settings}.items() if value is not None}


def _text(value: Any) -> str:
    return str(value)[:_LONG]


def _op(op: TritonOpCall) -> TritonOp:
    """Describe what is registered for a `triton_op` (2.11 and 2.13, _library/custom_ops.py)."""
    from torch._library.custom_ops import OPDEFS

    definition = OPDEFS[op.name]
    code = inspect.unwrap(op.function).__code__
    schema = definition._opoverload._schema
    return TritonOp(
        name=op.name,
        file=code.co_filename,
        line=code.co_firstlineno,
        fallbacks=tuple(str(device) for device in definition._backend_fns if device is not None),
        autograd=definition._backward_fn is not None,
        flops=_has_formula(definition._opoverload.overloadpacket),
        mutates=tuple(each.name for each in schema.arguments if each.alias_info and each.alias_info.is_write),
    )


def _has_formula(target: Any) -> bool:
    # Not an import: without it, nobody has registered a formula.
    counter = sys.modules.get("torch.utils.flop_counter")
    return counter is not None and target in counter.flop_registry
