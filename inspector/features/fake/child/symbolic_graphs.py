"""Run graphs with sizes that depend on values: return results of the sizes that Dynamo traced.

With `capture_scalar_outputs`, Dynamo keeps `.item()` in the graph, and torch carries an unbacked symbol in place of
the number. The graph compiles as always, but nothing can run it here: no value gives the symbol a number. So its
results are made from what Dynamo knows of them. A result whose size needs the symbol stops the call, unless the user
assumes one.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.calls.calling import CallStoppedError
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.eager_backend import RUNNER
from ctrace.inspector.features.fake.child.asked_values import AskedValues, AskingPlace
from ctrace.inspector.features.fake.child.storageless_mode import KnownValues
from ctrace.inspector.features.fake.child.without_storage import storageless

_PLACE = re.compile(r'File "([^"\n]+)", line (\d+), in [^\n]*\n\s*([^\n]*)')


_WITH_STATISTICS = ("batch_norm", "instance_norm", "native_batch_norm")


class SymbolicGraphs:
    """The hook on the graphs of a run; it does nothing while values exist."""

    def __init__(self) -> None:
        self._followed: tuple[AskedValues, KnownValues] | None = None

    def follow(self, asked: AskedValues, values: KnownValues) -> None:
        """Follow graphs of a model whose values do not exist."""
        self._followed = asked, values

    def stop(self) -> None:
        """Follow no more graphs."""
        self._followed = None

    @contextmanager
    def __call__(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Install the hook (2.11 to 2.13, _dynamo/output_graph.py: `call_user_compiler`)."""
        with ExitStack() as patches:

            def install(_dynamo: ModuleType) -> None:
                from torch._dynamo.output_graph import OutputGraph

                original = OutputGraph.call_user_compiler

                def call(output_graph: Any, graph: Any, inputs: Any) -> Any:
                    if self._followed is not None:
                        with recorder.watching("sizes that depend on values"):
                            traced = _TracedGraph(graph, *self._followed)
                            graph.meta[RUNNER] = traced.replacing
                    return original(output_graph, graph, inputs)

                patches.enter_context(patched(OutputGraph, "call_user_compiler", call))

            when("torch._dynamo", install)
            yield


symbolic_graphs = SymbolicGraphs()


class _TracedGraph:
    """What Dynamo knows of a graph with unbacked symbols."""

    def __init__(self, graph: Any, asked: AskedValues, values: KnownValues) -> None:
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        self._asked, self._values = asked, values
        self.symbols: dict[Any, AskingPlace] = {}
        """The unbacked symbols, each with the place that it comes from."""
        nodes = list(graph.graph.nodes)
        for node in nodes:
            value = node.meta.get("example_value")
            if not _has_symbols(value):
                continue
            for symbol in free_unbacked_symbols(value):
                self.symbols.setdefault(symbol, _spot(node))
        self._inputs = [(node.name, node.meta.get("example_value")) for node in nodes if node.op == "placeholder"]
        self._statistics = {
            argument.name for node in nodes if _keeps_statistics(node) for argument in node.all_input_nodes
        }
        self._results = next(node.args[0] for node in nodes if node.op == "output")

    def replacing(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return what runs in place of a graph: its code, unless that needs values that do not exist."""
        if self.symbols:
            return self._known_results
        return self._running(run)

    def _running(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Run the graph's code, up to a question: in compiled code, there is none.

        In eager, `one_hot` checks its argument, and `torch.cond` chooses.
        """

        def running(*args: Any) -> Any:
            try:
                with self._asked.unrecorded():
                    return run(*args)
            except CallStoppedError:
                return self._known_results(*args)

        return running

    def _known_results(self, *args: Any) -> Any:
        """Return results without values, in place of those of the graph."""
        import torch
        from torch.utils import _pytree

        self._forget_what_is_written(args)
        numbers = self._numbers(args)
        # An output that is an input must be that very tensor, as the compiled graph would return it.
        given = {name: value for (name, _), value in zip(self._inputs, args, strict=False)}

        def result(node: Any) -> Any:
            if not isinstance(node, torch.fx.Node) or node.name in given:
                if isinstance(node, torch.fx.Node):
                    return given[node.name]
                return node
            value = node.meta.get("example_value")
            if isinstance(value, torch.Tensor):
                return self._tensor(value, numbers)
            return self._number(value, numbers)

        leaves, structure = _pytree.tree_flatten(self._results)
        made = [result(leaf) for leaf in leaves]
        # Without an input that requires gradients, a Function makes outputs that require none.
        inputs = [each for each in args if isinstance(each, torch.Tensor) and each.requires_grad]
        if inputs and torch.is_grad_enabled():
            made = _differentiable(made, [_requires_grad(leaf) for leaf in leaves], inputs)
        return _pytree.tree_unflatten(made, structure)

    def _forget_what_is_written(self, args: Any) -> None:
        """Note that the inputs that the graph writes to have no known values any more.

        Dynamo traces with fake tensors, whose version counts the writes; that of running statistics stays.
        """
        import torch

        for (name, known), value in zip(self._inputs, args, strict=False):
            # A graph that writes to an input raised the version of its fake tensor: what it holds is unknown from now
            # on.
            if isinstance(value, torch.Tensor) and (name in self._statistics or known._version):
                self._values.forget(value)

    def _numbers(self, args: Any) -> dict[Any, Any]:
        """Return the numbers of the symbols: sizes of the inputs, and what the user assumes."""
        import torch

        numbers: dict[Any, Any] = {}
        for (_, known), value in zip(self._inputs, args, strict=False):
            pairs: Iterable[tuple[Any, Any]]
            if isinstance(known, torch.Tensor):
                pairs = zip(known.size(), value.size(), strict=True)
            else:
                pairs = [(known, value)]
            for symbol, number in pairs:
                if isinstance(symbol, torch.SymInt | torch.SymFloat) and symbol.node.expr.is_Symbol:
                    numbers[symbol.node.expr] = number
        for symbol, spot in self.symbols.items():
            assumed = self._asked.assumed(spot)
            if assumed is None:
                self._asked.carried(spot, str(symbol))
            else:
                numbers[symbol] = assumed
        return numbers

    def _tensor(self, known: Any, numbers: dict[Any, Any]) -> Any:
        size = [self._number(each, numbers) for each in known.size()]
        return storageless(size, [self._number(each, numbers) for each in known.stride()], known.dtype)

    def _number(self, known: Any, numbers: dict[Any, Any]) -> Any:
        import torch

        if not isinstance(known, torch.SymInt | torch.SymFloat | torch.SymBool):
            return known
        value = known.node.expr.subs(numbers)
        for symbol in value.free_symbols:
            spot = self.symbols.get(symbol)
            if spot is not None:
                raise self._asked.stop(spot, f"the value of `{spot.expression}`, on which the size of a result depends")
        kind = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(known)]
        return kind(value)


def _differentiable(made: list[Any], requires: list[bool], inputs: list[Any]) -> list[Any]:
    """Attach a gradient function to results; its gradients have no values either."""
    import torch

    class WithoutValues(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *_inputs: Any) -> Any:
            results = tuple(each for each in made if isinstance(each, torch.Tensor))
            # By default, a Function makes each output of floats require gradients.
            ctx.mark_non_differentiable(
                *(each for each, need in zip(made, requires, strict=True) if is_plain(each, need))
            )
            return results

        @staticmethod
        def backward(_ctx: Any, *_gradients: Any) -> Any:
            return tuple(storageless(each.size(), each.stride(), each.dtype) for each in inputs)

    def is_plain(each: Any, need: bool) -> bool:
        return isinstance(each, torch.Tensor) and not need

    results = iter(WithoutValues.apply(*inputs))
    return [next(results) if isinstance(each, torch.Tensor) else each for each in made]


def _keeps_statistics(node: Any) -> bool:
    """Whether an op writes to running statistics, without a word in its schema (2.11 to 2.13)."""
    return getattr(node.target, "__name__", "") in _WITH_STATISTICS


def _requires_grad(node: Any) -> bool:
    value = getattr(node, "meta", {}).get("example_value")
    return bool(getattr(value, "requires_grad", False))


def _has_symbols(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool)


def _spot(node: Any) -> AskingPlace:
    places = _PLACE.findall(node.meta.get("stack_trace") or "")
    if not places:
        return AskingPlace("<unknown>", 0, None, str(node.target))
    file, line, text = places[-1]
    return AskingPlace(file, int(line), None, text)
