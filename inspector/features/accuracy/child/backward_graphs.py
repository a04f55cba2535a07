"""Compare the backward of Dynamo's graphs with autograd in eager: a wrong decomposition or pass, with its line.

If a result is wrong and neither a kernel nor a forward graph is, the model is called once more. Each graph of Dynamo
then runs in eager with the same inputs, and autograd computes the gradient that each operation gets and those that it
sends to its arguments, from the gradients that the compiled backward got. The graph of the compiled backward has nodes
that come from the same operation. Where one differs from a gradient that it should have, the right one is put in its
place: if fewer results of the backward are wrong with it, and what the operation gets is right, the operation is wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.comparing.arithmetic import Noisy, WatchedArithmetic
from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.core.exception_text import reason_line
from ctrace.inspector.capture.core.node_lines import place_of
from ctrace.inspector.features.accuracy.child.kernel_judge import (
    ValueJudged,
    copied_inputs,
    copied_value,
    distance,
    judged_pair,
    same_kind,
    widened_inputs,
)
from ctrace.inspector.features.accuracy.child.node_values import Values, computed, operator_name
from ctrace.inspector.features.accuracy.child.stage_graphs import (
    BETWEEN,
    DynamoGraph,
    WrongStage,
    recompiled,
    wrong_pass,
)
from ctrace.inspector.features.accuracy.child.watched_kernels import Listener, WatchedGraph

# Chosen: near ties can be estimated from 4 or more (`comparing/judgement.py`), and each call takes as long as eager.
_NOISY = 6
_MOST_TRIED = 8
"""Nodes of a line whose value is replaced, one after the other."""
_NODE = "CompiledFunctionBackward"
# Chosen: how many steps of autograd, such as views, may lie between a result and its node.
_DEEPEST = 3
_NOISE = 0.1
"""The share of a gradient that rounding makes up, from which on a wrong value looks like a right one."""
_CLEARLY = 1e-3
"""The share by which an error has to get smaller."""


class _Forward(Struct, eq=False):
    """A call of a graph of Dynamo whose backward is still to come."""

    found: DynamoGraph
    inputs: list[Any]
    requires: list[bool]
    random: Any
    autocast: dict[str, Any]


class _Backward(Struct, eq=False):
    """A backward of such a call, as compiled code ran it."""

    forward: _Forward
    graph: WatchedGraph
    arguments: list[Any]


class BackwardJudge(Listener):
    """Follows one compiled call with a backward, and judges its graphs after it."""

    def __init__(self) -> None:
        self.not_compared: dict[tuple[str, str], None] = {}
        self._backwards: list[_Backward] = []
        self._now: _Forward | None = None

    def expect(self, found: DynamoGraph, inputs: list[Any], arguments: Sequence[Any], random: Any, result: Any) -> None:
        """Wait for the backward of a call."""
        import torch

        node = _compiled_node(result)
        if node is None:
            return
        requires = [isinstance(each, torch.Tensor) and each.requires_grad for each in arguments]
        forward = _Forward(found, inputs, requires, random, _autocast())

        def begins(_gradients: Any) -> None:
            self._now = forward

        # Before the node runs: its compiled backward does not say to which forward it belongs.
        node.register_prehook(begins)

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Keep the inputs of a backward."""
        if graph.stage == "backward" and self._now is not None:
            # Copies, because the compiled backward frees its arguments and reuses their memory.
            self._backwards.append(_Backward(self._now, graph, list(map(copied_value, args))))
            self._now = None

    def wrong(self, before: dict[int, Any], scenario: str) -> Iterator[WrongStage]:
        """Yield what is wrong in the backwards, in the order in which they ran."""
        for each in self._backwards:
            try:
                made = _judged(each, before)
            except Exception as error:
                self.not_compared[f"the backward of graph {each.graph.part}", reason_line(error)] = None
                continue
            for one in made:
                one.part, one.scenario, one.stage = each.graph.part, scenario, "backward"
                forward = each.forward
                lowered = list(
                    dict.fromkeys((*forward.found.lowered, each.graph))
                )  # torch compiles it at the first call
                one.found = replace(forward.found, lowered=lowered, inputs=forward.inputs, random=forward.random)
                one.found.needs_gradient, one.retry = forward.requires, partial(_error, each)
                yield one


class NotComparableError(Exception):
    """The graphs of a backward and of its forward do not fit together; the message says why."""


class _Edge(Struct, eq=False):
    """An argument of an operation in eager, as a tensor of its own, so that it has a gradient of its own."""

    node: Any
    alias: Any
    is_result: bool = False
    """Whether it is a result of the operation, not an argument."""


class _Gradients(Struct, frozen=True):
    """The gradients of a graph in eager."""

    of_inputs: list[Any]
    of_edges: list[Any]
    """As many as there are edges."""
    edges: list[_Edge]


class _EagerRuns:
    """Gradients of a graph of Dynamo, in other arithmetic, each computed when it is first needed."""

    def __init__(self, forward: _Forward, tangents: list[Any]) -> None:
        self._forward, self._tangents = forward, tangents
        self._reference: _Gradients | None = None
        self._noisy: list[_Gradients] | None = None
        self.eager = self._run(WatchedArithmetic(), copied_inputs)
        self.of: Callable[[_Gradients], Any] = lambda found: found.of_inputs

    def reference(self, at: int | None) -> Any:
        """Return a gradient in float64."""
        if self._reference is None:
            self._reference = self._run(Float64(), widened_inputs)
        return self.of(self._reference)[at or 0]

    def noisy(self, at: int | None) -> list[Any]:
        """Return a gradient of runs that round at random."""
        if self._noisy is None:
            self._noisy = [self._run(Noisy(seed), copied_inputs) for seed in range(_NOISY)]
        return [self.of(each)[at or 0] for each in self._noisy]

    def _run(self, arithmetic: WatchedArithmetic, change: Callable[[Sequence[Any]], list[Any]]) -> _Gradients:
        import torch
        from torch.utils import _pytree

        forward = self._forward
        torch.set_rng_state(forward.random)
        # Each run gets inputs of its own, so that their gradients do not add up.
        inputs = change(forward.inputs)
        pairs = list(zip(inputs, forward.requires, strict=True))
        leaves = [each.requires_grad_() for each, requires in pairs if requires]
        with ExitStack() as active:
            active.enter_context(torch.enable_grad())
            for device, dtype in forward.autocast.items():
                # As in the forward: it decides in which dtypes operations compute, and thereby their gradients.
                active.enter_context(torch.autocast(device, dtype))
            active.enter_context(arithmetic.active())
            outputs, edges = _run_with_edges(forward.found.module, inputs)
            leaving = [each for each in _pytree.tree_leaves(outputs) if _requires_grad(each)]
            tangents = change(self._tangents)
            # The compiled backward gets one gradient for each result that requires one, in their order.
            if [each.shape for each in leaving] != [each.shape for each in tangents]:
                raise NotComparableError("its gradients do not belong to the results one by one")
            wanted = [*leaves, *(each.alias for each in edges)]
            # Autograd would raise for an input that the results do not depend on.
            found = torch.autograd.grad(leaving, wanted, tangents, allow_unused=True)
        of_leaves = iter(found[: len(leaves)])
        return _Gradients(
            [next(of_leaves) if requires else None for _, requires in pairs], list(found[len(leaves) :]), edges
        )


def _run_with_edges(module: Any, inputs: list[Any]) -> tuple[Any, list[_Edge]]:
    """Run a graph; each operation gets its arguments as views of its own."""
    from torch import fx

    edges: list[_Edge] = []

    class WithEdges(fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            # A view between the two would be what the operation writes to, and no longer the value.
            if n.op not in ("call_function", "call_method") or _writes(n):
                return super().run_node(n)
            with self._set_current_node(n):
                args, kwargs = self.fetch_args_kwargs_from_env(n)
                args, kwargs = fx.node.map_aggregate((args, kwargs), lambda value: alias(n, value))
                result = getattr(self, n.op)(n.target, args, kwargs)
                if isinstance(result, tuple | list):
                    results = result
                else:
                    results = (result,)
                edges.extend(_Edge(n, each, is_result=True) for each in results if _requires_grad(each))
                return result

    def alias(node: Any, value: Any) -> Any:
        if not _requires_grad(value):
            return value
        # A value that two operations use has one gradient, the sum: a view for each use keeps the parts.
        made = value.view_as(value)
        edges.append(_Edge(node, made))
        return made

    return WithEdges(module).run(*inputs), edges


def _writes(node: Any) -> bool:
    """Whether an operation may write to its arguments, or runs a graph of its own."""
    import torch

    name = getattr(node.target, "__name__", str(node.target))
    is_in_place = name.endswith("_") and not name.endswith("__")
    is_operator = name in ("setitem", "iadd", "isub", "imul", "itruediv", "ipow", "iand", "ior")
    return is_in_place or is_operator or isinstance(node.target, torch._ops.HigherOrderOperator)


def _judged(backward: _Backward, before: dict[int, Any]) -> list[WrongStage]:
    """Find what makes a backward wrong; nothing if it is right.

    Raises:
        NotComparableError: its inputs and results are not those of the forward one by one.
    """
    graph, forward = backward.graph, backward.forward
    placeholders = [each for each in graph.module.graph.nodes if each.op == "placeholder"]
    pairs = list(zip(placeholders, backward.arguments, strict=True))
    tangents = [value for node, value in pairs if node.name.startswith("tangents")]
    results = _gradients(graph.module.graph, forward)
    runs = _EagerRuns(forward, tangents)
    now = _Evaluated(graph.module, graph.module.graph, backward.arguments)
    if not _wrong_results(runs, results, now.values):
        return []
    graph.arguments = backward.arguments
    earlier = before.get(id(graph.module))
    if earlier is not None:
        # Passes first: what they change looks like a wrong line in all graphs after them.
        if (of_pass := wrong_pass(graph, earlier)) is not None:
            return [of_pass]
        if made := _wrong_lines(
            runs, _gradients(earlier, forward), _Evaluated(graph.module, earlier, backward.arguments)
        ):
            return made
    # Something is wrong, but no replaced value makes it better: then only the backward as a whole is named.
    worst = max(_wrong_results(runs, results, now.values), key=lambda each: each.ratio)
    return [WrongStage("graph", BETWEEN, None, (), worst.error, worst.eager_error)]


def _error(backward: _Backward, settings: dict[str, Any]) -> float | None:
    """Compile a graph of Dynamo again, with its backward; return the largest error, None if one is beyond rounding."""
    import torch
    from torch.utils import _pytree

    forward = backward.forward
    placeholders = [each for each in backward.graph.module.graph.nodes if each.op == "placeholder"]
    pairs = zip(placeholders, backward.arguments, strict=True)
    tangents = [copied_value(value) for node, value in pairs if node.name.startswith("tangents")]
    runs = _EagerRuns(forward, tangents)
    inputs = copied_inputs(forward.inputs)
    leaves = [each.requires_grad_() for each, needs in zip(inputs, forward.requires, strict=True) if needs]
    with ExitStack() as active:
        active.enter_context(torch.enable_grad())
        for device, dtype in forward.autocast.items():
            active.enter_context(torch.autocast(device, dtype))
        compiled = recompiled(forward.found, forward.found.module, inputs, settings)
        torch.set_rng_state(forward.random)
        leaving = [each for each in _pytree.tree_leaves(compiled(*inputs)) if _requires_grad(each)]
        made = iter(torch.autograd.grad(leaving, leaves, tangents, allow_unused=True))
    errors = [0.0]
    for at, eager in enumerate(runs.eager.of_inputs):
        value = None
        if forward.requires[at]:
            value = next(made)
        if value is None or eager is None:
            continue
        if _differs(runs, at, eager, value) is not None:
            return None
        errors.append(distance(value, runs.reference(at)))
    return max(errors)


class _Evaluated:
    """A graph on its inputs in eager, where the values of some nodes may be given."""

    def __init__(self, module: Any, graph: Any, arguments: list[Any]) -> None:
        self._module, self.graph = module, graph
        placeholders = [each for each in graph.nodes if each.op == "placeholder"]
        self._known = dict(zip(placeholders, arguments, strict=True))
        self.given: Values = {}
        self.values = self.with_values({})

    def with_values(self, more: Values) -> Values:
        """Compute all nodes, given some values."""
        known = {**self._known, **self.given, **more}
        nodes = [each for each in self.graph.nodes if each.op in ("call_function", "get_attr") and each not in known]
        return {**known, **computed(self._module, nodes, known, WatchedArithmetic(), copied_value)}

    def keep(self, more: Values) -> None:
        """Let values be those given from now on."""
        self.given |= more
        self.values = self.with_values({})


def _gradients(graph: Any, forward: _Forward) -> list[Any]:
    """Return the node with the gradient of each input of the forward; None: it has none.

    Raises:
        NotComparableError: which gradient a result is is not known.
    """
    results, constants = _results(graph), forward.found.constants
    # Torch's backward returns nothing for attributes, which are inputs only of the graph that is compared.
    if constants and len(results) == len(forward.inputs) - constants:  # attributes without gradients
        results += [None] * constants
    elif constants or len(results) != len(forward.inputs):
        raise NotComparableError("its results are not the gradients of the forward's inputs one by one")
    return results


def _results(graph: Any) -> list[Any]:
    """Return the nodes that a graph returns, with None where it returns none."""
    output = next(each for each in graph.nodes if each.op == "output")
    (found,) = output.args
    if isinstance(found, tuple | list):
        return list(found)
    return [found]


def _wrong_results(runs: _EagerRuns, results: list[Any], values: Values) -> list[ValueJudged]:
    runs.of = lambda found: found.of_inputs
    found = []
    for at, (node, one) in enumerate(zip(results, runs.eager.of_inputs, strict=True)):
        if node is None or one is None or node not in values:
            continue
        judged = _differs(runs, at, one, values[node])
        if judged is not None:
            found.append(judged)
    return found


def _differs(runs: _EagerRuns, at: int, eager: Any, value: Any) -> ValueJudged | None:
    """Return how a value is further off than rounding explains; None: it is not, or it is of another kind."""
    if not _is_tensor(value) or not same_kind(eager, value):
        return None
    found = judged_pair(eager, value, runs, at, lost=False)
    if found.judgement is not Judgement.WRONG:
        return None
    return found


def _wrong_lines(runs: _EagerRuns, results: list[Any], backward: _Evaluated) -> list[WrongStage]:
    """Find the operations that send a wrong gradient though they get the right one.

    They are in the order in which the backward runs; after the last of them is set right, so are all results.
    """
    wrong = _Badness(_wrong_results(runs, results, backward.values))
    edges = _by_operation(enumerate(runs.eager.edges), lambda each: each[1].node)
    nodes = _by_operation((each for each in backward.graph.nodes if each.op == "call_function"), lambda each: each)
    handed_on = [each for each in backward.graph.nodes if each.op == "placeholder" or _leaves(each)]
    found: list[WrongStage] = []
    for operation, of_operation in nodes.items():
        sent = [at for at, each in edges.get(operation, ()) if not each.is_result]
        got = [at for at, each in edges.get(operation, ()) if each.is_result]
        for at, node, judged in _candidates(runs, sent, of_operation, backward.values):
            if not all(_is_there(runs, each, handed_on, backward.values) for each in got):
                break  # what comes before is wrong, too
            gradient = copied_value(runs.eager.of_edges[at])
            left = _Badness(_wrong_results(runs, results, backward.with_values({node: gradient})))
            if not left.is_less_than(wrong):
                continue
            ops = tuple(dict.fromkeys((operator_name(runs.eager.edges[at].node), operator_name(node))))
            name = "decompositions, and passes before post-grad"
            # What it gets then looks like a wrong value, so a neighbor that sends it may be the wrong one.
            is_known = not any(_is_noise(runs, each) for each in got)
            at_node, of = (node, ops) if is_known else (None, ())
            found.append(WrongStage("decomposition", name, at_node, of, judged.error, judged.eager_error))
            backward.keep({node: gradient})
            wrong = left
            # Only a list after which every result is right explains the error; else nothing of it is said.
            if not wrong.count:
                return found
    return []


class _Badness:
    """How much is wrong: a parameter that several operations share stays wrong until the last of them is right."""

    def __init__(self, wrong: list[ValueJudged]) -> None:
        self.count = len(wrong)
        self._error = sum(each.error for each in wrong)

    def is_less_than(self, other: "_Badness") -> bool:
        """Whether fewer results are wrong, or as many, and by less."""
        by_less = self._error < (1 - _CLEARLY) * other._error
        return self.count < other.count or (self.count == other.count and by_less)


def _candidates(
    runs: _EagerRuns, sent: list[int], nodes: list[Any], values: Values
) -> list[tuple[int, Any, ValueJudged]]:
    """Return which gradient may belong in the place of which node: those that no node has first.

    A right value may be there, too, on the way to a wrong one: then what leaves the operation counts.
    """
    missing: list[tuple[int, Any, ValueJudged]] = []
    others: list[tuple[int, Any, ValueJudged]] = []
    for at in sent:
        one = _gradient(runs, at)
        alike = [each for each in nodes if one is not None and _is_alike(one, values.get(each))]
        differ = {each: judged for each in alike if (judged := _differs(runs, at, one, values[each])) is not None}
        if len(differ) == len(alike):
            into = missing
        else:
            into = others
        leaving = [each for each in differ if into is missing or _leaves(each)]
        # The last nodes of an operation first: they are what it hands on.
        into += [(at, each, differ[each]) for each in reversed(leaving[-_MOST_TRIED:])]
    return [*missing, *others]


def _is_there(runs: _EagerRuns, at: int, nodes: list[Any], values: Values) -> bool:
    """Whether a value that one operation hands on to another is this gradient."""
    one = _gradient(runs, at)
    alike = [values[each] for each in nodes if each in values and one is not None and _is_alike(one, values[each])]
    return one is None or any(_differs(runs, at, one, each) is None for each in alike)


def _is_noise(runs: _EagerRuns, at: int) -> bool:
    """Whether most of a gradient in eager is rounding, as that of what should cancel out."""
    one = _gradient(runs, at)
    if one is None or not one.is_floating_point():
        return False
    reference = runs.reference(at)
    off = (one.double() - reference).square().mean().sqrt()
    return bool(off > _NOISE * reference.square().mean().sqrt())


def _leaves(node: Any) -> bool:
    """Whether another operation of Dynamo's graph, or none, uses a node's value."""
    return any(_operation(each) is None or _operation(each) != _operation(node) for each in node.users)


def _operation(node: Any) -> Any:
    """Return the operation of Dynamo's graph that a node comes from: its name there, else its line; None: not known."""
    stack = node.meta.get("fwd_source_fn_stack") or node.meta.get("source_fn_stack")
    file, line, _ = place_of(node)
    if stack:
        return stack[-1][0]
    if file is None:
        return None
    return (file, line)


def _gradient(runs: _EagerRuns, at: int) -> Any:
    runs.of = lambda found: found.of_edges
    return runs.eager.of_edges[at]


def _by_operation(items: Iterable[Any], node_of: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for each in items:
        operation = _operation(node_of(each))
        if operation is not None:
            found.setdefault(operation, []).append(each)
    return found


def _is_alike(one: Any, other: Any) -> bool:
    return _is_tensor(other) and same_kind(one, other)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _requires_grad(value: Any) -> bool:
    return _is_tensor(value) and value.requires_grad


def _autocast() -> dict[str, Any]:
    """Return the dtype of each kind of device for which autocast is on."""
    import torch

    devices = ("cpu", "cuda")
    return {each: torch.get_autocast_dtype(each) for each in devices if torch.is_autocast_enabled(each)}


def _compiled_node(result: Any) -> Any:
    """Return the node of autograd that runs the compiled backward of a result; None: it has none."""
    from torch.utils import _pytree

    for each in _pytree.tree_leaves(result):
        waiting = []
        if _requires_grad(each):
            waiting = [each.grad_fn]
        for _ in range(_DEEPEST):
            for node in waiting:
                if node is not None and node.name().endswith(_NODE):
                    return node
            waiting = [after for node in waiting if node is not None for after, _ in node.next_functions]
    return None
