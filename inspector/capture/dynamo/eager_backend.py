"""A backend that runs graphs as Dynamo captured them (`tracing`), with the guards that Inductor would add.

For these, a graph goes through AOTAutograd and Inductor only as far as its guards need (`add_late_guards`). Both
specialize symbolic sizes: AOTAutograd while it traces, decompositions and passes while they compare sizes, and Inductor
while it lowers (`GraphLowering.run`) and schedules. Code generation comes next. Instrumenting every guard of `ShapeEnv`
in 40 models with changing sizes (torch 2.13, CPU) found one kind of guard that code generation adds: a C++ kernel asks
whether a float sum is longer than 4096 (_inductor/codegen/cpp.py: `need_use_acc_helper`). This module asks that
question for each sum of the schedule instead of generating its loops, which takes longer than all earlier steps.

For cases that the study does not cover, generate the code in memory and drop it: other devices, whose kernels bound
their index by 2**31 (codegen/simd.py: `check_leq`), templates, subgraphs, other versions of torch.

Torch checks the backend of a cache entry in addition to the guards; `other_backend` says whether it is that of a call.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.exception_text import class_name
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.unmet import Unmet
from ctrace.inspector.facts.run_events import InductorGuardsSeen
from ctrace.inspector.runs.capture_request import Options

KEPT = frozenset(
    (
        # Torch writes a file's name once per process, and its number in all other records: the name must not be lost
        # here.
        "str",
        "create_symbol",
        "create_unbacked_symbol",
        "symbolic_shape_specialization",
        "guard_added_fast",
        "compilation_metrics",
        "ctrace_problem",
        "ctrace_inductor_guards",
    )
)
"""The only records to write while a graph is lowered for its guards; its graphs and nodes are not needed."""
_STUDIED = "2.13."
"""Versions of torch whose code generation was searched for guards."""


def has_hinted_symbols(graph: Any) -> bool:
    """Whether a Dynamo graph has symbolic sizes or numbers with a value in this call.

    Only these can get a guard. A data-dependent symbol has no value yet: torch defers the question to run time, or
    fails. Check all nodes, because a float argument is an input tensor and becomes a symbol in an `.item()`.
    """
    import torch
    from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols

    # With the bodies of `torch.cond` and its like, which are modules of the graph.
    modules = [each for each in graph.modules() if isinstance(each, torch.fx.GraphModule)]
    values = (node.meta.get("example_value") for module in modules for node in module.graph.nodes)
    kinds = torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool
    return any(free_symbols(each) - free_unbacked_symbols(each) for each in _flat(values) if isinstance(each, kinds))


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


@contextmanager
def late_guards() -> Iterator[list[str]]:
    """Yield a list; fill it with the guards that the shape environment gains in the block, after Dynamo's."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    shape_env = None
    if context is not None and context.fake_mode is not None:
        shape_env = context.fake_mode.shape_env
    added: list[str] = []
    if shape_env is None:
        yield added
        return
    # Specializing a symbol may add a replacement without a guard.
    guards, fixed = len(shape_env.guards), set(shape_env.replacements)
    yield added
    added += [str(guard.expr) for guard in shape_env.guards[guards:]]
    added += [f"Eq({symbol}, {value})" for symbol, value in shape_env.replacements.items() if symbol not in fixed]


def add_late_guards(graph: Any) -> None:
    """Add the guards that code generation would add for `graph`, a `GraphLowering` that has run."""
    if not _is_studied(graph):
        graph.codegen_with_cpp_wrapper() if graph.cpp_wrapper else graph.codegen()
        return
    # The two steps of `GraphLowering.codegen` before it writes any loop (graph.py, 2.13).
    graph.init_wrapper_code()
    graph._update_scheduler()
    for node in graph.scheduler.nodes:
        for each in node.get_nodes():
            _add_sum_guards(each)


def _is_studied(graph: Any) -> bool:
    import torch
    from torch._inductor import config, ir

    if not torch.__version__.startswith(_STUDIED) or graph.cpp_wrapper or config.cpu_backend != "cpp":
        return False
    generated = (ir.TemplateBuffer, ir.UserDefinedTritonKernel)
    return graph.device_types <= {"cpu"} and not any(
        isinstance(operation, generated) or operation.get_subgraphs() for operation in graph.operations
    )


def _add_sum_guards(node: Any) -> None:
    """Evaluate the condition of `CppKernel.reduction` for a scheduled node's sums, which adds its guards."""
    from types import SimpleNamespace

    from torch._inductor.codegen.cpp import CppKernel

    if not node.is_reduction() or not hasattr(node, "_body"):
        return
    ranges, reduced = node.group[1]
    # All that `need_use_acc_helper` reads (2.13); a real kernel would begin to generate code.
    kernel: Any = SimpleNamespace(call_ranges=(*ranges, *reduced), reduction_depth=len(ranges))
    for kind, dtype in _reductions(node._body):
        CppKernel.need_use_acc_helper(kernel, kind, dtype, use_scalar=True)


def _reductions(body: Any) -> Iterator[tuple[str, Any]]:
    """Return the kind and dtype of each reduction in a loop's body; C++ sums half precision as float.

    Source: `CppKernelProxy.legalize_lowp_fp_dtype_loopbody` (2.13, _inductor/codegen/cpp.py).
    """
    import torch

    for block in (body.root_block, *body.subblocks.values()):
        for node in block.graph.nodes:
            if node.target == "reduction":
                _ops, dtype, source, kind, _value = node.args
                half = (torch.bfloat16, torch.float16)
                yield kind, torch.float if dtype in half and source in half else dtype


RUNNER = "ctrace_runner"
"""The key in a graph module's `meta` of a function that gets what runs the graph, and returns what runs in its place.

Under `--fake`, the code of a graph may need values that do not exist.
"""
RECORDED_AS = "ctrace_recorded_as"
"""The attribute with the name of ctrace's backend in the log."""


def tracing(options: Options, recorder: Recorder) -> Callable[[Any, Any], Any]:
    """Make a backend that runs graphs unchanged, like torch's `eager` (_dynamo/backends/debugging.py:53, 2.13).

    A graph with symbolic sizes is first lowered for the guards that Inductor adds, unless `options` disables that.
    """

    def backend(graph: Any, inputs: Any) -> Any:
        if not has_hinted_symbols(graph):
            return runner_of(graph)
        if not options.inductor_guards:
            recorder.add(InductorGuardsSeen(seen=False, added=()))
            return runner_of(graph)
        return _lowered(graph, inputs, options, recorder)

    backend.__name__ = "inductor"  # the name that Dynamo shows if lowering fails, as in a full compilation
    setattr(backend, RECORDED_AS, "eager")
    return backend


def runner_of(graph: Any, run: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return the function that runs a graph; `run` would, if values exist (default: the graph's code)."""
    plain: Callable[..., Any] = run or graph.forward
    replacing: Callable[[Callable[..., Any]], Callable[..., Any]] | None = graph.meta.get(RUNNER)
    if replacing is None:
        return plain
    return replacing(plain)


@contextmanager
def every_backend_traces(options: Options, recorder: Recorder) -> Iterator[None]:
    """Let a program's torch.compile run its graphs as Dynamo captured them, whatever backend and mode it names.

    torch.compile ends in torch._dynamo.optimize, with the backend as an argument (2.13, torch/__init__.py:2836).
    """
    import torch._dynamo

    original = torch._dynamo.optimize

    # The backend may come by position or by name.
    def optimize(*args: Any, **kwargs: Any) -> Any:
        kwargs = {name: value for name, value in kwargs.items() if name != "backend"}
        return original(tracing(options, recorder), *args[1:], **kwargs)

    with patched(torch._dynamo, "optimize", optimize):
        yield


def _lowered(graph: Any, inputs: Any, options: Options, recorder: Recorder) -> Any:
    """Lower a graph and record the guards that this adds; a failure reaches the program, as with torch.compile."""
    import torch

    inductor = torch._TorchCompileInductorWrapper(options.mode, None, options.dynamic)
    with recorder.keeping(KEPT), late_guards() as added:
        eager = inductor(graph, inputs)
    recorder.add(InductorGuardsSeen(seen=True, added=tuple(added)))
    return eager


def other_backend(before: Any, now: Any) -> list[Unmet]:
    """Describe how backends differ, in torch's words (`BACKEND_MATCH failure`, guards.py, 2.11 to 2.13), if they do."""
    # Torch compares wrappers of backends by what they were made with, not by identity.
    if now is None or before is None or before == now:
        return []
    return [Unmet("BACKEND_MATCH failure", now=_named(now), was=_named(before))]


def _named(backend: Any) -> str:
    """Return a backend's name and options as they were passed to torch.compile."""
    name = getattr(backend, "compiler_name", None) or getattr(backend, "__qualname__", None)
    values = {
        "dynamic": getattr(backend, "dynamic", None),
        **_options(getattr(backend, "kwargs", None)),
        **_options(getattr(backend, "config", None)),
    }
    options = ", ".join(f"{key}={value!r}"[:80] for key, value in values.items() if value is not None)
    text = str(name or class_name(type(backend)))
    if options:
        return f"{text} ({options})"
    return text


def _options(options: Any) -> dict[str, Any]:
    """Keep options that are plain values."""
    plain = {}
    if isinstance(options, dict):
        plain = options
    return {str(key): value for key, value in plain.items() if isinstance(value, bool | int | float | str)}
