"""Look up the buffers of a graph part: their layouts, roles and sizes."""

from collections.abc import Iterable
from typing import Any

from ctrace.inspector.capture.fusion.extents import ElementSet, of_layout
from ctrace.inspector.facts.fusion_facts import Buffer, BufferRole


class Buffers:
    """Looks up buffers by the scheduler's names, each only once."""

    def __init__(self, scheduler: Any) -> None:
        from torch._inductor.virtualized import V

        self._real: dict[str, str] = scheduler.mutation_real_name
        self._layouts: dict[str, Any] = {}
        self._whole: dict[str, ElementSet] = {}
        self._parts: dict[frozenset[ElementSet], int] = {}
        self._graph = V.graph

    def real(self, name: str) -> str:
        """Return the name of a buffer's storage: its own name, or that of the buffer that it mutates or is part of."""
        # Inductor gives each in-place write a new name (scheduler.py, 2.13, `mutation_real_name`).
        name = self._real.get(name, name)
        holder = getattr(self._layout(name), "view", None)  # a NonOwningLayout: one input of a `cat`
        return holder.get_name() if holder is not None else name

    def whole(self, name: str) -> ElementSet:
        """Return all elements of a buffer, or none if it is not a tensor."""
        name = self.real(name)
        if name not in self._whole:
            layout = self._layout(name)
            self._whole[name] = (
                ElementSet(0, 0) if layout is None else of_layout(layout.size, layout.stride, layout.offset)
            )
        return self._whole[name]

    def size(self, name: str, patterns: Iterable[ElementSet]) -> int:
        """Return the bytes of some elements of a buffer, at most its size."""
        layout = self._layout(name)
        if layout is None:
            return 0
        # Patterns may overlap, and their sum may exceed the buffer.
        elements = min(sum(pattern.elements for pattern in patterns), self.whole(name).elements)
        return int(elements * layout.dtype.itemsize)

    def part(self, patterns: Iterable[ElementSet]) -> int:
        """Return a number that identifies a set of elements."""
        return self._parts.setdefault(frozenset(patterns), len(self._parts))

    def outputs(self) -> list[str]:
        """Return the names of the graph part's outputs: its results, and the inputs that it changes."""
        names = [*self._graph.get_output_names(), *self._graph.mutated_inputs]
        return list(dict.fromkeys(name for each in names if self._layout(name := self.real(each)) is not None))

    def inputs(self) -> list[str]:
        """Return the names of the graph part's input tensors."""
        return [name for name in self._graph.graph_inputs if self._layout(name) is not None]

    def table(self, names: Iterable[str]) -> tuple[Buffer, ...]:
        """Return the description of each buffer."""
        inputs, outputs = {*self._graph.graph_inputs, *self._graph.constants}, set(self.outputs())
        return tuple(self._described(name, inputs, outputs) for name in names)

    def _described(self, name: str, inputs: set[str], outputs: set[str]) -> Buffer:
        layout, role = self._layout(name), BufferRole.INNER
        if name in inputs:
            role = BufferRole.INPUT
        elif name in outputs:
            role = BufferRole.OUTPUT
        if layout is None:
            return Buffer(name, role, dtype="", shape=(), stride=(), device="")
        return Buffer(
            name=name,
            role=role,
            dtype=str(layout.dtype).removeprefix("torch."),
            shape=tuple(map(str, layout.size)),
            stride=tuple(map(str, layout.stride)),
            device=str(layout.device),
            bytes=None if _depends_on_data(layout) else self.whole(name).elements * layout.dtype.itemsize,
        )

    def _layout(self, name: str) -> Any:
        if name not in self._layouts:
            buffer: Any = self._graph.try_get_buffer(name)
            layout = buffer.maybe_get_layout() if hasattr(buffer, "maybe_get_layout") else None
            self._layouts[name] = layout if hasattr(layout, "size") else None
        return self._layouts[name]


def _depends_on_data(layout: Any) -> bool:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols([*layout.size, *layout.stride]))
