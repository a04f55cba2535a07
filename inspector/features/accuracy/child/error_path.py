"""Follow an error from the kernel that makes it to the result: each later kernel beside float64."""

from typing import Any

from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.core.node_lines import place_of
from ctrace.inspector.facts.accuracy_facts import LARGEST, PathStep
from ctrace.inspector.features.accuracy.child.kernel_judge import distance, stored_nodes, widened, writes_until
from ctrace.inspector.features.accuracy.child.node_values import (
    NotComputableError,
    Values,
    cannot_repeat,
    computed,
    needed,
)
from ctrace.inspector.features.accuracy.child.watched_kernels import Listener, WatchedGraph


class ErrorPath(Listener):
    """Computes one graph in float64, from its inputs on, beside a compiled call."""

    def __init__(self, graph: WatchedGraph, first: int) -> None:
        self.steps: list[PathStep] = []
        self._graph = graph
        self._first = first
        self._truth: Values = {}
        self._is_done = False

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Take the inputs in float64."""
        if graph is self._graph and not self._is_done:
            placeholders = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
            self._truth = {node: widened(each) for node, each in zip(placeholders, args, strict=False)}

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Compare what a kernel stored; random numbers are those that were drawn."""
        if graph is not self._graph or self._is_done:
            return
        call = graph.calls[number]
        worst, at = 0.0, None
        for node, value in stored_nodes(graph, number, names).items():
            try:
                if cannot_repeat(node) is not None:
                    raise NotComputableError(str(node))
                nodes = needed([node, *writes_until(graph, number, node)], self._truth)
                self._truth.update(computed(graph.module, nodes, self._truth, Float64(), lambda each: each))
            except Exception:  # no float64 of it can be had: later kernels are compared from what was stored
                self._truth[node] = widened(value)
            if not isinstance(value, tuple | list):
                error = distance(value, self._truth[node])
                worst, at = max((worst, at), (error, node), key=lambda each: each[0])
        if number >= self._first and at is not None and not call.is_view:
            file, line, _ = place_of(at)
            where = None if file is None else f"{file}:{line}"
            self.steps.append(PathStep(call.name, where, worst if worst <= LARGEST else None))
        self._is_done = number == len(graph.calls) - 1
