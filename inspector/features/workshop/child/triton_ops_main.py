"""The child process of `ctrace kernels wrap`: run the model to see a launch, write the operator, and check it.

What a launch writes to is torch's answer, which reads Triton's intermediate code: `identify_mutated_tensors` (2.11) or
`identify_accessed_tensors` (2.13, _higher_order_ops/triton_kernel_wrap.py). If the analysis fails, torch warns and
assumes that the kernel writes every tensor; that is no answer here.
"""

import ast
import importlib.util
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.capture.calls.model_files import load
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.comparing.state_copies import copied
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.kernels.compile_driver import Driver
from ctrace.inspector.capture.kernels.interpreted import run_interpreted
from ctrace.inspector.features.workshop.child.checks import watched, wrong_access
from ctrace.inspector.features.workshop.kernel_functions import cpu_branch
from ctrace.inspector.features.workshop.kernel_reading import kernel_named, launches_of, parsed
from ctrace.inspector.features.workshop.triton_op_model import (
    OperatorCheck,
    Wrapped,
    WrapRequest,
    WrapResult,
    limits_of,
)
from ctrace.inspector.features.workshop.triton_op_writing import wrapped
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named
from ctrace.inspector.knowledge.torch_names import KERNEL_ANALYSIS
from ctrace.inspector.runs.capture_request import CaptureRequest

# Chosen: the first lines of an exception; a screen has one line for it.
_LONG = 300
_CLOSE = 1e-5
"""The largest relative difference between the interpreter and PyTorch: both compute float32, in another order."""
_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def main(loaded: frozenset[str]) -> None:
    """Carry out the request."""
    preloaded = Preloaded(loaded)
    answer(WrapRequest, lambda request: _result(request, preloaded))


def _result(request: WrapRequest, preloaded: Preloaded) -> WrapResult:
    file = parsed(Path(request.file))
    kernel = kernel_named(file, request.kernel)
    limits = limits_of(kernel, launches_of(file, kernel)[0])
    draft = wrapped(file, request.kernel)
    if not request.is_model:
        why = f"not run: {Path(request.file).name} defines no model and inputs that launch the kernel"
        return WrapResult(draft, limits, (OperatorCheck("the operator", None, why),))
    seen = _Seen(draft.function, request.kernel)
    checks = [_check("the model runs in eager", lambda: _run_model(request, preloaded, seen))]
    if seen.call is None and seen.launch is None:
        why = f"not run: the model did not launch {request.kernel} with these inputs"
        return WrapResult(draft, limits, (*checks, OperatorCheck("the operator", None, why)))
    found = _path(draft, seen)
    checks += [] if found is None else [found]
    types, names = {}, None
    if seen.launch is not None:
        types = {name: _TYPES[type(each)] for name, each in seen.launch.named.items() if type(each) in _TYPES}
        names, why = written_by(seen.launch.kernel, seen.launch.named)
        checks.append(_compared_with_source(kernel.written, names, why))
    final = wrapped(file, request.kernel, names, types)
    return WrapResult(final, limits, (*checks, *_checks(final, seen)))


class Launched(Struct, frozen=True):
    """One launch of the kernel, with its arguments by name."""

    kernel: Any
    named: dict[str, Any]


class _Seen(Struct):
    """What was seen while the model ran."""

    function: str
    kernel: str
    call: Call | None = None
    """The first call of the function that launches the kernel."""
    launch: Launched | None = None
    failures: list[str] = field(default_factory=list)
    configuration: int = 0
    """Which configuration of an autotuned kernel runs in the interpreter."""
    configurations: int = 1
    """How many the kernel has."""


def _check(what: str, work: Callable[[], None]) -> OperatorCheck:
    try:
        work()
    except Exception as error:
        return OperatorCheck(what, False, kind_and_message(error)[:_LONG])
    return OperatorCheck(what, True)


def _run_model(request: WrapRequest, preloaded: Preloaded, seen: _Seen) -> None:
    import torch

    capture = CaptureRequest("model", request.file, None, None, (), request.options, log="")
    loaded = load(capture, preloaded)
    module = sys.modules[Path(request.file).stem]
    call = next(iter(loaded.scenarios.values())).make()
    with _recording(module, seen), torch.no_grad():
        loaded.model(*call.args, **call.kwargs)


@contextmanager
def _recording(module: ModuleType, seen: _Seen) -> Iterator[None]:
    """Keep the first call of the user's function and the first launch of the kernel."""
    original = getattr(module, seen.function, None)

    def recorded(*args: Any, **kwargs: Any) -> Any:
        if seen.call is None:
            seen.call = copied(Call(args, kwargs))
        return original(*args, **kwargs)  # type: ignore[misc]

    with _launches(seen):
        if callable(original):
            with patched(module, seen.function, recorded):
                yield
        else:
            yield


@contextmanager
def _launches(seen: _Seen) -> Iterator[None]:
    """Record launches of the kernel; where its tensors are on the CPU, run them in the interpreter."""
    from triton.runtime import autotuner, jit

    run = jit.JITFunction.run

    def launched(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        # The first launch is enough: later ones differ in values, and not in what the kernel takes.
        if seen.launch is None and self.fn.__name__ == seen.kernel:
            seen.launch = Launched(self, {name: value for name, value in named.items() if name in self.arg_names})
        if _has_cuda(named):
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        with watched((*args, *kwargs.values())):
            return run_interpreted(self, args, kwargs, grid)

    tune = autotuner.Autotuner.run

    def untuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _has_cuda(dict(enumerate(args))) or not self.configs:
            return tune(self, *args, **kwargs)
        seen.configurations = max(seen.configurations, len(self.configs))
        return self.fn.run(*args, **kwargs, **self.configs[seen.configuration % len(self.configs)].all_kwargs())

    with patched(jit.JITFunction, "run", launched), patched(autotuner.Autotuner, "run", untuned):
        yield


def _has_cuda(values: dict[Any, Any]) -> bool:
    import torch

    return any(isinstance(each, torch.Tensor) and each.is_cuda for each in values.values())


def _path(draft: Wrapped, seen: _Seen) -> OperatorCheck | None:
    """Run the kernel's side of the function on the CPU, in the interpreter, and compare it with the user's branch."""
    if seen.call is None or draft.cpu != "branch":
        return None
    what = "the kernel, in Triton's interpreter, equals the function's branch for the CPU"
    try:
        module = _imported(draft, "draft")
        kernel_side, branch = _without_branch(module, draft), getattr(module, draft.function)
        call = _on_cpu(copied(seen.call))
        other = branch(*copied(call).args, **copied(call).kwargs)
        checks = []
        for number in range(seen.configurations):
            seen.configuration, again = number, copied(call)
            with _launches(seen):
                checks.append(_equal(what, kernel_side(*again.args, **again.kwargs), other))
        return next((each for each in checks if not each.passed), checks[0])
    except Exception as error:
        if wrong := wrong_access(error):
            return OperatorCheck(what, False, wrong)
        return OperatorCheck(what, None, f"not checked: {kind_and_message(error)[:_LONG]}")


def _without_branch(module: ModuleType, draft: Wrapped) -> Any:
    """Return the operator's function without the branch for the CPU."""
    tree = ast.parse(draft.source)
    node = next(
        each
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and each.name == draft.function and each.decorator_list
    )
    branch = cpu_branch(node)
    # Without its branch for the CPU and its decorators, the function does what the program's own code did.
    node.body, node.decorator_list = [each for each in node.body if each is not branch], []
    names: dict[str, Any] = dict(vars(module))
    # Here nothing traces the launch, so that wrapping it for a trace would only be in the way.
    names["wrap_triton"] = lambda kernel: kernel
    exec(compile(ast.fix_missing_locations(ast.Module([node], [])), "<the kernel's side>", "exec"), names)
    return names[draft.function]


def _on_cpu(call: Call) -> Call:
    import torch
    from torch.utils import _pytree

    args, kwargs = _pytree.tree_map_only(torch.Tensor, lambda each: each.detach().cpu(), (call.args, call.kwargs))
    return Call(args, kwargs)


def _equal(what: str, one: Any, other: Any) -> OperatorCheck:
    import torch
    from torch.utils import _pytree

    largest = 0.0
    for left, right in zip(_pytree.tree_leaves(one), _pytree.tree_leaves(other), strict=True):
        if isinstance(left, torch.Tensor):
            if left.shape != right.shape or left.dtype != right.dtype:
                return OperatorCheck(
                    what, False, f"{left.dtype}{list(left.shape)} and {right.dtype}{list(right.shape)}"
                )
            first, second = left.double().cpu(), right.double().cpu()
            differs = (first != second) & ~(first.isnan() & second.isnan())
            gap = torch.where(differs, (first - second).abs(), 0.0).nan_to_num(nan=float("inf"))
            most = 0.0
            if second.isfinite().any():
                most = float(second[second.isfinite()].abs().max())
            largest = max(largest, float(gap.max()) / (most or 1.0) if gap.numel() else 0.0)
    return OperatorCheck(what, largest <= _CLOSE, f"largest relative difference {largest:.1e}")


def _compared_with_source(source: tuple[str, ...], seen: tuple[str, ...] | None, why: str) -> OperatorCheck:
    what = "Triton's analysis and the source agree on what the kernel writes"
    if seen is None:
        return OperatorCheck(what, None, f"not checked, the source decides: {why}")
    named = f"Triton: {', '.join(seen) or 'nothing'}; source: {', '.join(source) or 'nothing'}"
    return OperatorCheck(what, set(source) == set(seen), named)


_numbered = iter(range(1, 100))
_folder = tempfile.TemporaryDirectory(prefix="ctrace-")


def _imported(written: Wrapped, name: str) -> ModuleType:
    """Import what was written, from a file: Triton reads the source of kernels. The operator gets a name of its own."""
    space = written.name.partition("::")[0]
    # A number, because torch refuses to register a name twice in a process.
    own = f"{space}_{name}_{next(_numbered)}"
    text = written.source.replace(f'"{space}::', f'"{own}::').replace(f"torch.ops.{space}.", f"torch.ops.{own}.")
    file = Path(_folder.name) / f"{own}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(own, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    spec.loader.exec_module(module)
    return module


def _checks(written: Wrapped, seen: _Seen) -> Iterator[OperatorCheck]:
    """Check the operator with the arguments of the user's own call."""
    import torch

    what = "the written file imports"
    try:
        module = _imported(written, "final")
    except Exception as error:
        yield OperatorCheck(what, False, kind_and_message(error)[:_LONG])
        return
    yield OperatorCheck(what, True)
    op = getattr(module, written.function)
    call = _call_of(written, seen)
    if call is None:
        yield OperatorCheck("the operator", None, "not run: no call of it was seen")
        return
    if written.cpu == "interpreter" and not _has_cuda(dict(enumerate(call.args))):
        yield _check(f"the operator runs on the CPU, through Triton's interpreter, on {_sizes(call)}",
                     lambda: op(*copied(call).args, **call.kwargs))  # fmt: skip

    def registered() -> None:
        torch.library.opcheck(op, copied(call).args, copied(call).kwargs)

    yield _check("torch.library.opcheck", registered)

    def compiled() -> None:
        torch._dynamo.reset()
        # This traces as for Inductor, but needs no compiler for kernels, and so no GPU.
        function = torch.compile(lambda *args, **kwargs: op(*args, **kwargs), fullgraph=True, backend="aot_eager")
        first, second = copied(call), copied(call)
        found, expected = function(*first.args, **first.kwargs), op(*second.args, **second.kwargs)
        check = _equal("", (found, first.args), (expected, second.args))
        if not check.passed:
            raise AssertionError(check.detail)

    yield _check("torch.compile(fullgraph=True) takes it, with equal results", compiled)


def _sizes(call: Call) -> str:
    import torch

    shapes = [list(each.shape) for each in (*call.args, *call.kwargs.values()) if isinstance(each, torch.Tensor)]
    return ", ".join(map(str, shapes)) or "no tensors"


def _call_of(written: Wrapped, seen: _Seen) -> Call | None:
    """Return the arguments of the operator: those of the user's function, or of the launch alone."""
    if written.returns != "None" or seen.launch is None:
        if seen.call is None:
            return None
        return copied(seen.call)
    tree = ast.parse(written.source)
    node = next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == written.function)
    names = [each.arg for each in node.args.args]
    if set(names) <= set(seen.launch.named):
        return copied(Call(tuple(seen.launch.named[name] for name in names), {}))
    if seen.call is None:
        return None
    return copied(seen.call)


_WITHOUT_GPU = "h100"
"""The GPU whose intermediate code is read where there is none; what a kernel writes does not depend on it."""


def written_by(kernel: Any, named: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, str]:
    """Return the parameters that a launch writes to, or None and why torch cannot tell."""
    import torch
    from torch._higher_order_ops import triton_kernel_wrap

    analyze = getattr(triton_kernel_wrap, KERNEL_ANALYSIS.needed_of(triton_kernel_wrap))
    there: AbstractContextManager[None] = nullcontext()
    if not torch.cuda.is_available():  # Triton asks its driver for a target even to analyze a kernel
        there = Driver(gpu_named(_WITHOUT_GPU)).active()
    with there, _warnings() as warned:
        try:
            found = analyze(kernel, dict(named), {})
        except Exception as error:
            return None, kind_and_message(error)[:200]
    if warned:
        return None, warned[0]
    if isinstance(found, list | tuple | set):
        names = found
    else:
        names = [each.name for each in found.read_writes.writes]
    return tuple(name for name in kernel.arg_names if name in set(names)), ""


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Keep torch's warnings about the analysis instead of printing them."""
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = None
            if record.exc_info:
                error = record.exc_info[1]
            found.append(kind_and_message(error)[:200] if error is not None else record.getMessage()[:200])

    log = logging.getLogger("torch._higher_order_ops.triton_kernel_wrap")
    kept, propagates = Kept(logging.WARNING), log.propagate
    log.addHandler(kept)
    # The warnings belong to the report: a handler of the program would print them, too.
    log.propagate = False
    before, log.handlers = log.handlers, [kept]
    try:
        yield found
    finally:
        log.handlers = [each for each in before if each is not kept]
        log.propagate = propagates
