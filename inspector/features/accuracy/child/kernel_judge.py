"""Judge what each kernel writes: is it further from float64 than rounding explains, given its real inputs?

A kernel's results are compared one stored buffer at a time, with the FX nodes that compute this buffer from what the
kernel read. The rule is that of whole models (`comparing/judgement.py`): eager computes the same nodes in the model's
own dtypes and in float64; the distance of eager from float64, and of eager calls that round each operation once more
at random (in proportion to the value, and sums by their partial sums), is what rounding explains,
and five times that, or one rounding of the dtype, is allowed. So a long sum, a cancellation or a steep function widens
the limit by as much as it widens eager's own error, and no tolerance has to be chosen.

A buffer is computed from the values nearest to it: other buffers that the same kernel stores, else the kernel's
inputs. A kernel may use a value before it rounds it to store it, so a buffer is wrong only if it is wrong by both.

Memory that nodes write into, such as an input of the graph, is judged as it is after the last of them that the kernel
computes. A node that comes before a write gets what was there before, also if its kernel runs later: it is then wrong.

Eager adds up in pairs, or in many partial sums, and is close to the exact sum by its algorithm, not by luck; a kernel
may add one term after the other, and is no less right. Its rounding errors follow from the partial sums S_k that it
goes through: each addition rounds one of them, by at most 2^-24 of it, at random. So a sum of n terms is off by about
2^-24 times the root of the sum of all S_k^2: of n/3 times the result if all terms have one sign, of little more than
the terms if they cancel on the way. A constant or a number of terms would be too much for the one or too little for
the other.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.calls.call_tensors import with_memory
from ctrace.inspector.capture.calls.overlapping_tensors import copied_together, overlapping
from ctrace.inspector.capture.comparing.arithmetic import Noisy, WatchedArithmetic, operation
from ctrace.inspector.capture.comparing.float64 import Float64, NoReferenceError, widened_together
from ctrace.inspector.capture.comparing.judgement import (
    HOPELESS,
    NEAR_TIE,
    TINY,
    Judged,
    Judgement,
    judged,
)
from ctrace.inspector.capture.comparing.precision import FLOAT32, FLOAT64, precision_of
from ctrace.inspector.capture.isolation.private_copies import free_memory
from ctrace.inspector.features.accuracy.child.node_values import (
    NotComputableError,
    Values,
    cannot_repeat,
    computed,
    has_own_result,
    memory_of,
    needed,
    writes_of,
)
from ctrace.inspector.features.accuracy.child.watched_kernels import Listener, WatchedCall, WatchedGraph
from ctrace.inspector.processes.machine import memory

_SUMS = ("sum", "mean", "cumsum")


class NoisySums(Noisy):
    """Noisy arithmetic, in which the order of additions counts."""

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = super()._run(func, args, kwargs)
        precision = precision_of(getattr(result, "dtype", None))
        if operation(func) not in _SUMS or precision is None or result.is_complex() or not args[0].numel():
            return result
        if precision is FLOAT64:
            roundoff = FLOAT64.roundoff
        else:  # sums of 16-bit values accumulate in float32, in eager and in Inductor's kernels
            roundoff = FLOAT32.roundoff
        import torch

        # Each partial sum is rounded once: the errors add up like random steps of these sizes.
        size = rounding_of(operation(func), args, result) * roundoff
        generator = self._generator(result.device)
        noise = torch.randn(size.shape, generator=generator, dtype=size.dtype, device=size.device)
        return (result.double() + noise * size).to(result.dtype)


def rounding_of(name: str, args: Any, result: Any) -> Any:
    """Return the root of the sum of the squares of all partial sums, for each sum of a result."""
    terms = args[0].double()
    dims = None
    if len(args) > 1 and args[1] is not None:
        dims = args[1]
    if name == "cumsum":
        return terms.cumsum(dims).square().cumsum(dims).sqrt()
    if not terms.dim():
        terms = terms.reshape(1)
    if dims is None or dims == []:
        dims = list(range(terms.dim()))
    reduced = sorted(each % terms.dim() for each in ([dims] if isinstance(dims, int) else dims))
    kept = [each for each in range(terms.dim()) if each not in reduced]
    rows = terms.permute(*kept, *reduced).flatten(len(kept))
    found = rows.cumsum(-1).square().sum(-1).sqrt()
    if name == "mean":
        found = found / rows.shape[-1]
    return found.reshape(result.shape)


MOST_LOCATED = 12
"""How many wrong buffers are kept with their inputs, and taken apart; more of one cause say nothing new."""
_NOISY = 6
"""Eager runs that round at random, before a buffer is called wrong; `judgement` estimates near ties from 4 or more."""
_EXPLAINED = (HOPELESS, NEAR_TIE, TINY)
"""Reasons to leave a whole result undecided that are good enough for one kernel: no further away than rounding."""
_FLIPPED = 0.02
"""The share of values of 16 bits that may differ from eager by another order of float32 sums alone: 2^-24 of 2^-8 or
2^-11 of each value would be 0.02 % or less, and a sum of thousands of terms multiplies that by some tens."""
_PART = 16
"""By which part of the free memory inputs are bounded: eager, float64 and noisy values of a kernel, some of which are
twice as large, exist at once."""
# Chosen: below this, asking the machine for its free memory costs more than it can save.
_SMALL = 16 << 20
_UNKNOWN = "it is not known which operation of the graph it computes"
_NOT_FINITE = "eager has NaN or infinity where float64 has not, too"
_LOST = 2.0**-16
"""The relative difference of float32 values that a rounding to 16 bits leaves, and that of float32 does not."""


class SizeLimit:
    """The most memory that the inputs may have of what is compared."""

    def __init__(self, most: int | None) -> None:
        self._most = most

    def exceeded_by(self, values: Sequence[Any]) -> str:
        """Say by how much some tensors exceed it; empty: they do not."""
        import torch

        held = [each for each in values if isinstance(each, torch.Tensor) and not each.is_meta]
        # Views of one storage are copied with it once.
        size = sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in held}.values())
        if self._most is None and size < _SMALL:
            return ""
        if any(each.is_cuda for each in held):
            free = free_memory()
        else:
            free = memory()
        if self._most is None:
            most = free // _PART
        else:
            most = self._most
        if size <= most:
            return ""
        limit = "a sixteenth of the free memory" if self._most is None else "--max-bytes"
        return f"its inputs have {size / 1e6:.4g} MB, more than {limit} ({most / 1e6:.4g} MB)"


class StoredBuffer(Struct, eq=False):
    """A buffer that a kernel wrote, judged."""

    graph: WatchedGraph
    call: WatchedCall
    number: int
    """The number of the call in its graph."""
    node: Any
    """The FX node whose value it holds."""
    judgement: Judgement
    error: float
    """Largest distance from float64, or from eager for values that are not rounded."""
    eager_error: float
    is_other: bool = False
    """Whether it differs from eager by more than another order of additions explains."""
    known: Values = field(default_factory=dict)
    """Copies of the kernel's inputs by node, of a culprit."""
    value: Any = None
    scenario: str = ""
    step: int | None = None
    writes: tuple[Any, ...] = ()
    """The nodes that write into its memory, if it is judged after them."""
    late: Any = None
    """A node that reads an input after a later node has written to it, which explains what is wrong."""


class Nonfinite(Struct, eq=False):
    """A kernel that wrote NaN or infinities, of inputs that had none."""

    graph: WatchedGraph
    call: WatchedCall
    node: Any
    in_eager: bool
    step: int | None = None


class KernelJudge(Listener):
    """Judges each kernel of compiled calls while they run."""

    def __init__(self, *, against_eager: bool = False, limit: SizeLimit | None = None) -> None:
        self.against_eager = against_eager
        self._limit = limit or SizeLimit(None)
        self._exceeds = ""
        """Why the next call is not compared: what it reads is too large to copy."""
        self.scenario = ""
        self.step: int | None = None
        self.wrong: list[StoredBuffer] = []
        self.compared = 0
        self.not_compared: dict[tuple[str, str], None] = {}
        self.open_parts: set[int] = set()
        """Graphs of which something was not compared: what is wrong in them may be there."""
        self.nonfinite: Nonfinite | None = None
        self._inputs: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}
        """Inputs of calls that wrote only a part of a node's value, which a later call completes."""
        self._arguments: dict[int, list[Any]] = {}
        self._before: dict[Any, Any] = {}
        """Copies of inputs that a kernel may read too late, from before the first kernel."""

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Remember the arguments, and copy what the first kernel reads."""
        self._arguments = {id(graph): args}
        self._kept = {}
        # Before the first kernel, because a later one has overwritten what these should have read.
        late = {base for number in range(len(graph.calls)) for base, _ in _late_readers(graph, number, number)}
        inputs = dict(zip(_placeholders(graph), graph.inputs, strict=True))
        self._before = {base: copied_value(names[inputs[base]]) for base in late & inputs.keys()}
        if not graph.instrumented and graph.calls:
            self._leave_out(
                graph, f"graph {graph.part} ({graph.stage})", "its code has a form that ctrace does not know"
            )
        self._copy_inputs(graph, 0, names)

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Judge what the call wrote."""
        import torch

        call = graph.calls[number]
        # Judging calls the operators of the graph; nothing of it may become a part of the program's backward.
        with torch.no_grad():
            if not call.is_view:
                self._judge(graph, number, names)
            self._copy_inputs(graph, number + 1, names)

    def _copy_inputs(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        if number >= len(graph.calls):
            return
        if _has_open_results(graph, number - 1, names):
            self._kept |= self._inputs  # the call that completes the value is judged from where the first one began
        reads = {**_written_variables(graph, number), **graph.calls[number].reads}
        self._exceeds = self._limit.exceeded_by([names[each] for each in {*reads.values()} if each in names])
        if self._exceeds:
            self._inputs = {}
            return
        self._inputs = {name: copied_value(names[variable]) for name, variable in reads.items() if variable in names}

    def _known(self, graph: WatchedGraph, number: int, names: Mapping[str, Any]) -> Values:
        """Return the values of nodes before the call: copies of what it read, and what it left alone."""
        import torch

        call = graph.calls[number]
        # Numbers are arguments, too, and no buffer holds them.
        arguments = zip(_placeholders(graph), graph.inputs, self._arguments[id(graph)], strict=True)
        found: Values = {node: value for node, _, value in arguments if not isinstance(value, torch.Tensor)}
        written = {*call.writes, *call.writes.values()}
        # A joined buffer is a part of a larger one: a write anywhere in that memory may have changed it.
        memory = {place for each in written if (place := _memory(names.get(each))) is not None}
        whole = {name for name in graph.joined if _memory(names.get(name)) not in memory}
        buffers = {each: name for each, name in graph.buffers.items() if name not in graph.joined or name in whole}
        inputs = dict(zip(_placeholders(graph), graph.inputs, strict=True))
        # What the call does not write is read where it is; what it may have overwritten, from the copies made before.
        left = {name: value for name, value in (*self._kept.items(), *names.items()) if name not in written}
        known = {**left, **self._inputs}
        to = writes_of(graph.module.graph).to
        for node, name in (*inputs.items(), *buffers.items()):
            is_changed = memory_of(node) is not node and memory_of(node) in to
            if name in known and node not in found and not is_changed:
                found[node] = known[name]
        for each in [one for one, last in graph.written.items() if last < number]:  # must not run again
            if has_own_result(each):
                found.setdefault(each, None)
            else:
                found[each] = found.get(memory_of(each)) if each.args[0] is memory_of(each) else None
        copies = {node: self._inputs[name] for name, node in graph.copies.items() if name in self._inputs}
        return {**found, **copies}

    def _judge(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        call = graph.calls[number]
        if self._exceeds:
            self._leave_out(graph, call.name, self._exceeds)
            return
        known = self._known(graph, number, names)
        stored = stored_nodes(graph, number, names)
        writes = {node: writes_until(graph, number, node) for node in stored}
        # A call without a value of the graph is only worth a remark if no later call adds to what it wrote.
        if stored:
            self._look_for_nonfinite(graph, call, known, {node: stored[node] for node in stored if not writes[node]})
        elif call.is_external and not _goes_on(graph, number) and not lacks_bias(call):
            why = next((why for each in call.origins if (why := cannot_repeat(each)) is not None), _UNKNOWN)
            self._leave_out(graph, call.name, why)
        elif not call.is_external and not _has_open_results(graph, number, names):
            self._leave_out(graph, call.name, _UNKNOWN)
        late = dict(_late_readers(graph, number, number + 1))
        # Where Inductor moved a read behind a write, the kernel has read the later value: judge it with both.
        in_time = {**known, **{base: self._before[base] for base in late if base in self._before}}
        too_late = {**known, **{base: names[each] for base in late if (each := _variable(graph, base)) in names}}
        for node, value in stored.items():
            others = (other for other in stored if other is not node and stored[other] is not value)
            beside = {other: stored[other] for other in others if not writes[other] and other not in writes[node]}
            of = partial(judged_value, graph.module, node, value, writes=writes[node], is_strict=self.against_eager)
            try:
                # Values that the same kernel stored are rounded to their dtype in memory. The kernel may have read them
                # back or kept them in registers; one of the two is enough.
                found = of({**in_time, **beside})
                if found.judgement is Judgement.WRONG and beside:
                    found = of(in_time)
                is_late = late and found.judgement is Judgement.WRONG and of(too_late).judgement is Judgement.FINE
            except NotComputableError as error:
                self._leave_out(graph, f"{call.name}: {node.name}", str(error))
                continue
            nodes = needed([node, *writes[node]], in_time)
            reader = None
            if is_late:
                reader = next((each for each in late.values() if each in nodes), None)
            buffer = StoredBuffer(
                graph=graph,
                call=call,
                number=number,
                node=node,
                judgement=found.judgement,
                error=found.error,
                eager_error=found.eager_error,
                is_other=found.is_other,
                known=in_time,
                value=value,
                scenario=self.scenario,
                step=self.step,
                writes=writes[node],
                late=reader,
            )
            self._note(buffer, found.why)

    def _note(self, stored: StoredBuffer, why: str) -> None:
        call, node = stored.call, stored.node
        self.compared += 1
        is_wrong = stored.judgement is Judgement.WRONG
        if stored.judgement is Judgement.UNDECIDED:
            self._leave_out(stored.graph, f"{call.name}: {node.name}", why)
        elif is_wrong and call.is_external and not _knows_inputs(stored.graph, call):
            self._leave_out(stored.graph, call.name, "it is not known which value of the graph each of its inputs is")
        elif is_wrong or (stored.is_other and self.against_eager):
            # The copies are for taking the kernel apart later, and may be large.
            keeps = len(self.wrong) < MOST_LOCATED
            nodes = []
            if keeps:
                nodes = needed([node, *stored.writes], stored.known)
            inputs = {each for one in nodes for each in one.all_input_nodes if each in stored.known}
            stored.known = {each: copied_value(stored.known[each]) for each in inputs}
            stored.value = copied_value(stored.value) if keeps else None
            self.wrong.append(stored)

    def _look_for_nonfinite(self, graph: WatchedGraph, call: WatchedCall, known: Values, stored: Values) -> None:
        if self.nonfinite is not None:
            return
        made = [node for node, value in stored.items() if has_nonfinite(value)]
        if not made:
            return
        nodes = needed(made, known)
        read = {each for node in nodes for each in node.all_input_nodes if each in known}
        if any(has_nan(known[each]) for each in read):
            return  # they came from before this kernel
        try:
            values = {
                **{each: known[each] for each in read},
                **computed(graph.module, nodes, known, WatchedArithmetic(), copied_value),
            }
        except NotComputableError:
            values = {}
        for node in nodes:
            if node in values and _makes_nonfinite(node, values):
                self.nonfinite = Nonfinite(graph, call, node, in_eager=True, step=self.step)
                return
        # No operation of eager makes them: then the kernel does, unless infinities went in.
        makes = any(has_nonfinite(known[each]) for each in read)
        if not makes and not any(has_nonfinite(values.get(each)) for each in nodes):
            self.nonfinite = Nonfinite(graph, call, made[0], in_eager=False, step=self.step)

    def _leave_out(self, graph: WatchedGraph, what: str, why: str) -> None:
        self.not_compared[what, why] = None
        self.open_parts.add(graph.part)


class ValueJudged(Struct, frozen=True):
    """A value of compiled code beside those of eager and float64."""

    judgement: Judgement
    error: float = 0.0
    eager_error: float = 0.0
    is_other: bool = False
    why: str = ""
    ratio: float = 0.0


def judged_value(
    module: Any, node: Any, value: Any, known: Values, *, writes: Sequence[Any] = (), is_strict: bool = False
) -> ValueJudged:
    """Judge the value that compiled code has for a node, given values of other nodes.

    Args:
        writes: nodes that write into the node's memory, if the value is the one after them.

    Raises:
        NotComputableError: eager cannot compute it by itself.
    """
    import torch

    if (why := cannot_repeat(node)) is not None:
        raise NotComputableError(why)
    if node.op == "placeholder" and not writes:  # a copy of an input with other strides
        same = node in known and same_kind(known[node], value) and _equal(known[node], value)
        return ValueJudged(Judgement.FINE if same else Judgement.WRONG, distance(known[node], value))
    if not writes:  # the value of the node itself must be computed; what later nodes write to it starts from it
        known = {each: one for each, one in known.items() if each is not node}
    nodes = needed([node, *writes], known)
    in_eager = computed(module, nodes, known, WatchedArithmetic(), copied_value)
    eager = in_eager[node]
    is_several = isinstance(value, tuple | list) and isinstance(eager, tuple | list)
    if is_several:
        pairs = list(zip(eager, value, strict=False))
    else:
        pairs = [(eager, value)]
    chosen = {at: pair for at, pair in enumerate(pairs) if isinstance(pair[0], torch.Tensor) and pair[1] is not None}
    if not all(same_kind(one, other) for one, other in chosen.values()):
        # Inductor may keep a value in another dtype, or padded, where only its own kernels read it.
        raise NotComputableError("the kernel stores it with another size or dtype")
    if all(_equal(one, other) for one, other in chosen.values()):
        return ValueJudged(Judgement.FINE)
    decided = {each: in_eager[each] for each in nodes if each is not node and _asks_for_equality(each)}
    if decided:
        known = {**known, **decided}
        nodes = needed([node, *writes], known)
    runs = _Runs(module, nodes, known, node)
    worst = ValueJudged(Judgement.FINE)
    for index, (one, other) in chosen.items():
        at = None
        if is_several:
            at = index
        found = judged_pair(one, other, runs, at, lost=is_strict and _has_short(nodes))
        worst = max(worst, found, key=lambda each: (_ORDER[each.judgement], each.is_other, each.ratio))
    return worst


_EQUALITIES = ("eq", "ne")


def _asks_for_equality(node: Any) -> bool:
    """Whether a node asks which floating-point values are equal, as the gradient of `amax` does.

    What eager rounded to one value is rarely equal in float64: no maximum is found, and its gradient is divided by 0.
    So the reference takes eager's answer.
    """
    import torch

    is_equality = str(getattr(node.target, "overloadpacket", "")).rpartition(".")[2] in _EQUALITIES
    values = [each.meta.get("val") for each in node.all_input_nodes]
    return is_equality and any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in values)


_ORDER = {Judgement.FINE: 0, Judgement.UNDECIDED: 1, Judgement.WRONG: 2}


class _Runs:
    """The same nodes in other arithmetic, each computed when it is first needed."""

    def __init__(self, module: Any, nodes: list[Any], known: Values, node: Any) -> None:
        self._module, self._nodes, self._known, self._node = module, nodes, known, node
        self._noisy: list[Any] = []
        self._reference: Any = None

    def reference(self, at: int | None) -> Any:
        """Return the value in float64."""
        if self._reference is None:
            self._reference = self._run(Float64(), widened)
        if at is None:
            return self._reference
        return self._reference[at]

    def noisy(self, at: int | None) -> list[Any]:
        """Return values of eager runs that round at random."""
        if not self._noisy:
            self._noisy = [self._run(NoisySums(seed), copied_value) for seed in range(_NOISY)]
        return [each if at is None else each[at] for each in self._noisy]

    def _run(self, arithmetic: WatchedArithmetic, change: Any) -> Any:
        try:
            return computed(self._module, self._nodes, self._known, arithmetic, change)[self._node]
        except NoReferenceError as error:
            raise NotComputableError(str(error)) from error


def judged_pair(eager: Any, value: Any, runs: Any, at: Any, *, lost: bool) -> ValueJudged:
    """Judge a value beside eager's.

    Args:
        eager: The value of the eager call.
        value: The one to judge.
        runs: The same computation in float64 (`reference`), and with random rounding (`noisy`).
        at: What these name the value by: the number of a result, a node, or nothing if there is only one.
        lost: Whether a value that lost rounding to its dtype on the way counts as another one.
    """
    if _equal(eager, value):
        return ValueJudged(Judgement.FINE)
    reference = runs.reference(at)
    # Noisy runs cost several eager ones: they only have to confirm what looks wrong without them.
    found = judged(eager, value, reference, [])
    if found.judgement is Judgement.WRONG:
        found = judged(eager, value, reference, runs.noisy(at))
    error, eager_error = distance(value, reference), distance(eager, reference)
    if found.judgement is Judgement.WRONG and math.isinf(error) and math.isinf(eager_error):
        return ValueJudged(Judgement.UNDECIDED, why=_NOT_FINITE)
    judgement = found.judgement
    by_measure = (found.compiled_error, found.eager_error)
    if judgement is Judgement.WRONG and error <= 2 * eager_error and None not in by_measure:
        error, eager_error = map(float, by_measure)  # type: ignore[arg-type]  # the measure by which it is worse
    if judgement is Judgement.UNDECIDED and found.why in _EXPLAINED and not _is_far(found):
        judgement = Judgement.FINE
    is_other = lost and judgement is Judgement.FINE and _has_lost_rounding(eager, value)
    if is_other:
        error, eager_error = distance(value, eager), 0.0
    return ValueJudged(judgement, error, eager_error, is_other, found.why, found.ratio)


def _is_far(found: Judged) -> bool:
    """Whether an undecided value is further away than rounding explains, by the largest of its measures."""
    if found.compiled_error is None or found.eager_error is None:
        return False
    return found.why == HOPELESS and found.compiled_error > 5 * found.eager_error + 1e-30


def _has_short(nodes: Sequence[Any]) -> bool:
    """Whether some nodes compute in 16 bits."""
    import torch

    values = (node.meta.get("val") for node in nodes)
    return any(isinstance(each, torch.Tensor) and each.dtype in (torch.float16, torch.bfloat16) for each in values)


def _has_lost_rounding(eager: Any, value: Any) -> bool:
    """Whether a value differs from eager as it does without a rounding to 16 bits that eager makes."""
    if precision_of(eager.dtype) is None or not eager.numel():
        return False
    if eager.element_size() == 2:  # both are rounded: count how many values ended on another side
        return float((eager != value).float().mean()) > _FLIPPED
    one, other = eager.double(), value.double()
    size = float(one.nan_to_num().square().mean().sqrt())
    return float((one - other).nan_to_num().square().mean().sqrt()) > _LOST * size


def stored_nodes(graph: WatchedGraph, number: int, names: Mapping[str, Any]) -> Values:
    """Return the nodes whose values a call stored, and no later call adds to, with these values."""
    call = graph.calls[number]
    by_name: dict[str, list[Any]] = {}
    to = writes_of(graph.module.graph).to
    for node, name in graph.buffers.items():
        is_changed = memory_of(node) is not node and memory_of(node) in to
        # A node that later nodes write to is judged after the last of them, and not here.
        if not is_changed and graph.finished.get(node) == number:
            by_name.setdefault(name, []).append(node)
    found: Values = {}
    for name, variable in call.writes.items():
        if variable not in names:
            continue
        # What writes into another buffer has its variable, and a node may be known by either name.
        own = (*by_name.get(name, ()), *(each for each in by_name.get(variable, ()) if each in call.origins))
        copied = []
        if name in graph.copies:
            copied = [graph.copies[name]]
        nodes = [each for each in (*own, *copied) if _fits(each, names[variable])]
        if nodes:  # of several nodes with one buffer, the last one: it was written over the others
            found[nodes[-1]] = names[variable]
        elif [name] == _results_of(call) and name not in graph.buffers.values() and not lacks_bias(call):
            found[call.node] = names[variable]
    # Inputs and buffers that the graph writes to hold the value after the last write.
    found |= {
        base: names[variable]
        for base, variable in _written_memory(graph, number)
        if variable in names and writes_until(graph, number, base) and _fits(base, names[variable])
    }
    return {
        node: value
        for node, value in found.items()
        if not any(_goes_on_to(graph, number, each) for each in to.get(node, ()))
    }


def _goes_on_to(graph: WatchedGraph, number: int, write: Any) -> bool:
    """Whether a call computes a part of a write that a later call finishes.

    A copy for an operator of a library, which writes to it, has that operator among its origins, too.
    """
    last = graph.written.get(write, -1)
    return last > number and write in graph.calls[number].origins and graph.calls[last].node is not write


def _results_of(call: WatchedCall) -> list[str]:
    """Return the buffers with what a call of a library returns, not those that it only writes to."""
    if call.node is None:
        return []
    schema = getattr(call.node.target, "_schema", None)
    own = [name for name, variable in call.writes.items() if name == variable]
    if own or (schema is not None and not schema.returns):
        return own
    return list(call.writes)


def lacks_bias(call: WatchedCall) -> bool:
    """Whether a convolution is called without its bias, which a later kernel adds.

    Inductor does so on GPUs (2.11 to 2.13, _inductor/kernel/conv.py): what the call returns is no value of the graph,
    and the later kernel is compared with both.
    """
    import torch

    if call.node is None or call.node.target is not torch.ops.aten.convolution.default:
        return False
    return call.node.args[2] is not None and len({*call.reads.values()}) < _OF_CONVOLUTION


_OF_CONVOLUTION = 3
"""What a convolution reads: input, weight and bias."""


def writes_until(graph: WatchedGraph, number: int, node: Any) -> tuple[Any, ...]:
    """Return the nodes that write into the memory of a node, and that a call finishes."""
    return tuple(each for each in writes_of(graph.module.graph).to.get(node, ()) if graph.written.get(each) == number)


def _written_memory(graph: WatchedGraph, number: int) -> Iterator[tuple[Any, str]]:
    """Yield the nodes into whose memory a call writes, with their variables."""
    call = graph.calls[number]
    for base, writes in writes_of(graph.module.graph).to.items():
        variable = _variable(graph, base)
        if variable in call.writes.values() and any(each in call.origins for each in writes):
            yield base, str(variable)


def _variable(graph: WatchedGraph, node: Any) -> str | None:
    """Return the variable with a node's memory; None: it has none."""
    inputs = dict(zip(_placeholders(graph), graph.inputs, strict=True))
    return inputs.get(node) or graph.buffers.get(node)


def _written_variables(graph: WatchedGraph, number: int) -> dict[str, str]:
    return {variable: variable for _, variable in _written_memory(graph, number)}


def _late_readers(graph: WatchedGraph, number: int, until: int) -> Iterator[tuple[Any, Any]]:
    """Yield memory that a call before `until` writes to, with a node of a call that has to read it before that."""
    all_writes = writes_of(graph.module.graph)
    call = graph.calls[number]
    for base, writes in all_writes.to.items():
        first = min((all_writes.order[each] for each in writes if graph.written.get(each, until) < until), default=-1)
        for node in sorted(call.origins, key=lambda each: all_writes.order.get(each, 0)):
            reads = base in map(memory_of, node.all_input_nodes) and memory_of(node) is not base
            if reads and all_writes.order.get(node, first) < first:
                yield base, node
                break


def _knows_inputs(graph: WatchedGraph, call: WatchedCall) -> bool:
    """Whether each tensor that a call of a library reads is the value of a node; else eager computes other ones."""
    return set(call.reads) <= {*graph.buffers.values(), *graph.copies, *graph.inputs}


def _goes_on(graph: WatchedGraph, number: int) -> bool:
    """Whether a later call adds to what this one writes."""
    variables = set(graph.calls[number].writes.values())
    later = (set(each.writes.values()) for each in graph.calls[number + 1 :])
    return any(variables & each for each in later)


def _has_open_results(graph: WatchedGraph, number: int, names: Mapping[str, Any]) -> bool:
    """Whether a call wrote something that is no node's value, such as the parts of a split sum."""
    if number < 0:
        return False
    call = graph.calls[number]
    known = {name for node, name in graph.buffers.items() if graph.finished.get(node) == number} | set(graph.copies)
    return not call.is_external and any(each not in known for each in call.writes if call.writes[each] in names)


def _memory(value: Any) -> int | None:
    """Return the address of a tensor's memory."""
    import torch

    if not isinstance(value, torch.Tensor):
        return None
    return value.untyped_storage().data_ptr()


def _placeholders(graph: WatchedGraph) -> list[Any]:
    return [node for node in graph.module.graph.nodes if node.op == "placeholder"]


def _fits(node: Any, value: Any) -> bool:
    import torch

    meta = node.meta.get("val")
    is_tensor = isinstance(meta, torch.Tensor) and isinstance(value, torch.Tensor)
    # Sizes may be symbols, so only the number of dimensions can be compared.
    return bool(is_tensor and meta.dtype == value.dtype and len(meta.shape) == value.dim())


def same_kind(one: Any, other: Any) -> bool:
    """Whether two tensors have the same sizes and dtype."""
    return bool(getattr(other, "shape", None) == one.shape and other.dtype == one.dtype)


def _equal(one: Any, other: Any) -> bool:
    import torch

    same = one == other
    if one.is_floating_point() or one.is_complex():
        # Two NaNs agree: a NaN equals nothing by itself.
        same = same | (one.isnan() & other.isnan())
    return bool(torch.all(same))


def copied_value(value: Any) -> Any:
    """Copy a tensor with its strides, which decide how some operations round."""
    import torch

    if isinstance(value, torch.Tensor):
        return with_memory(value)
    if isinstance(value, tuple | list):
        return tuple(map(copied_value, value))
    return value


def widened(value: Any) -> Any:
    """Copy a value, floating-point numbers in float64."""
    import torch

    if isinstance(value, tuple | list):
        return tuple(map(widened, value))
    if not isinstance(value, torch.Tensor) or precision_of(value.dtype) is None:
        return copied_value(value)
    return with_memory(value, torch.complex128 if value.is_complex() else torch.float64)


def distance(one: Any, other: Any) -> float:
    """Return the largest difference of two tensors; infinite if NaN or infinities are in other places."""
    import torch

    if one.shape != other.shape:
        return math.inf
    if not one.numel():
        return 0.0
    if one.is_complex() or other.is_complex():
        wide = torch.complex128
    else:
        wide = torch.float64
    one, other = one.to(wide), other.to(wide)
    off = (one - other).abs()
    # Equal infinities and two NaNs agree, although their difference is NaN.
    off = torch.where((one == other) | (one.isnan() & other.isnan()), 0.0, off)
    if bool((~off.isfinite()).any()):
        return math.inf
    return float(off.max())


def has_nonfinite(value: Any) -> bool:
    """Whether a value has NaN or infinities."""
    import torch

    if isinstance(value, tuple | list):
        return any(map(has_nonfinite, value))
    is_float = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    return bool(is_float and not value.isfinite().all())


def has_nan(value: Any) -> bool:
    """Whether a value has NaN."""
    import torch

    if isinstance(value, tuple | list):
        return any(map(has_nan, value))
    return isinstance(value, torch.Tensor) and value.is_floating_point() and bool(value.isnan().any())


def _makes_nonfinite(node: Any, values: Values) -> bool:
    """Whether an operation made NaN of what had none, or infinities of finite values, and no constant says so."""
    inputs = [values.get(each) for each in node.all_input_nodes]
    if has_nan(values[node]):
        return not any(map(has_nan, inputs))
    constants = [each for each in node.args if isinstance(each, float) and not math.isfinite(each)]
    return has_nonfinite(values[node]) and not constants and not any(map(has_nonfinite, inputs))


def copied_inputs(values: Sequence[Any]) -> list[Any]:
    """Copy values; tensors that overlap still do."""
    found = list(map(copied_value, values))
    for places in overlapping(values):
        for at, value in zip(places, copied_together([values[at] for at in places]), strict=True):
            found[at] = value
    return found


def widened_inputs(values: Sequence[Any]) -> list[Any]:
    """Copy values, floating-point numbers in float64; tensors that overlap still do.

    Raises:
        NoReferenceError: tensors of several dtypes overlap.
    """
    found = list(map(widened, values))
    for places in overlapping(values):
        for at, value in zip(places, widened_together([values[at] for at in places]), strict=True):
            found[at] = value
    return found
