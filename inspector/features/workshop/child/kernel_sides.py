"""Call the side of an operator that launches its kernel (`called`), and compare its outputs with those of its
definition.

It runs on the GPU, or in Triton's interpreter where there is none. The interpreter lacks CUDA's math library: its
functions return nothing there, so code for the CPU replaces them. A value in the interpreter is a `tl.tensor` around a
`TensorHandle` with a NumPy array (3.6 and 3.7, triton/runtime/interpreter.py). NumPy computes in the array's dtype, as
the library does.

Outputs are compared on the inputs of one size class (`compared`). A kernel that does not end is ended with its process
(`limited`): nothing else can end it, whether it runs on a GPU or in an interpreter.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.calls.answering import answer_now
from ctrace.inspector.capture.comparing.precision import precision_of
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.kernels.interpreted import run_interpreted
from ctrace.inspector.features.workshop.child.checks import (
    configurations,
    guarded_call,
    launched,
    layout_of,
    watched,
    with_configuration,
)
from ctrace.inspector.features.workshop.child.elements import finite, first_difference, noise_of
from ctrace.inspector.features.workshop.child.importing import Case, Operator, outputs
from ctrace.inspector.features.workshop.child.recorded_launches import (
    absent,
    compiled,
    configuration_of,
    configuration_of_all,
    launches_of,
)
from ctrace.inspector.features.workshop.package_model import Element, KernelConfiguration, Sizes
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named

_MOST_VALUES = 1 << 18
"""Above this many values, the interpreter would take longer than a person waits."""


def interpreted(kernel: Any, grid: Any, args: tuple[Any, ...], config: Any) -> None:
    """Launch a kernel in Triton's interpreter with one configuration."""
    with on_cpu(), watched(args):
        run_interpreted(
            kernel, args, {} if config is None else dict(config.kwargs), grid, math.inf
        )  # `limited` ends it


class OperatorOutcome(Struct, frozen=True):
    """What a call of an operator returned, and what it ran."""

    value: Any
    kind: str
    """`gpu`, `cpu` for a kernel in C++, `interpreter` or `fallback`."""
    note: str = ""
    raised: str = ""
    is_outside: bool = False
    """Whether the kernel read or wrote what it must not; `note` says what."""


def called_each(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[OperatorOutcome]:
    """Call an operator with each configuration of its kernel; once where the kernel does not run."""
    for number in range(configurations(operator.kernel)):
        found = called(operator, args, kwargs, number)
        yield found
        if found.kind in ("fallback", "cpu"):
            return


def called(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any], number: int) -> OperatorOutcome:
    """Call an operator so that its kernel runs, if it can run here, with guards around its tensors.

    Args:
        number: which of the kernel's configurations to run.
    """
    import torch

    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    # In this order: first what the package itself leaves to its definition, then what runs at full speed.
    if not _covers(operator, args):
        return guarded(operator.definition._init_fn, "fallback", args, kwargs, "the kernel does not take these sizes")
    if operator.is_cpp and operator.module.is_supported() and all(each.device.type == "cpu" for each in tensors):
        return guarded(operator.definition._init_fn, "cpu", args, kwargs)
    if any(each.is_cuda for each in tensors):
        if operator.kernel is None:
            return guarded(operator.definition._init_fn, "gpu", args, kwargs)
        fixed = with_configuration(operator.kernel, number, launched)
        return guarded(partial(operator.module.run_kernel, fixed), "gpu", args, kwargs)
    reason = _not_interpreted(operator, tensors)
    if not reason:
        run = partial(operator.module.run_kernel, with_configuration(operator.kernel, number, interpreted))
        found = guarded(run, "interpreter", args, kwargs)
        if not found.raised:
            return found
        # Only after an error: compiling takes longer than the interpreter.
        if why := _does_not_compile(operator, args, number):
            return OperatorOutcome(None, "interpreter", raised=why)
        reason = f"Triton's interpreter: {found.raised}"
    return guarded(operator.definition._init_fn, "fallback", args, kwargs, reason)


def _does_not_compile(operator: Operator, args: Sequence[Any], number: int) -> str:
    """Return what Triton's compiler says against the kernels; empty if it takes them.

    The interpreter lacks parts of the language, so what it raises does not say that a kernel is wrong.
    """
    from triton.errors import TritonError

    try:
        # Compiling needs the name of a GPU and not the GPU, and an error in the kernel's own code is the same for each.
        with absent(gpu_named("h100")):
            for kernel, _, passed in launches_of(operator, args):
                configs = getattr(kernel, "configs", None)
                compiled(
                    kernel,
                    passed,
                    configuration_of(configs[number % len(configs)]) if configs else KernelConfiguration({}, 4, 1),
                )
    # What code of a kernel can raise while it is compiled; anything else is of the machine or of this Triton.
    except (TritonError, TypeError, NameError, AttributeError, LookupError, ValueError) as error:
        return f"it does not compile: {kind_and_message(error)}"[:600]
    except (RuntimeError, OSError, ImportError):  # this Triton cannot compile for the GPU
        return ""
    return ""


def _covers(operator: Operator, args: Sequence[Any]) -> bool:
    covers = getattr(operator.module, "covers", None)
    return covers is None or bool(covers(*args))


def _not_interpreted(operator: Operator, tensors: list[Any]) -> str:
    if not operator.kernels or not hasattr(operator.module, "run_kernel"):
        return "the package has no run_kernel and no Triton kernel beside its operator"
    values = sum(each.numel() for each in tensors)
    if values > _MOST_VALUES:
        return f"{values:,} values are too many for Triton's interpreter"
    return ""


def guarded(
    function: Callable[..., Any], kind: str, args: Sequence[Any], kwargs: dict[str, Any], note: str = ""
) -> OperatorOutcome:
    """Call a function with guards around its tensors, and keep what it raises."""
    try:
        value, outside = guarded_call(function, list(args), kwargs)
    except Exception as error:
        return OperatorOutcome(None, kind, raised=kind_and_message(error)[:300])
    return OperatorOutcome(value, kind, outside or note, is_outside=bool(outside))


_NUMPY = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "ceil": "ceil", "copysign": "copysign", "cos": "cos", "cosh": "cosh", "exp": "exp",
    "exp2": "exp2", "expm1": "expm1", "floor": "floor", "fmod": "fmod", "hypot": "hypot", "log": "log",
    "log10": "log10", "log1p": "log1p", "log2": "log2", "pow": "power", "rint": "rint", "nearbyint": "rint",
    "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
"""Functions of the library, and NumPy's names for them."""
_ELEMENTWISE: dict[str, Callable[[float], float]] = {"erf": math.erf, "erfc": math.erfc}


@contextmanager
def on_cpu() -> Iterator[None]:
    """Let kernels in the interpreter call the library in the block."""
    import numpy
    from triton.language.extra import libdevice

    functions = {name: getattr(numpy, of) for name, of in _NUMPY.items()}
    # Without its type, NumPy calls the function once more to find it out, and fails for no elements.
    functions |= {name: numpy.vectorize(of, otypes=[float]) for name, of in _ELEMENTWISE.items()}
    functions["rsqrt"] = lambda x: 1 / numpy.sqrt(x)
    with ExitStack() as patches:
        for name, function in functions.items():
            # The library's functions differ between versions of Triton.
            if hasattr(libdevice, name):
                patches.enter_context(patched(libdevice, name, _interpreted(function)))
        yield


def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any, _semantic: Any = None, _builder: Any = None) -> Any:
        import numpy
        from triton import language as tl
        from triton.runtime.interpreter import TensorHandle

        first = next(each for each in values if isinstance(each, tl.tensor))
        arrays = [each.handle.data if isinstance(each, tl.tensor) else each for each in values]
        with numpy.errstate(all="ignore"):
            # Back to the dtype of the argument, as NumPy may compute some in float64.
            found = numpy.asarray(function(*arrays)).astype(first.handle.data.dtype)
        return tl.tensor(TensorHandle(found, first.handle.dtype), first.type)

    return call


def compared(operator: Operator, case: Case, found: OperatorOutcome) -> Sizes:
    """Return whether an outcome is right, with the first value that differs."""
    check = Sizes(
        operator.name.rpartition("::")[2],
        case.name,
        found.kind,
        equal=False,
        largest=None,
        note=found.raised or found.note,
        inputs=case.kind,
        configuration="" if found.kind in ("fallback", "cpu") else configuration_of_all(operator, case.configuration),
    )
    if found.raised:
        return check
    if found.is_outside:
        other = found.note
    else:
        other = _other_tensors(operator, case, found)
    if other:
        return replace(check, note=other)
    largest, wrong = difference(case, found.value)
    if wrong is not None and case.kind:  # with unusual values, the definition's own rounding may be as large
        largest, wrong = difference(case, found.value, case.plain())
    return replace(check, equal=wrong is None, largest=finite(largest), wrong=wrong)


def _other_tensors(operator: Operator, case: Case, found: OperatorOutcome) -> str:
    """Say which output is another kind of tensor than compiled code expects of the operator; empty if none is."""
    # The fallback is the definition itself.
    if found.kind == "fallback":
        return ""
    wanted, values = outputs(operator.module.run_definition(*case.args)), outputs(found.value)
    if len(wanted) != len(values):
        return f"the kernel returns {len(values)} tensors, the definition {len(wanted)}"
    for number, (one, other) in enumerate(zip(wanted, values, strict=True)):
        expected, made = layout_of(one), layout_of(other)
        if expected != made:
            return f"output {number} is {' '.join(made)}, the definition's {' '.join(expected)}"
    return ""


def difference(case: Case, value: Any, plain: tuple[Any, ...] = ()) -> tuple[float, Element | None]:
    """Return the largest relative difference from the definition, and the first value that differs.

    Args:
        plain: what the definition returns in the inputs' own dtypes, whose rounding errors do not count.
    """
    largest, wrong = 0.0, None
    values = outputs(value)
    for number, (expected, found) in enumerate(zip(case.expected, values, strict=True)):
        title = "the output"
        if len(values) != 1:
            title = f"output {number}"
        # The definition computes in float64, the kernel rounds its result to its own dtype.
        precision = precision_of(found.dtype)
        least = 0.0
        if precision is not None:
            least = 2 * precision.largest
        noise = 0.0
        if plain:
            noise = noise_of(plain[number], expected)
        by, element = first_difference(title, expected.to(found.device), found, relative=least, noise=noise)
        largest = max(largest, by)
        wrong = wrong or element
    return largest, wrong


_LONGEST = threading.TIMEOUT_MAX


@contextmanager
def limited(seconds: float, late: Callable[[], Struct]) -> Iterator[None]:
    """End this process with the answer `late()` if the block takes longer than some seconds."""
    timer = threading.Timer(min(seconds, _LONGEST), lambda: answer_now(late()))
    # A check that hangs must not keep the process, once its main thread is done.
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def too_long(seconds: float) -> str:
    """Say that a kernel was ended."""
    return f"no result within {seconds:g} s; if it only needs longer, allow more with --timeout SECONDS"
