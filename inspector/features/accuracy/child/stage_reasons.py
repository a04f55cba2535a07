"""Why a stage before the kernels is wrong: its graph is compiled again with one change at a time.

Dynamo's graph is compiled as it was, on the inputs that it had (and with its backward, if that is wrong). If the result
is wrong again, it is compiled without one of these: the decomposition of an operator of the line, a pass that the user
has set, a pass of Inductor. The first change after which nothing of the graph is beyond rounding is the reason.

Before that, operators of the user are watched: one that writes to an argument, where its schema says that it does not,
makes every stage wrong that moves a read of this argument to the other side of it. It is the reason if the graph is
right as soon as the operator gets copies. And a graph may be called with inputs that share memory in another way than
those that it was compiled for.
"""

import copy
import inspect
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.calls.overlapping_tensors import overlapping
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.node_lines import place_of
from ctrace.inspector.features.accuracy.child.kernel_judge import copied_inputs, copied_value, distance
from ctrace.inspector.features.accuracy.child.node_values import is_of_torch
from ctrace.inspector.features.accuracy.child.pieces import COMPILING_AGAIN
from ctrace.inspector.features.accuracy.child.stage_graphs import (
    DynamoGraph,
    GraphRuns,
    WrongStage,
    recompiled,
    wrong_results,
)

_MOST_SECONDS = 60.0
"""After this time, no further change is tried: a graph of a large model compiles for minutes."""
GUARDS = "Dynamo's guards"
OWN = "it is your own code, which a program of plain PyTorch does not have"
UNDECLARED = "a write that the operator's schema leaves out"

_CUSTOM = {
    "pass": ("post_grad_custom_pre_pass", "post_grad_custom_post_pass"),
    "decomposition": ("pre_grad_custom_pass", "joint_custom_pre_pass", "joint_custom_post_pass"),
}
"""Settings of Inductor with passes of the user, by the stage that they belong to."""
_PASSES = {
    "pass": (
        ("reorder_for_locality", "the new order of operations"),
        ("pattern_matcher", "a pattern of operations that Inductor replaces"),
        ("use_post_grad_passes", "a post-grad pass"),
    ),
    "decomposition": (
        ("pattern_matcher", "a pattern of operations that Inductor replaces"),
        ("joint_graph_constant_folding", "a constant that Inductor computes ahead"),
        ("use_joint_graph_passes", "a pass on the joint graph"),
        ("use_pre_grad_passes", "a pre-grad pass"),
    ),
}


class _Change(Struct, frozen=True):
    """A change of how a graph is compiled."""

    reason: str
    remedy: str
    settings: dict[str, Any] = field(default_factory=dict)
    operator: str = ""
    """The operator whose decomposition it takes away."""
    is_own: bool = False
    """Whether it takes away something of the user, which a program of plain PyTorch does not have."""
    active: Callable[[], AbstractContextManager[None]] = nullcontext


class _Undeclared(Struct, frozen=True):
    """A node of Dynamo's graph that writes to arguments, and its schema does not say so."""

    node: Any
    name: str
    names: tuple[str, ...]
    places: tuple[int, ...]


class StageReasons:
    """Finds reasons for wrong graphs, and counts what it compiles."""

    def __init__(self) -> None:
        self.tried = 0
        self.untried: dict[tuple[str, str], None] = {}
        """What could not be tried, and why, of stages without a reason."""

    def explained(self, found: DynamoGraph, made: WrongStage) -> WrongStage:
        """Return a wrong stage with its reason, as far as one is found."""
        of_forward = (self._undeclared, self._compiled_for_others, self._changed)
        for explain in of_forward if made.stage != "backward" else (self._changed,):
            try:
                if explain(found, made):
                    break
            except Exception as error:  # foreign code, or a graph that does not compile outside of its program
                self._leave_out(made, [kind_and_message(error)])
        return made

    def _leave_out(self, made: WrongStage, errors: list[str]) -> None:
        """Note why changes to a stage could not be tried."""
        for error in errors:
            self.untried[f"the reason why {made.name} went wrong", error.partition("\n")[0][:200]] = None

    def _undeclared(self, found: DynamoGraph, made: WrongStage) -> bool:
        """Blame a write that a schema leaves out, if the graph is right where the operator gets copies."""
        writing = _undeclared_writes(found)
        if writing is None:
            return False
        module = _with_copies(found.module, writing)
        if self._tried(partial(_error, found, module), _Change("", "")) is None:
            return False
        name, names = writing.name, " and ".join(f"`{each}`" for each in writing.names)
        reason = f"{name} writes to {names}, which `mutates_args` leaves out; the graph is right if it gets a copy"
        made.kind, made.name, made.node, made.ops, made.reason = "graph", UNDECLARED, writing.node, (name,), reason
        made.no_program = OWN
        if found.judged is not None:
            made.error, made.eager_error = found.judged.error, found.judged.eager_error
        return True

    def _compiled_for_others(self, found: DynamoGraph, made: WrongStage) -> bool:
        """Blame the guards, if the graph was compiled for inputs that overlapped otherwise, and is right for these."""
        if sorted(map(sorted, overlapping(found.inputs))) == found.first_overlap:
            return False
        if self._tried(partial(_error, found, found.module), _Change("", "")) is None:
            return False
        made.kind, made.name, made.no_program = "graph", GUARDS, "it takes calls with other inputs before"
        made.reason = "the graph was compiled for inputs that share memory in another way, and no guard looks at it"
        return True

    def _changed(self, found: DynamoGraph, made: WrongStage) -> bool:
        """Blame the first change that makes the graph right."""
        began = time.perf_counter()
        changes = list(_changes(found, made))
        error_of = made.retry or partial(_error, found, found.module)
        if not changes:
            return False
        if self._tried(error_of, _Change("", "")) is not None:  # so no change would prove anything
            self._leave_out(made, ["its graph is right when it is compiled by itself"])
            return False
        failed: list[str] = []
        for at, change in enumerate(changes):
            if time.perf_counter() - began > _MOST_SECONDS:
                failed.append(f"{len(changes) - at} of {len(changes)} changes were left after {_MOST_SECONDS:.0f} s")
                break
            error = None
            try:
                error = self._tried(error_of, change)
            except Exception as raised:  # it does not compile so
                failed.append(f"without {change.reason}: {kind_and_message(raised)}")
            if error is not None:
                made.reason, made.remedy, made.remedy_error = change.reason, change.remedy, error
                if change.is_own:
                    made.no_program = OWN
                else:
                    made.no_program = ""
                if made.node is None and change.operator:
                    _place_by_operator(found, made, change.operator)
                return True
        self._leave_out(made, failed)
        return False

    def _tried(self, error_of: Callable[[dict[str, Any]], float | None], change: _Change) -> float | None:
        """Compile with a change; return the largest error, None if a result is beyond rounding."""
        from torch._inductor import config

        self.tried += 1
        with config.patch(COMPILING_AGAIN), change.active():
            return error_of(change.settings)


def _error(found: DynamoGraph, module: Any, settings: dict[str, Any]) -> float | None:
    """Compile a graph with some settings, and run it; return its largest error, None if one is beyond rounding."""
    import torch
    from torch.utils import _pytree

    inputs = [
        each.requires_grad_() if needs else each
        for each, needs in zip(copied_inputs(found.inputs), found.needs_gradient, strict=True)
    ]
    compiled = recompiled(found, module, inputs, settings)
    torch.set_rng_state(found.random)
    results = (*_pytree.tree_leaves(compiled(*inputs)), *inputs)
    values = [each.detach() if isinstance(each, torch.Tensor) else each for each in results]
    with torch.no_grad():
        runs = GraphRuns(module, found.inputs, found.random)
        eager = runs.eager()
        if wrong_results(eager, values, runs):
            return None
        exact = [runs.reference(at) for at in range(len(eager))]
    pairs = [(one, other) for one, other in zip(values, exact, strict=True) if isinstance(one, torch.Tensor)]
    return max((distance(one, other) for one, other in pairs), default=0.0)


def _undeclared_writes(found: DynamoGraph) -> _Undeclared | None:
    """Run a graph in eager; return the first operator of the user that writes to what its schema says it only reads."""
    import torch
    from torch import fx

    writing: list[_Undeclared] = []

    class Watching(fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            operator = _own_operator(n.target)
            if writing or operator is None:
                return super().run_node(n)
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            before = list(map(copied_value, args))
            result = n.target(*args, **kwargs)
            schema = operator._schema.arguments
            places = tuple(
                at
                for at, (one, other) in enumerate(zip(before, args, strict=True))
                if not (schema[at].alias_info is not None and schema[at].alias_info.is_write)
                and isinstance(one, torch.Tensor)
                # NaN would differ from itself, and accuse an operator that wrote nothing.
                and not torch.equal(one.nan_to_num(), other.nan_to_num())
            )
            if places:
                writing.append(
                    _Undeclared(n, str(operator.overloadpacket), tuple(schema[at].name for at in places), places)
                )
            return result

    torch.set_rng_state(found.random)
    with torch.no_grad():
        Watching(found.module).run(*copied_inputs(found.inputs))
    if not writing:
        return None
    return writing[0]


def _own_operator(target: Any) -> Any:
    """Return the overload of an operator of the user; None: it is one of torch, or no single one."""
    import torch

    if isinstance(target, torch._ops.OpOverloadPacket) and len(target.overloads()) == 1:
        target = getattr(target, target.overloads()[0])
    if isinstance(target, torch._ops.OpOverload) and not is_of_torch(target.namespace):
        return target
    return None


def _with_copies(module: Any, writing: _Undeclared) -> Any:
    """Return a graph in which an operator gets copies of what it writes to."""
    import torch

    graph = copy.deepcopy(module.graph)
    node = next(each for each in graph.nodes if each.name == writing.node.name)
    args = list(node.args)
    with graph.inserting_before(node):
        for at in writing.places:
            args[at] = graph.call_method("clone", (args[at],))
    node.args = tuple(args)
    return torch.fx.GraphModule(module, graph)


def _changes(found: DynamoGraph, made: WrongStage) -> Iterator[_Change]:
    """Yield the changes to try, the most likely ones first."""
    from torch._inductor import config

    stages = tuple(_PASSES)
    if made.kind in _PASSES:
        stages = (made.kind,)
    if "decomposition" in stages:
        yield from _without_decompositions(found, made)
    for stage in stages:
        for name in _CUSTOM[stage]:
            if getattr(config, name, None) is not None:
                remedy = f"torch._inductor.config.{name} = None"
                yield _Change(f"the pass that `{name}` is set to", remedy, {name: None}, is_own=True)
    for stage in stages:
        for name, reason in _PASSES[stage]:
            if getattr(config, name, False):
                yield _Change(reason, f"torch._inductor.config.{name} = False", {name: False})


def _without_decompositions(found: DynamoGraph, made: WrongStage) -> Iterator[_Change]:
    """Yield a change for each decomposition of what the line of a wrong node calls, or the graph without a line."""
    from torch._inductor import decomposition

    by_name = {str(each): each for each in decomposition.decompositions}  # a copied graph has copies of operators
    for name in _operators(found, made):
        operator = by_name.get(name)
        if operator is not None:
            function = decomposition.decompositions[operator]
            place = _place(function)
            reason = f"the decomposition of {operator.overloadpacket}{place}"
            remedy = f"torch._inductor.decomposition.decompositions.pop(torch.ops.{operator})"
            active = partial(_without, operator)
            yield _Change(reason, remedy, operator=name, is_own=bool(place), active=active)


@contextmanager
def _without(operator: Any) -> Iterator[None]:
    """Take an operator out of the table of decompositions in the block, so that Inductor calls the one of PyTorch."""
    from torch._inductor import decomposition, lowering

    table, known = decomposition.decompositions, lowering.lowerings
    kept, lowered = dict(table), dict(known)
    del table[operator]
    # Where CI is set, Inductor raises for a fallback that has a decomposition: `make_fallback` in lowering.py (2.13).
    ci = os.environ.pop("CI", None)
    try:
        yield
    finally:
        if ci is not None:
            os.environ["CI"] = ci
        for mapping, before in ((table, kept), (known, lowered)):
            mapping.clear()
            mapping.update(before)  # in their old order


def _place(function: Any) -> str:
    """Return where a decomposition of the user is; empty if it is torch's own."""
    import torch

    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or Path(code.co_filename).is_relative_to(Path(torch.__file__).parent):
        return ""
    return f" in {Path(code.co_filename).name}:{code.co_firstlineno}"


def _place_by_operator(found: DynamoGraph, made: WrongStage, operator: str) -> None:
    """Put a stage whose line is not known where the operator is called whose decomposition is wrong, if on one line."""
    graphs = [each.module.graph for each in found.lowered if (each.stage == "backward") is (made.stage == "backward")]
    nodes = [each for graph in graphs for each in graph.nodes if str(each.meta.get("original_aten")) == operator]
    nodes = [each for each in nodes if place_of(each)[0] is not None]
    # On several lines, it is not known which of them is wrong.
    if len({place_of(each)[:2] for each in nodes}) == 1:
        made.node, made.ops = nodes[-1], (operator.rpartition(".")[0],)


def _operators(found: DynamoGraph, made: WrongStage) -> list[str]:
    """Return the names of what eager calls for the line of a wrong node, or for the whole graph, in their order."""
    graphs = [each.module.graph for each in found.lowered if each.stage == "backward" or made.stage != "backward"]
    line = None
    if made.node is not None:
        graphs = [made.node.graph, *graphs]
        line = place_of(made.node)[:2]
    nodes = [each for graph in graphs for each in graph.nodes if line is None or place_of(each)[:2] == line]
    if made.node is not None:
        nodes.insert(0, made.node)
    called = (each.meta.get("original_aten") for each in nodes)
    return list(dict.fromkeys(map(str, called)))
