"""Record which backend compiled each graph.

Source: `OutputGraph.call_user_compiler` (2.13, _dynamo/output_graph.py:3046); the structured trace has the graph, but
not the name of its backend.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.node_lines import modules_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.capture.dynamo.eager_backend import RECORDED_AS
from ctrace.inspector.capture.dynamo.op_counts import OpCounter
from ctrace.inspector.facts.bytecode_facts import GraphMade, ModulesSeen

_CALLS = ("call_function", "call_method", "call_module")


def graphs(ops: OpCounter | None) -> Source:
    """Make the source that records each graph's backend and op count, and wraps the graph for `ops`."""

    @contextmanager
    def source(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:

            def install(_dynamo: ModuleType) -> None:
                from torch._dynamo.convert_frame import register_bytecode_hook
                from torch._dynamo.output_graph import OutputGraph

                def call(self: Any, gm: Any, example_inputs: Any) -> Any:
                    with recorder.watching("the modules of a graph"):
                        recorder.add(ModulesSeen(True, modules_of(gm.graph)))
                    with recorder.watching("a graph's backend"):
                        number = sum(node.op in _CALLS for node in gm.graph.nodes)
                        backend = _backend_name(self.compiler_fn)
                        recorder.add(GraphMade(backend, number, _wrapped_name(self)))
                    # After the records: the backend may change the graph, or fail.
                    compiled = original(self, gm, example_inputs)
                    if ops is None:
                        return compiled
                    return ops.wrap(compiled)

                with recorder.watching("graphs"):
                    original = patches.enter_context(patched(OutputGraph, "call_user_compiler", call))
                if ops is not None:
                    with recorder.watching("code without a graph"):
                        handle = register_bytecode_hook(lambda _code, new: ops.note_code(new))
                        patches.callback(handle.remove)

            when("torch._dynamo", install)
            yield

    return source


def _backend_name(compiler_fn: Any) -> str:
    while hasattr(compiler_fn, "_torchdynamo_orig_backend"):
        compiler_fn = compiler_fn._torchdynamo_orig_backend
    # For DDP, Dynamo calls a method of DDPOptimizer, which has the backend (2.11 to 2.13, backends/distributed.py).
    inner = getattr(getattr(compiler_fn, "__self__", None), "backend_compile_fn", None)
    if inner is not None:
        return _backend_name(inner)
    # torch.compile wraps a backend function (2.13, torch/__init__.py: `_TorchCompileWrapper`).
    ours = getattr(getattr(compiler_fn, "compiler_fn", compiler_fn), RECORDED_AS, None)
    name = ours or getattr(compiler_fn, "compiler_name", None) or getattr(compiler_fn, "__name__", None)
    return str(name or type(compiler_fn).__name__)


def _wrapped_name(output_graph: Any) -> str | None:
    """Return the name of what Dynamo's wrapper calls: the class of a torch container or layer, or a torch function.

    Source: `wrap_inline` (2.13, _dynamo/external_utils.py:62), whose only local is `fn`.
    """
    from torch.nn import Module

    called = output_graph.local_scope.get("fn")
    module = getattr(called, "__self__", called)
    if isinstance(module, Module):
        return type(module).__name__
    return getattr(called, "__name__", None)
