"""Record the arguments of the kernel calls in a graph part's code, and torch's own count of kernels.

`GraphLowering.codegen` (2.11 and 2.13, _inductor/graph.py) writes the code of one part, in the program or in ctrace's
fork. The hook then records the layouts of its buffers and the sizes behind symbols, so that the reader can resolve
what each call passes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.facts.events.kernels import Layout, PartGenerated


@contextmanager
def outputs(recorder: Recorder, when: When, done: Callable[[], None]) -> Iterator[None]:
    """Record layouts and sizes for each part; call `done` after a part that is not nested in another one."""
    with ExitStack() as patches:
        depth = 0

        def install(module: ModuleType) -> None:
            from torch._inductor import metrics

            def codegen(graph: Any) -> Any:
                nonlocal depth
                before, depth = metrics.generated_kernel_count, depth + 1
                try:
                    result = original(graph)
                finally:
                    depth -= 1
                with recorder.watching("arguments of kernels"):
                    recorder.add(_described(graph, before, metrics.generated_kernel_count))
                if depth == 0:
                    done()
                return result

            original = patches.enter_context(patched(module.GraphLowering, "codegen", codegen))

        when("torch._inductor.graph", install)
        yield


def _described(graph: Any, before: int, counted: int) -> PartGenerated:
    sizes = _Sizes(graph.sizevars)
    buffers = (_layout(name, layout, sizes) for name, layout in dict(_layouts(graph)).items())
    known = tuple(each for each in buffers if each is not None)
    return PartGenerated(current_stage(), before, counted, known, sizes.table())


def _layouts(graph: Any) -> Iterator[tuple[str, Any]]:
    """Return each buffer's layout, and each constant, keyed by its name in the code."""
    yield from graph.constants.items()
    for name, buffer in (*graph.graph_inputs.items(), *graph.name_to_buffer.items()):
        layout = buffer.maybe_get_layout() if hasattr(buffer, "maybe_get_layout") else None
        if layout is not None:
            yield name, layout


def _layout(name: str, layout: Any, sizes: "_Sizes") -> Layout | None:
    """Return the layout of a buffer, or None if it has none or if sizes are unknown."""
    import torch

    if isinstance(layout, torch.Tensor):
        shape, stride, offset = sizes.all(layout.shape), sizes.all(layout.stride()), sizes.one(0)
    elif hasattr(layout, "size") and hasattr(layout, "dtype"):
        shape, stride, offset = sizes.all(layout.size), sizes.all(layout.stride), sizes.one(layout.offset)
    else:  # a node with several tensors, or with none
        return None
    if shape is None or stride is None or offset is None:
        return None
    return Layout(name, str(layout.dtype).removeprefix("torch."), shape, stride, offset, str(layout.device))


class _Sizes:
    """The values of symbols when the graph was compiled."""

    def __init__(self, sizevars: Any) -> None:
        self._known = sizevars.backed_var_to_val
        self._computed = sizevars.inv_precomputed_replacements

    def all(self, exprs: Iterable[Any]) -> tuple[int, ...] | None:
        numbers = [self.one(expr) for expr in exprs]
        known = tuple(number for number in numbers if number is not None)
        return known if len(known) == len(numbers) else None

    def one(self, expr: Any) -> int | None:
        if isinstance(expr, int) or expr.is_Integer:
            return int(expr)
        value = expr.xreplace(self._computed).xreplace(self._known)
        return int(value) if value.is_Integer else None

    def table(self) -> dict[str, int]:
        symbols = (*self._known, *self._computed)
        return {str(symbol): value for symbol in symbols if (value := self.one(symbol)) is not None}
