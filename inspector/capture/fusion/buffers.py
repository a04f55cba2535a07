"""The buffers of a graph part: their layouts, roles and sizes."""

from collections.abc import Iterable
from typing import Any

from ctrace.inspector.capture.fusion.extents import Pattern, of_layout


class Buffers:
    """Looks up buffers by the scheduler's names, each once."""

    def __init__(self, scheduler: Any) -> None:
        from torch._inductor.virtualized import V

        self._real: dict[str, str] = scheduler.mutation_real_name
        self._layouts: dict[str, Any] = {}
        self._whole: dict[str, Pattern] = {}
        self._parts: dict[frozenset[Pattern], int] = {}
        self._graph = V.graph

    def real(self, name: str) -> str:
        """Give the name of the storage that a buffer is: its own, what it changes in place, what it is a part of."""
        name = self._real.get(name, name)
        holder = getattr(self._layout(name), "view", None)  # a NonOwningLayout: one part of what `cat` puts together
        return holder.get_name() if holder is not None else name

    def whole(self, name: str) -> Pattern:
        """Give all elements of a buffer; none for one that is no tensor."""
        name = self.real(name)
        if name not in self._whole:
            layout = self._layout(name)
            self._whole[name] = (
                Pattern(0, 0) if layout is None else of_layout(layout.size, layout.stride, layout.offset)
            )
        return self._whole[name]

    def size(self, name: str, patterns: Iterable[Pattern]) -> int:
        """Give the bytes of some elements of a buffer, at most all that it has."""
        layout = self._layout(name)
        if layout is None:
            return 0
        elements = min(sum(pattern.elements for pattern in patterns), self.whole(name).elements)
        return int(elements * layout.dtype.itemsize)

    def part(self, patterns: Iterable[Pattern]) -> int:
        """Give a number for some elements, the same for the same."""
        return self._parts.setdefault(frozenset(patterns), len(self._parts))

    def outputs(self) -> list[str]:
        """Name what the graph part gives back: its results, and the inputs that it changes."""
        names = [*self._graph.get_output_names(), *self._graph.mutated_inputs]
        return list(dict.fromkeys(name for each in names if self._layout(name := self.real(each)) is not None))

    def inputs(self) -> list[str]:
        """Name the tensors that the graph part is called with."""
        return [name for name in self._graph.graph_inputs if self._layout(name) is not None]

    def table(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """Describe buffers."""
        given, back = {*self._graph.graph_inputs, *self._graph.constants}, set(self.outputs())
        return [self._describe(name, given, back) for name in names]

    def _describe(self, name: str, given: set[str], back: set[str]) -> dict[str, Any]:
        layout = self._layout(name)
        role = "input" if name in given else "output" if name in back else "inner"
        if layout is None:
            return {"name": name, "role": role, "dtype": "", "shape": [], "stride": [], "device": "", "bytes": None}
        return {
            "name": name,
            "role": role,
            "dtype": str(layout.dtype).removeprefix("torch."),
            "shape": [str(size) for size in layout.size],
            "stride": [str(stride) for stride in layout.stride],
            "device": str(layout.device),
            "bytes": None if _depends_on_data(layout) else self.whole(name).elements * layout.dtype.itemsize,
        }

    def _layout(self, name: str) -> Any:
        if name not in self._layouts:
            buffer: Any = self._graph.try_get_buffer(name)
            layout = buffer.maybe_get_layout() if hasattr(buffer, "maybe_get_layout") else None
            self._layouts[name] = layout if hasattr(layout, "size") else None
        return self._layouts[name]


def _depends_on_data(layout: Any) -> bool:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols([*layout.size, *layout.stride]))
