"""Compare the graphs of a compile with each other, before there are kernels: a wrong pass or decomposition.

Each graph that Dynamo hands over runs in eager beside its compiled code, on copies of the same inputs and with the same
random numbers. If the compiled graph is wrong and none of its kernels is, the graphs between the two run in eager, too:

- Inductor's post-grad passes: the graph before and after them has the same inputs and results.
- Everything before them (pre-grad and joint passes, functionalization, decompositions): each line of the user is
  compared by the last value that Dynamo's graph and the later one compute for it.

Inputs count as results if the graph writes to them; the line is then the last one that writes. So does a dtype or size
other than eager's.

What Dynamo itself made of the Python is wrong if the whole result is, and each of its graphs is right.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

from msgspec import Struct, field

from ctrace.inspector.capture.calls.overlapping_tensors import overlapping
from ctrace.inspector.capture.comparing.arithmetic import Noisy, WatchedArithmetic
from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.core.exception_text import reason_line
from ctrace.inspector.capture.core.node_lines import place_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.isolation.random_states import RandomStates
from ctrace.inspector.features.accuracy.child.kernel_judge import (
    SizeLimit,
    ValueJudged,
    copied_inputs,
    copied_value,
    distance,
    judged_pair,
    same_kind,
    widened,
    widened_inputs,
)
from ctrace.inspector.features.accuracy.child.node_values import (
    NotComputableError,
    RefusedError,
    Values,
    attribute,
    called_node,
    cannot_repeat,
    memory_of,
    modes_off,
    operator_name,
    why_not_again,
    written_arguments,
)
from ctrace.inspector.features.accuracy.child.watched_kernels import Listener, WatchedGraph

# Chosen, as in `backward_graphs.py`.
_NOISY = 6
BETWEEN = "a stage between Dynamo's graph and the kernels"
_PASSES = "post-grad passes"
_BEFORE = "decompositions, and passes before post-grad"


class Expecting(Protocol):
    """Waits for the backward of a call of a graph of Dynamo."""

    def expect(
        self, found: "DynamoGraph", inputs: list[Any], arguments: Sequence[Any], random: Any, result: Any
    ) -> None:
        """Note a call that compiled code answered."""


class WrongStage(Struct, eq=False):
    """A stage of the compiler that changed the numbers."""

    kind: str
    name: str
    node: Any
    ops: tuple[str, ...]
    error: float
    eager_error: float
    part: int | None = None
    scenario: str = ""
    step: int | None = None
    stage: str = "forward"
    reason: str = ""
    remedy: str = ""
    remedy_error: float | None = None
    """That of the whole graph, if it is compiled with the remedy."""
    no_program: str = ""
    """Why a program of plain PyTorch that calls the graph once cannot show it; empty: it may."""
    found: "DynamoGraph | None" = None
    retry: Callable[[dict[str, Any]], float | None] | None = None
    """Compiles a backward again, with settings of Inductor on top: its largest error; None: beyond rounding."""


Recompiling = Callable[[Any, Any, dict[str, Any]], Callable[..., Any]]
"""Compiles a graph of Dynamo as it was compiled: a module, its inputs, and settings of Inductor on top."""


class DynamoGraph(Struct, eq=False):
    """A graph of Dynamo, with what it was called with when its compiled code was wrong."""

    module: Any
    lowered: list[WatchedGraph]
    inputs: list[Any] = field(default_factory=list)
    judged: ValueJudged | None = None
    scenario: str = ""
    step: int | None = None
    written: int | None = None
    """An input that is wrong after the call, by its place."""
    results: list[int] = field(default_factory=list)
    """The results that are wrong, by their place."""
    is_other_kind: bool = False
    """Whether a result has another size or dtype than eager's."""
    places: list[int | None] = field(default_factory=list)
    """Which argument of the lowered graph each input is; None: not known."""
    random: Any = None
    """The state of the random numbers before the call."""
    needs_gradient: list[bool] = field(default_factory=list)
    with_gradients: bool = False
    """Whether gradients were recorded in the call."""
    constants: int = 0
    """How many of the last inputs are attributes of the graph that Dynamo made, such as parameters of an optimizer."""
    first_overlap: list[list[int]] | None = None
    """Which inputs overlapped in the first call, by their places: the graph was compiled for it. None: no call yet."""
    compile_it: Recompiling | None = None


def recompiled(found: DynamoGraph, module: Any, inputs: list[Any], settings: dict[str, Any]) -> Callable[..., Any]:
    """Compile a graph of Dynamo again, or a changed one in its place."""
    import torch

    assert found.compile_it is not None
    graph = torch.fx.GraphModule(module, copy.deepcopy(module.graph))  # passes change the graph that they get
    return found.compile_it(graph, inputs, settings)


class StageJudge(Listener):
    """Compiles Dynamo's graphs with Inductor, and compares each call of one with its graph in eager."""

    def __init__(
        self, graphs: Callable[[], list[WatchedGraph]], settings: dict[str, Any], limit: SizeLimit | None = None
    ) -> None:
        self._graphs = graphs
        self._settings = settings
        self._limit = limit or SizeLimit(None)
        self._arguments: dict[int, list[Any]] = {}
        self._of_call: list[Any] = []
        self._places: dict[int, list[int | None]] = {}
        self.is_active = False
        self.backwards: Expecting | None = None
        self.scenario = ""
        self.step: int | None = None
        self.wrong: list[DynamoGraph] = []
        self.not_compared: dict[tuple[str, str], None] = {}
        self.count = 0

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Keep copies of a lowered graph's inputs until Dynamo's graph is judged."""
        if self.is_active and graph.stage != "backward":
            self._arguments[id(graph)] = list(map(copied_value, args))
            of_graph = [_place(each) for each in args]
            self._places[id(graph)] = [of_graph.index(each) if each in of_graph else None for each in self._of_call]

    def backend(self, module: Any, inputs: Any) -> Callable[..., Any]:
        """Compile a graph of Dynamo."""
        from torch._inductor.compile_fx import compile_fx

        def compile_it(module: Any, inputs: Any, settings: dict[str, Any]) -> Any:
            return compile_fx(module, inputs, config_patches={**self._settings, **settings})

        return self.compiled(module, inputs, compile_it)

    def compiled(self, module: Any, inputs: Any, compile_it: Recompiling, *, once: bool = False) -> Callable[..., Any]:
        """Return a function that runs a compiled graph of Dynamo, and compares its calls while this judge is active.

        Args:
            once: whether to compare only the first call, and to leave the program's own tensors and operators alone.
        """
        import torch

        name, self.count = f"Dynamo's graph {self.count}", self.count + 1
        # A copy, because Inductor's passes change the graph that they get.
        kept = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
        constants = _lift_constants(kept)
        refusal = ""
        if once:
            refusal = next(filter(None, map(why_not_again, kept.graph.nodes)), "")
        # What is added to the list from here on was lowered from this graph.
        first = len(self._graphs())
        compiled: Any = compile_it(module, inputs, {})
        found = DynamoGraph(kept, self._graphs()[first:], constants=len(constants), compile_it=compile_it)
        called: list[bool] = []

        def run(*args: Any) -> Any:
            if (not self.is_active and self.backwards is None) or (once and called):
                return compiled(*args)
            called.append(True)
            values = [*args, *(attribute(module, each) for each in constants)]
            if once and (why := refusal or self._limit.exceeded_by(values)):
                self.not_compared[name, why] = None
                return compiled(*args)
            before = copied_inputs(values)
            if found.first_overlap is None:
                found.first_overlap = sorted(map(sorted, overlapping(values)))
            found.with_gradients = torch.is_grad_enabled()
            self._of_call = [_place(each) for each in values]
            # Eager must draw what compiled code draws, and the call itself moves the generator on.
            random = torch.get_rng_state()
            result = compiled(*args)
            if self.backwards is not None:
                self.backwards.expect(found, before, values, random, result)
                return result
            why = self._compare(found, before, result, values, random, once=once)
            if why:
                self.not_compared[name, why] = None
            return result

        return run

    def _compare(
        self, found: DynamoGraph, before: list[Any], result: Any, args: Sequence[Any], random: Any, *, once: bool
    ) -> str:
        """Judge a call, with the random numbers that it had; return why it cannot be, else an empty text."""
        import torch

        # Judging draws numbers, too: the program goes on with those it would have had.
        after = torch.get_rng_state()
        try:
            torch.set_rng_state(random)
            with modes_off() if once else nullcontext():
                self._judge(found, before, result, args, random)
        except NotComputableError as error:
            return str(error)
        except Exception as error:
            return f"it cannot run by itself in eager: {reason_line(error)}"
        finally:
            torch.set_rng_state(after)
            self._arguments.clear()
        return ""

    def _judge(self, found: DynamoGraph, before: list[Any], result: Any, args: Sequence[Any], random: Any) -> None:
        import torch
        from torch.utils import _pytree

        with torch.no_grad():
            states = RandomStates()
            runs = GraphRuns(found.module, before, random)
            eager, values = runs.eager(), [*_pytree.tree_leaves(result), *args]
            # Inductor then draws numbers of its own, and results with other ones say nothing.
            if not _has_eager_numbers() and states.torch_moved():
                raise NotComputableError("it draws random numbers, and Inductor draws other ones")
            wrong = wrong_results(eager, values, runs)
            if wrong:
                at = max(wrong, key=lambda each: wrong[each].ratio)
                found.judged, found.scenario, found.step = wrong[at], self.scenario, self.step
                found.inputs, found.random = before, random
                found.needs_gradient = [
                    found.with_gradients and bool(getattr(each, "requires_grad", False)) for each in args
                ]
                found.is_other_kind = any(_is_other_kind(eager[each], values[each]) for each in wrong)
                first_input = len(eager) - len(before)
                found.results = [each for each in wrong if each < first_input]
                found.written = max(wrong) - first_input if max(wrong) >= first_input else None
                if found not in self.wrong:
                    self.wrong.append(found)
                for graph in found.lowered:  # for `stage_of`
                    graph.arguments = self._arguments.get(id(graph), [])
                    found.places = self._places.get(id(graph), [])


def _place(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return None
    return (value.data_ptr(), value.shape, value.stride())


def _has_eager_numbers() -> bool:
    """Whether compiled code draws the random numbers that eager draws."""
    from torch._inductor import config

    return bool(config.fallback_random)


def _lift_constants(module: Any) -> list[str]:
    """Make the tensors that a graph has as attributes its last inputs, and return their paths.

    They are tensors of the program, which the graph may write to: it runs on copies then, and is compared with what
    compiled code wrote.
    """
    import torch

    graph = module.graph
    lifted: dict[str, Any] = {}
    last = next((each for each in reversed(graph.nodes) if each.op == "placeholder"), None)
    for node in [each for each in graph.nodes if each.op == "get_attr"]:
        path = str(node.target)
        if not isinstance(attribute(module, path), torch.Tensor):
            continue
        if path not in lifted:
            with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
                lifted[path] = last = graph.placeholder(node.name)
                last.meta = dict(node.meta)
        node.replace_all_uses_with(lifted[path])
        graph.erase_node(node)
    module.recompile()
    return list(lifted)


class GraphRuns:
    """A graph of Dynamo in other arithmetic, run when it is first needed."""

    def __init__(self, module: Any, inputs: list[Any], random: Any) -> None:
        self._module, self._inputs, self._random = module, inputs, random
        self._reference: list[Any] | None = None
        self._noisy: list[list[Any]] | None = None

    def eager(self) -> list[Any]:
        """Return the results, and the inputs after the call."""
        return self._run(WatchedArithmetic(), copied_inputs)

    def reference(self, at: int | None) -> Any:
        """Return a result in float64."""
        if self._reference is None:
            self._reference = self._run(Float64(), widened_inputs)
        return self._reference[at or 0]

    def noisy(self, at: int | None) -> list[Any]:
        """Return a result of runs that round at random."""
        if self._noisy is None:
            self._noisy = [self._run(Noisy(seed), copied_inputs) for seed in range(_NOISY)]
        return [each[at or 0] for each in self._noisy]

    def _run(self, arithmetic: WatchedArithmetic, change: Callable[[Sequence[Any]], list[Any]]) -> list[Any]:
        import torch
        from torch.utils import _pytree

        torch.set_rng_state(self._random)
        inputs = change(self._inputs)
        with arithmetic.active():
            return [*_pytree.tree_leaves(self._module(*inputs)), *inputs]


def wrong_results(eager: list[Any], values: list[Any], runs: Any) -> dict[int, ValueJudged]:
    """Return the results that are wrong, by their place."""
    import torch

    wrong = {}
    for at, (one, other) in enumerate(zip(eager, values, strict=True)):
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            continue
        if _is_other_kind(one, other):
            wrong[at] = ValueJudged(Judgement.WRONG, distance(other, one), ratio=math.inf)
            continue
        found = judged_pair(one, other.detach(), runs, at, lost=False)
        if found.judgement is Judgement.WRONG:
            wrong[at] = found
    return wrong


def _is_other_kind(one: Any, other: Any) -> bool:
    import torch

    are_tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return are_tensors and not same_kind(one, other)


@contextmanager
def before_passes() -> Iterator[dict[int, Any]]:
    """Keep a copy of each graph as it comes to the post-grad passes, by the identity of its module."""
    from torch._inductor import compile_fx

    found: dict[int, Any] = {}
    name = "_recursive_post_grad_passes"
    original = getattr(compile_fx, name)

    def passes(module: Any, *args: Any, **kwargs: Any) -> Any:
        # The passes change it in place.
        found[id(module)] = copy.deepcopy(module.graph)
        return original(module, *args, **kwargs)

    with patched(compile_fx, name, passes):
        yield found


def stage_of(found: DynamoGraph, before: dict[int, Any]) -> WrongStage | None:
    """Find the stage that makes a graph wrong whose kernels are right; None: not known."""
    for graph in found.lowered:
        earlier = before.get(id(graph.module))
        if earlier is None or not graph.arguments:
            continue
        # From the last stage to the first: what an early one breaks is wrong in all graphs after it.
        of = wrong_pass(graph, earlier) or _wrong_lowering(found, graph, earlier)
        of = of or _refused(found, graph, earlier)
        of = of or _other_kind(found, graph) or _wrong_view(found, graph) or _wrong_write(found, graph, earlier)
        if of is not None:
            of.part, of.scenario, of.step = graph.part, found.scenario, found.step
            if of.node is None or place_of(of.node)[0] is None:  # such as `copy_` into an input, at the end
                of.node = _last_writer(found) or of.node
            return of
    return None


def _all_values(module: Any, graph: Any, arguments: list[Any], arithmetic: WatchedArithmetic, change: Any) -> Values:
    """Compute every node of a graph, as it is directly after the node; placeholders as they are at the end.

    Raises:
        NotComputableError: an operation raises, or draws random numbers.
    """
    import torch

    placeholders = [each for each in graph.nodes if each.op == "placeholder"]
    values = dict(zip(placeholders, map(change, arguments), strict=False))
    kept: Values = {}
    # What later nodes write to is copied; the rest stays as it is.
    has_writes = any(map(written_arguments, graph.nodes))
    with torch.no_grad(), arithmetic.active():
        for node in graph.nodes:
            if node.op == "get_attr":
                values[node] = change(attribute(module, str(node.target)))
            elif node.op == "call_function":
                if (why := cannot_repeat(node)) is not None:
                    raise NotComputableError(why)
                values[node] = called_node(node, values.__getitem__)
            value = values.get(node)
            kept[node] = copied_value(value) if has_writes else value
    return {**kept, **{each: values[each] for each in placeholders if each in values}}


class _NodeRuns:
    """Nodes of a graph in other arithmetic."""

    def __init__(self, module: Any, graph: Any, arguments: list[Any]) -> None:
        self._of = module, graph, arguments
        self._reference: Values | None = None
        self._noisy: list[Values] | None = None

    def reference(self, node: Any) -> Any:
        """Return a node's value in float64."""
        if self._reference is None:
            self._reference = _all_values(*self._of, Float64(), widened)
        return self._reference[node]

    def noisy(self, node: Any) -> list[Any]:
        """Return a node's values in runs that round at random."""
        if self._noisy is None:
            self._noisy = [_all_values(*self._of, Noisy(seed), copied_value) for seed in range(_NOISY)]
        return [each[node] for each in self._noisy]


def wrong_pass(graph: WatchedGraph, earlier: Any) -> WrongStage | None:
    """Compare the graph before and after the post-grad passes: results first, then nodes of one name."""
    try:
        before = _all_values(graph.module, earlier, graph.arguments, WatchedArithmetic(), copied_value)
        after = _all_values(graph.module, graph.module.graph, graph.arguments, WatchedArithmetic(), copied_value)
    except NotComputableError:
        return None
    runs = _NodeRuns(graph.module, earlier, graph.arguments)
    # Results first: nodes may differ for good reason, as where a pass replaces what they mean.
    old_results, new_results = (_result_nodes(each) for each in (earlier, graph.module.graph))
    if not any(
        _differs(one, before[one], after[other], runs)
        for one, other in zip(old_results, new_results, strict=False)
        if one in before and other in after
    ):
        return None
    # Passes keep the names of the nodes that they leave alone.
    named = {each.name: each for each in graph.module.graph.nodes}
    for node in earlier.nodes:
        other = named.get(node.name)
        if node.op != "placeholder" and node in before and other is not None and other in after:
            wrong = _differs(node, before[node], after[other], runs)
            if wrong is not None:
                ops = tuple(dict.fromkeys((operator_name(node), operator_name(other))))
                return WrongStage("pass", _PASSES, node, ops, wrong.error, wrong.eager_error)
    return WrongStage("pass", _PASSES, _only_write(graph.module.graph), (), 0.0, 0.0)


def _refused(found: DynamoGraph, graph: WatchedGraph, earlier: Any) -> WrongStage | None:
    """Return the operation that eager refuses after the post-grad passes, and not before: it writes what it reads."""
    try:
        _all_values(graph.module, earlier, graph.arguments, WatchedArithmetic(), copied_value)
        _all_values(graph.module, graph.module.graph, graph.arguments, WatchedArithmetic(), copied_value)
    except RefusedError as error:
        if error.node.graph is graph.module.graph and found.judged is not None:
            judged, ops = found.judged, (operator_name(error.node),)
            return WrongStage("pass", _PASSES, error.node, ops, judged.error, judged.eager_error)
    except NotComputableError:
        pass
    return None


def _only_write(graph: Any) -> Any:
    """Return the only node of a graph that writes to memory."""
    writing = [each for each in graph.nodes if written_arguments(each)]
    if len(writing) != 1:
        return None
    return writing[0]


def _result_nodes(graph: Any) -> list[Any]:
    """Return the inputs, which may be written to, and the outputs of a graph."""
    return [*(each for each in graph.nodes if each.op == "placeholder"), *_outputs(graph)]


def _outputs(graph: Any) -> list[Any]:
    from torch.utils import _pytree

    output = next(each for each in graph.nodes if each.op == "output")
    return [each for each in _pytree.tree_leaves(output.args) if hasattr(each, "meta")]


def _differs(node: Any, one: Any, other: Any, runs: _NodeRuns) -> ValueJudged | None:
    """Return how `other` is wrong, in place of `one`, a node's value; None if it is not, or cannot be compared."""
    import torch

    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or not same_kind(one, other):
        return None
    found = judged_pair(one, other, runs, node, lost=False)
    if found.judgement is Judgement.WRONG:
        return found
    return None


def _wrong_lowering(found: DynamoGraph, graph: WatchedGraph, earlier: Any) -> WrongStage | None:
    """Compare the last values of each line of the user, in Dynamo's graph and in the one that Inductor gets."""
    from torch import fx

    values: Values = {}

    class Kept(fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            values[n] = copied_value(value)
            return value

    try:
        Kept(found.module).run(*copied_inputs(found.inputs))
        later = _all_values(graph.module, earlier, graph.arguments, WatchedArithmetic(), copied_value)
    except Exception:
        return None
    runs = _NodeRuns(graph.module, earlier, graph.arguments)
    old, new = _last_of_lines(found.module.graph, values), _last_of_lines(earlier, later)
    for line, node in old.items():
        other = new.get(line)
        if other is None:
            continue
        if found.is_other_kind and values[node].dtype != later[other].dtype:
            ops = tuple(dict.fromkeys((operator_name(node), operator_name(other))))
            return WrongStage("decomposition", _BEFORE, other, ops, distance(later[other], values[node]), 0.0)
        wrong = _differs(other, values[node], later[other], runs)
        # Both ways round: either graph may be the one whose values float64 convicts.
        wrong = wrong or _differs(other, later[other], values[node], runs)
        if wrong is not None:
            ops = tuple(dict.fromkeys((operator_name(node), operator_name(other))))
            return WrongStage("decomposition", _BEFORE, other, ops, wrong.error, wrong.eager_error)
    return None


def _other_kind(found: DynamoGraph, graph: WatchedGraph) -> WrongStage | None:
    """Return the first operation that Inductor lowers to another dtype than it has, if a result has another one."""
    if not found.is_other_kind or not graph.other_dtypes or found.judged is None:
        return None
    node = graph.other_dtypes[0]
    return WrongStage("graph", "Inductor's lowering", node, (operator_name(node),), found.judged.error, 0.0)


def _wrong_view(found: DynamoGraph, graph: WatchedGraph) -> WrongStage | None:
    """Return the view that a wrong result is, if passes and kernels are right: what Inductor makes of it is wrong."""
    results = _outputs(graph.module.graph)
    of_dynamo = _outputs(found.module.graph)
    if not found.results or found.judged is None or len(results) != len(of_dynamo) or len(found.lowered) != 1:
        return None
    node = results[found.results[0]]
    if memory_of(node) is node or memory_of(node).op == "placeholder":
        return None
    judged = found.judged
    return WrongStage("graph", "Inductor's lowering", node, (operator_name(node),), judged.error, judged.eager_error)


def _wrong_write(found: DynamoGraph, graph: WatchedGraph, earlier: Any) -> WrongStage | None:
    """Return the last operation that writes to an input which is wrong after the call."""
    at, judged = found.written, found.judged
    if at is None or judged is None:
        return None
    writer = _last_writer(found)
    place = None
    if at < len(found.places):
        place = found.places[at]
    kind, name = "graph", BETWEEN
    if place is not None and _is_wrong_before(found, graph, earlier, at, place):
        kind, name = "decomposition", _BEFORE
    ops: tuple[str, ...] = ()
    if writer is not None:
        ops = (operator_name(writer),)
    return WrongStage(kind, name, writer, ops, judged.error, judged.eager_error)


def _is_wrong_before(found: DynamoGraph, graph: WatchedGraph, earlier: Any, at: int, place: int) -> bool:
    """Whether an input is wrong after the graph that comes to the post-grad passes."""
    inputs = copied_inputs(found.inputs)
    try:
        found.module(*inputs)
        later = _all_values(graph.module, earlier, graph.arguments, WatchedArithmetic(), copied_value)
    except Exception:
        return False
    node = [each for each in earlier.nodes if each.op == "placeholder"][place]
    runs = _NodeRuns(graph.module, earlier, graph.arguments)
    pairs = ((inputs[at], later[node]), (later[node], inputs[at]))
    return any(_differs(node, one, other, runs) is not None for one, other in pairs)


def _last_writer(found: DynamoGraph) -> Any:
    """Return the node of Dynamo's graph that writes last to the input that is wrong; None: not known."""
    from torch import fx

    if found.written is None:
        return None
    inputs = copied_inputs(found.inputs)
    written = inputs[found.written]
    writers: list[Any] = []

    class Watching(fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            # A version counts writes, also those that leave the values as they were.
            version = written._version
            value = super().run_node(n)
            if written._version != version:
                writers.append(n)
            return value

    try:
        Watching(found.module).run(*inputs)
    except Exception:
        return None
    if not writers:
        return None
    return writers[-1]


def _last_of_lines(graph: Any, values: Values) -> dict[tuple[Any, ...], Any]:
    """Return the last node of each line, with its size and dtype, that has a value."""
    import torch

    found = {}
    for node in graph.nodes:
        value = values.get(node)
        if node.op != "placeholder" and isinstance(value, torch.Tensor):
            file, line, _ = place_of(node)
            if file is not None:
                found[file, line] = node
    return found
