"""Take a graph through AOTAutograd and Inductor only as far as its guards need.

Both specialize symbolic sizes: AOTAutograd while it traces, decompositions and passes while they compare sizes, and
Inductor while it lowers (`GraphLowering.run`) and schedules. Code generation comes next. Instrumenting every guard of
`ShapeEnv` in 40 models with changing sizes (torch 2.13, CPU) found one kind of guard that code generation adds: a C++
kernel asks whether a float sum is longer than 4096 (_inductor/codegen/cpp.py: `need_use_acc_helper`). This module asks
that question for each sum of the schedule instead of generating its loops, which takes longer than all earlier steps.

For cases that the study does not cover, generate the code in memory and drop it: other devices, whose kernels bound
their index by 2**31 (codegen/simd.py: `check_leq`), templates, subgraphs, other versions of torch.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

KEPT = frozenset(
    (
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
    shape_env = context.fake_mode.shape_env if context is not None and context.fake_mode is not None else None
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
