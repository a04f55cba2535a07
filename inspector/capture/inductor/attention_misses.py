"""Find the first thing that keeps an attention from matching Inductor's patterns, by trying each pattern.

The pattern that needs the fewest edits says what to change (`why_not`); in its answer, `found` and `wanted` are ops.

`places_in` finds the attention in a graph of aten ops: a matmul, something like a softmax of it, and a matmul with the
result. Only structure decides. When Inductor searches for its attention patterns, `_softmax` is already decomposed into
amax, sub, exp, sum and div (2.11 to 2.13, _inductor/decomposition.py), like a softmax written by hand.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.inductor.record_passes import closed_over, pattern_name
from ctrace.inspector.facts.passes import WhyNotFused

LAYOUT = frozenset(
    (
        "aten.view", "aten._unsafe_view", "aten.reshape", "aten.expand", "aten.permute", "aten.transpose", "aten.t",
        "aten.clone", "aten.alias", "aten.detach", "aten.unsqueeze", "aten.squeeze", "aten.contiguous",
    )
)  # fmt: skip
"""Ops that compute nothing."""
# Under autocast, a cast may stand between any two ops of an attention.
_CASTS = frozenset(("prims.convert_element_type", "aten._to_copy"))
BETWEEN = LAYOUT | _CASTS | frozenset(
    (
        "aten.mul", "aten.div", "aten.add", "aten.sub", "aten.where", "aten.masked_fill", "aten.neg", "aten.tanh",
        "aten.maximum", "aten.minimum", "aten.clamp", "aten.clamp_min", "aten.clamp_max", "aten.native_dropout",
        "aten.index_put", "aten.slice", "aten.cat", "aten.constant_pad_nd", "aten.copy", "aten.slice_scatter",
        "prims.fma",
    )
)  # fmt: skip
"""Ops that may stand between the parts of an attention."""
_PRODUCTS = frozenset(("aten.bmm", "aten.mm"))
_SCORES = _PRODUCTS | {"aten.baddbmm"}
_SOFTMAX = frozenset(("aten._softmax", "aten._safe_softmax", "aten.softmax"))
_MAXIMA = frozenset(("aten.amax", "aten.max"))
_FAR = 40
"""Maximum number of nodes to search between two parts of an attention; a mask and dropout take a dozen."""


class AttentionPlace(Struct, frozen=True):
    """One attention, by its nodes."""

    scores: Any
    """The matmul of queries and keys."""
    output: Any
    """The matmul of weights and values."""
    softmax: tuple[Any, ...]
    """The nodes of the softmax, the exponential first; only `_softmax` if it is not decomposed."""
    maximum: str | None
    """The op that computes the subtracted maximum, or None if no maximum is subtracted."""
    late: bool = False
    """Whether the division by the sum comes after the matmul with the values."""

    @property
    def roots(self) -> tuple[Any, ...]:
        """Nodes where a pattern could start: the last matmul, and layout ops on its result."""
        found, node = [self.output], self.output
        # A pattern may end with layout ops; with a second user, the value between them has to stay.
        while len(node.users) == 1 and op_of(user := next(iter(node.users))) in LAYOUT and len(found) < 4:
            found.append(user)
            node = user
        return tuple(found)


def op_of(node: Any) -> str:
    """Return a node's op without its overload, such as `aten.bmm`."""
    packet = None
    if node.op == "call_function":
        packet = getattr(node.target, "overloadpacket", None)
    if packet is not None:
        return str(packet)
    return getattr(node.target, "__name__", str(node.target))


def is_backward(node: Any) -> bool:
    """Whether a node of a joint graph belongs to the backward (2.11 to 2.13, `partitioner_tag`)."""
    return bool(node.meta.get("partitioner_tag") == "is_backward")


def places_in(graph: Any) -> tuple[AttentionPlace, ...]:
    """Find every attention in a graph's forward, in order."""
    found = (
        _place(node) for node in graph.nodes if node.op == "call_function" and op_of(node) in _PRODUCTS
        if not is_backward(node)
    )  # fmt: skip
    return tuple(place for place in found if place is not None)


def axis_of(place: AttentionPlace) -> int | None:
    """Return the softmax's dimension, counted from the end (-1 is the last), or None if it is unknown."""
    for node in place.softmax[-1].all_input_nodes:
        dims: Any = ()
        if op_of(node) == "aten.sum" and len(node.args) > 1:
            dims = node.args[1]
        value = None
        if node.all_input_nodes:
            value = node.all_input_nodes[0].meta.get("val")
        if value is not None and len(dims) == 1:
            return int(dims[0] % value.dim()) - int(value.dim())
    return None


def _place(output: Any) -> AttentionPlace | None:
    # The weights may be either factor of the product.
    for operand in output.all_input_nodes[:2]:
        for weights in _behind(operand, lambda node: op_of(node) in BETWEEN):
            place = _softmax_at(weights, output)
            if place is not None:
                return place
    return None


def _softmax_at(weights: Any, output: Any) -> AttentionPlace | None:
    """Return the attention whose softmax ends at `weights`, or None if no softmax of a matmul ends there."""
    if op_of(weights) in _SOFTMAX:
        scores = _scores_behind(weights.args[0])
        return scores and AttentionPlace(scores, output, (weights,), "aten.amax")
    exponential, late = _normalised(weights), False
    if exponential is None and op_of(weights) == "aten.exp" and _is_divided_later(weights, output):
        exponential, late = weights, True
    if exponential is None:
        return None
    inside, maximum = _without_maximum(exponential.args[0])
    scores = _scores_behind(inside)
    return scores and AttentionPlace(scores, output, (exponential, weights), maximum, late)


def _normalised(node: Any) -> Any:
    """Return the exponential in `exp / sum(exp)` or `exp * (1 / sum(exp))`, or None for another node."""
    if op_of(node) not in ("aten.div", "aten.mul") or len(node.all_input_nodes) != 2:
        return None
    above, below = node.args[:2]
    for exponential in _behind(above, _lays_out):
        if op_of(exponential) == "aten.exp" and _is_sum_of(below, exponential):
            return exponential
    return None


def _is_sum_of(node: Any, exponential: Any) -> bool:
    """Whether a node is the sum of an exponential, perhaps plus an epsilon, or the sum's reciprocal."""
    return any(
        op_of(total) == "aten.sum" and exponential in set(_behind(total.args[0], _lays_out))
        for total in _behind(node, lambda each: op_of(each) in BETWEEN | {"aten.reciprocal"})
    )


def _is_divided_later(exponential: Any, output: Any) -> bool:
    below: list[Any] = [output]
    seen: set[Any] = set()
    while below and len(seen) < _FAR:
        node = below.pop()
        for user in node.users:
            if op_of(user) == "aten.div" and user.args[0] is node and _is_sum_of(user.args[1], exponential):
                return True
            if op_of(user) in LAYOUT | _CASTS and user not in seen:
                seen.add(user)
                below.append(user)
    return False


def _without_maximum(node: Any) -> tuple[Any, str | None]:
    """Return the exponential's argument without the subtraction of a maximum, and the maximum's op or None."""
    if op_of(node) == "aten.sub" and len(node.all_input_nodes) == 2:
        for other in _behind(node.args[1], lambda each: _lays_out(each) or op_of(each) == "getitem"):
            if op_of(other) in _MAXIMA:
                return node.args[0], op_of(other)
    return node, None


def _scores_behind(node: Any) -> Any:
    return next((each for each in _behind(node, lambda inner: op_of(inner) in BETWEEN) if op_of(each) in _SCORES), None)


def _lays_out(node: Any) -> bool:
    return op_of(node) in LAYOUT | _CASTS


def _behind(node: Any, through: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield a node and its inputs, nearest first; continue only through nodes that `through` accepts."""
    queue, seen = [node], {node}
    while queue and len(seen) < _FAR:
        at = queue.pop(0)
        if not hasattr(at, "users"):
            continue  # a number
        yield at
        if at.op == "call_function" and through(at):
            fresh = [each for each in at.all_input_nodes if each not in seen]
            seen.update(fresh)
            queue += fresh


# Layouts have a number of their own: inputs of three dimensions alone lack a view and an expand at each matmul.
_BUDGETS = ((0, 0), (1, 0), (0, 24), (1, 2), (2, 0), (1, 24), (2, 24))
"""Limits to try, smallest first: the number of op edits, and the number of layout edits."""


# Without these, any chain of ops would match some pattern after a few edits.
_FIXED = frozenset(("aten.bmm", "aten.mm", "aten.exp", "aten.sum"))
"""The ops that define an attention: never left out or skipped."""
_ALIKE = ({"aten.mul", "aten.div"}, {"aten.max", "aten.amax"})
"""Ops that may replace each other."""
_ARITHMETIC = frozenset(("aten.mul", "aten.div", "aten.add", "aten.sub"))
_PASSED = LAYOUT | {"getitem"}


class Edit(Struct, frozen=True):
    """One difference between a graph and a pattern."""

    kind: str
    """`extra`, `missing` or `other`."""
    node: Any
    """The graph's node; for a missing op, the node in its place."""
    pattern: Any
    """The pattern's node; for an extra op, the node expected in its place."""

    @property
    def is_layout(self) -> bool:
        """Whether only the layout of a tensor differs."""
        if self.kind == "extra":
            return op_of(self.node) in _PASSED
        return self.kind == "missing" and pattern_op(self.pattern) in LAYOUT


class Fit(Struct, frozen=True):
    """How a pattern matches with a few edits."""

    match: Any
    edits: tuple[Edit, ...]
    outputs: frozenset[Any]
    """Nodes whose values the replacement also computes, so that other nodes may use them."""


def fit(pattern: Any, node: Any, ops: int, layouts: int) -> Fit | None:
    """Match a pattern with at most `ops` op edits and `layouts` layout edits; return None if it needs more.

    Only the forward of a training pattern is matched.
    """
    from torch._inductor import pattern_matcher as torchs

    forward, trial = _forward_of(pattern), _Trial(ops, layouts)
    with _lenient(trial):
        try:
            ctx = torchs.MatchContext([forward], graph=node.graph)
            match = ctx.match(forward, node)
        except torchs.FailedMatch:
            return None
    if not match:
        return None
    outputs = frozenset(ctx.pattern_to_node.get(each) for each in getattr(pattern, "outputs", ()))
    return Fit(match, tuple(trial.edits), outputs)


class _Near(Struct, frozen=True):
    """A pattern that matches at one node after a few edits."""

    entry: Any
    root: Any
    fit: Fit
    training: bool

    @property
    def ops(self) -> list[Edit]:
        return [edit for edit in self.fit.edits if not edit.is_layout]


def why_not(place: AttentionPlace, entries: Iterable[tuple[Any, Any]], *, training: bool) -> WhyNotFused:
    """Return why no pattern matches where one could start; `training` means that the graph is a joint graph."""
    if place.late:
        return _answer("late_division", None, [place.output])
    tried = list(entries)
    # Torch traces its patterns with three or more dimensions (fuse_attention.py, `_get_sfdp_patterns`), so all end in a
    # batched matmul, and no edit makes one of them match.
    if op_of(place.output) == "aten.mm":
        return _answer("rank", None, [place.output], rank=2)
    # The first budget that fits ends the search, so larger ones cost nothing for near misses.
    for ops, layouts in _BUDGETS:
        near = list(_fitting(tried, ops, layouts))
        if near:
            return _nearest(min(near, key=lambda each: _distance(each, training)), place, training=training)
    return _answer("unlike", None, place.softmax[-1:])


def _fitting(tried: list[tuple[Any, Any]], ops: int, layouts: int) -> Iterator[_Near]:
    for entry, root in tried:
        found = fit(entry.pattern, root, ops, layouts)
        if found is not None:
            yield _Near(entry, root, found, _is_for_training(entry))


def _is_for_training(entry: Any) -> bool:
    return getattr(closed_over(entry.extra_check, "trace_fn"), "__name__", "") == "joint_fwd_bwd"


def _distance(near: _Near, training: bool) -> tuple[int, int, bool, bool]:
    """Return a sort key that prefers few edits, few other uses, a pattern for this kind of graph, a replaced op."""
    swaps = any(edit.kind == "other" for edit in near.fit.edits)
    return len(near.fit.edits), len(_other_uses(near)), near.training != training, not swaps


def _nearest(near: _Near, place: AttentionPlace, *, training: bool) -> WhyNotFused:
    """Return the first obstacle, with the codes of the others in `also`."""
    name = pattern_name(near.entry)
    first, *others = _obstacles(near, place, name, training) or [_answer("unlike", name, [near.root])]
    return replace(first, pattern=name, also=tuple(dict.fromkeys(other.code for other in others)))


def _obstacles(near: _Near, place: AttentionPlace, name: str, training: bool) -> list[WhyNotFused]:
    found = [_of_edit(edit, place) for edit in near.ops]
    if layouts := [edit for edit in near.fit.edits if edit.is_layout]:
        found.append(_of_layout(place, layouts))
    # A node that other code reads cannot be removed, even if all ops are those of the pattern.
    # Report only the first other use: the rest mostly have the same reason, such as a returned value.
    found += [_of_other_use(*each, name) for each in _other_uses(near)[:1]]
    if found:
        return found
    # Torch registers each pattern twice, for inference and with its backward (fuse_attention.py, `_get_sfdp_patterns`:
    # `_training`, `_inference`).
    if near.training != training:
        return [_answer("inference_only" if training else "training_only", name, [near.root])]
    if training:
        return [_of_backward(near, name)]
    return []


def _of_layout(place: AttentionPlace, edits: list[Edit]) -> WhyNotFused:
    """Describe a difference in layout: inputs that are not four-dimensional lack ops that merge dimensions."""
    rank = _rank(place)
    lacks = any(edit.kind == "missing" and pattern_op(edit.pattern) in _BATCHING for edit in edits)
    code = "rank" if lacks and rank not in (None, 4) else "layout"
    return _answer(code, None, [edits[0].node], rank=rank)


_BATCHING = ("aten.view", "aten.expand")


def _of_edit(edit: Edit, place: AttentionPlace) -> WhyNotFused:
    """Describe a difference in ops."""
    expected = pattern_op(edit.pattern)
    # A softmax without the subtraction lacks two ops of the pattern; the user left out one thing.
    if expected == "aten.sub" and edit.kind == "missing" and place.maximum is None:
        return _answer("no_maximum", None, place.softmax[:1])
    if expected == "aten.amax":
        return _answer("maximum", None, [edit.node], found=place.maximum or "", wanted=expected)
    if edit.kind == "missing":
        code = "no_scale" if expected in ("aten.div", "aten.mul") else "missing"
        return _answer(code, None, [edit.node], wanted=expected)
    code = "other"
    if edit.kind == "extra":
        code = _EXTRA.get(op_of(edit.node), "extra")
    return _answer(code, None, [edit.node], found=op_of(edit.node), wanted=expected)


_EXTRA = {"aten.where": "mask", "prims.convert_element_type": "cast"}


def _of_other_use(node: Any, user: Any, name: str) -> WhyNotFused:
    returned = user.op == "output"
    code = "returned" if returned else "used_elsewhere"
    return _answer(code, name, [node], found=op_of(node), user="" if returned else op_of(user))


def _other_uses(near: _Near) -> list[tuple[Any, Any]]:
    """List the forward's uses of values that the pattern would remove."""
    inside = {*near.fit.match.nodes, *(edit.node for edit in near.fit.edits)}
    inner = [node for node in near.fit.match.nodes if node is not near.root and node not in near.fit.outputs]
    # A training pattern removes the backward with the forward, so its uses do not keep a node.
    return [(node, user) for node in inner for user in node.users if user not in inside and not is_backward(user)]


def _of_backward(near: _Near, name: str) -> WhyNotFused:
    """Describe a mismatch with the pattern's backward; the forward matches, so the gradients usually differ."""
    arguments = near.fit.match.kwargs
    for argument in ("query", "key", "value"):
        if argument in arguments and _is_constant(arguments[argument]):
            return _answer("no_gradient", name, [near.root], argument=argument)
    mask = arguments.get("attn_mask")
    if hasattr(mask, "all_input_nodes") and _has_gradient(mask):
        return _answer("mask_gradient", name, [near.root])
    return _answer("backward", name, [near.root])


def _is_constant(node: Any) -> bool:
    """Whether a tensor depends only on inputs that need no gradient."""
    inputs = _inputs_behind(node)
    return bool(inputs) and not any(_gradients(node.graph).get(each, True) for each in inputs)


def _has_gradient(node: Any) -> bool:
    return any(_gradients(node.graph).get(each, False) for each in _inputs_behind(node))


def _inputs_behind(node: Any) -> list[Any]:
    queue, seen = [node], {node}
    while queue:
        fresh = [each for each in queue.pop().all_input_nodes if each not in seen]
        seen.update(fresh)
        queue += fresh
    return [each for each in seen if each.op == "placeholder"]


def _gradients(graph: Any) -> dict[Any, bool]:
    """Return which inputs of a joint graph get a gradient.

    The graph returns the forward's outputs, then one value for each `primals_` input, which is None if the input has no
    gradient (2.11 to 2.13, _functorch/_aot_autograd/graph_capture_wrappers.py).
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder" and str(node.target).startswith("primals_")]
    outputs = next(node for node in reversed(graph.nodes) if node.op == "output").args[0]
    return dict(zip(inputs, (each is not None for each in outputs[-len(inputs) :]), strict=False))


def _rank(place: AttentionPlace) -> int | None:
    """Return the rank of the scores, which is also that of the queries and keys unless these are views."""
    scores = getattr(place.softmax[0], "meta", {}).get("val")
    if scores is None:
        return None
    return int(scores.dim())


def refused(entry: Any, match: Any, extra_check: Any) -> WhyNotFused:
    """Return which of torch's conditions a matched pattern failed (2.11 to 2.13, fx_passes/fuse_attention.py:960)."""
    check, name = closed_over(extra_check, "extra_check"), pattern_name(entry)
    root = match.output_nodes()[0]
    values = {key: getattr(node, "meta", {}).get("val") for key, node in match.kwargs.items()}
    for code, facts in _conditions(check, match, values):
        return _answer(code, name, [root], **facts)
    return _answer("refused", name, [root])


def _conditions(check: Any, match: Any, values: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    import torch
    from torch._inductor.pattern_matcher import filter_nodes

    query = values.get("query")
    others = [each for name in ("key", "value") if (each := values.get(name)) is not None]
    if query is None:
        return
    # In torch's order (`_sfdp_extra_check`, then `_sfdp_params_check`): it stops at the first that fails, and so does
    # `refused`.
    if closed_over(check, "disable_cuda") and query.device.type == "cuda":
        yield "not_on_cuda", {}
    scaling = closed_over(check, "scale_factor_op")
    if scaling is not None and not isinstance(filter_nodes(match.nodes, scaling)[0].args[1], float | int):
        yield "scale_tensor", {}
    if any(other.dtype != query.dtype for other in others):
        yield "dtypes", {"found": ", ".join(_short(each.dtype) for each in (query, *others))}
    if query.device.type == "cuda" and query.dtype == torch.float32 and _precision() != "tf32":
        yield "fp32", {}
    yield from _mask_conditions(filter_nodes(match.nodes, torch.ops.aten.add.Tensor), query)


def _mask_conditions(added: list[Any], query: Any) -> Iterator[tuple[str, dict[str, str]]]:
    import torch

    if not added:
        return
    mask = getattr(added[0].args[1], "meta", {}).get("val")
    if not isinstance(mask, torch.Tensor) or mask.dim() == 0:
        yield "mask_number", {}
    elif mask.dtype not in (query.dtype, torch.bool, torch.float):
        yield "mask_dtype", {"found": _short(mask.dtype), "wanted": _short(query.dtype)}


def _precision() -> str:
    import torch

    return str(torch.backends.cuda.matmul.fp32_precision)


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _answer(code: str, pattern: str | None, nodes: Iterable[Any], **facts: Any) -> WhyNotFused:
    stacks = dict.fromkeys(stack for node in nodes if (stack := getattr(node, "meta", {}).get("stack_trace")))
    return WhyNotFused(code, tuple(stacks), pattern or "", **facts)


def untried(place: AttentionPlace, match: Any, name: str) -> WhyNotFused:
    """Return why torch did not apply a pattern that matches."""
    from torch._inductor import pattern_matcher as torchs

    graph = place.output.graph
    # The two conditions on which torch drops a match before `extra_check` (pattern_matcher.py:2395, 2.13).
    if len({torchs.get_mutation_region_id(graph, node) for node in match.nodes}) > 1:
        return _answer("mutation", name, [place.output])
    if len({node.meta.get("custom", {}).get("stream", 0) for node in match.nodes}) > 1:
        return _answer("stream", name, [place.output])
    return _answer("untried", name, [place.output])


class _Trial(Struct):
    ops: int
    """Number of op edits that are still allowed."""
    layouts: int
    """Number of layout edits that are still allowed."""
    edits: list[Edit] = field(default_factory=list)
    forced: set[tuple[int, int]] = field(default_factory=set)
    thread: int = field(default_factory=threading.get_ident)

    def save(self, ctx: Any) -> Any:
        return dict(ctx.pattern_to_node), len(self.edits), self.ops, self.layouts

    def restore(self, ctx: Any, saved: Any) -> None:
        known, edits, self.ops, self.layouts = saved
        ctx.pattern_to_node = dict(known)
        del self.edits[edits:]

    def spend(self, edit: Edit) -> bool:
        """Record an edit if one of its kind is still allowed; return whether it is."""
        if edit.is_layout:
            left = self.layouts
        else:
            left = self.ops
        if left <= 0:
            return False
        if edit.is_layout:
            self.layouts -= 1
        else:
            self.ops -= 1
        self.edits.append(edit)
        return True


def _forward_of(pattern: Any) -> Any:
    """Return the forward part of a training pattern; return any other pattern unchanged."""
    if hasattr(pattern, "outputs"):
        return pattern.outputs[0]
    return pattern


def pattern_op(pattern: Any) -> str:
    """Return the op that a pattern node matches, without its overload."""
    first = pattern.fns[0]
    packet = getattr(first, "overloadpacket", first)
    if packet is not first:
        return str(packet)
    return getattr(first, "__name__", str(first))


@contextmanager
def _lenient(trial: _Trial) -> Iterator[None]:
    from torch._inductor import pattern_matcher as torchs

    # Torch's patterns call each other through these three methods (pattern_matcher.py), so replacing them reaches each
    # node of the tree; a copy of the matcher would differ from torch's with the next release.
    exact, functions, users = (
        torchs._TargetArgsExpr._match,
        torchs._TargetExpr._match_fns,
        torchs._TargetExpr._match_users,
    )

    def match(self: Any, node: Any, ctx: Any) -> Any:
        # The classes are shared: another thread may be compiling, and must match exactly.
        if threading.get_ident() != trial.thread:
            return exact(self, node, ctx)
        return _match(self, node, ctx, trial, exact)

    def match_fns(self: Any, node: Any) -> bool:
        return (id(self), id(node)) in trial.forced or bool(functions(self, node))

    # A node with other users is an answer of its own, see `_other_uses`, and no failure to match here.
    def match_users(self: Any, node: Any, ctx: Any) -> bool:
        return threading.get_ident() == trial.thread or bool(users(self, node, ctx))

    with ExitStack() as patches:
        patches.enter_context(patched(torchs._TargetArgsExpr, "_match", match))
        patches.enter_context(patched(torchs._TargetExpr, "_match_fns", match_fns))
        patches.enter_context(patched(torchs._TargetExpr, "_match_users", match_users))
        yield


def _match(pattern: Any, node: Any, ctx: Any, trial: _Trial, exact: Any) -> Any:
    from torch._inductor.pattern_matcher import FailedMatch

    saved = trial.save(ctx)
    # Torch remembers the node of each pattern, also of failed ones (`MatchContext.match`), and refuses another node
    # later. So each attempt starts from the same memory.
    for attempt in _attempts(pattern, node, ctx, trial, exact):
        try:
            match = attempt()
        except FailedMatch:
            match = None
        if match:
            return match
        trial.restore(ctx, saved)
    return FailedMatch("no edit helps")


def _attempts(pattern: Any, node: Any, ctx: Any, trial: _Trial, exact: Any) -> Iterator[Callable[[], Any]]:
    if not hasattr(node, "users"):
        return
    # The cheapest first: no edit at all.
    if pattern._match_fns(node) and len(node.args) == len(pattern.args):
        yield lambda: exact(pattern, node, ctx)
        if op_of(node) in _ARITHMETIC:  # the same op, but perhaps in another place
            yield lambda: _extra(pattern, node, ctx, trial)
        return
    # Nothing can be skipped at an input, or at an op that every attention has.
    if node.op != "call_function" or op_of(node) in _FIXED:
        yield lambda: _missing(pattern, node, ctx, trial)
        return
    if {op_of(node), pattern_op(pattern)} in _ALIKE and len(node.args) == len(pattern.args):
        yield lambda: _other(pattern, node, ctx, trial, exact)
    # A layout op is more likely to be one too many in the graph than to stand in the place of one.
    if op_of(node) in _PASSED:
        yield lambda: _extra(pattern, node, ctx, trial)
        yield lambda: _missing(pattern, node, ctx, trial)
    else:
        yield lambda: _missing(pattern, node, ctx, trial)
        yield lambda: _extra(pattern, node, ctx, trial)


def _other(pattern: Any, node: Any, ctx: Any, trial: _Trial, exact: Any) -> Any:
    if not trial.spend(Edit("other", node, pattern)):
        return None
    # By identity: one pattern node may stand for several nodes, and only this pair is forced.
    key = id(pattern), id(node)
    trial.forced.add(key)
    try:
        return exact(pattern, node, ctx)
    finally:
        trial.forced.discard(key)


def _extra(pattern: Any, node: Any, ctx: Any, trial: _Trial) -> Any:
    saved = trial.save(ctx)
    # Any input may be the one that the pattern means: a mask is added on either side.
    for inner in node.all_input_nodes:
        trial.restore(ctx, saved)
        if not trial.spend(Edit("extra", node, pattern)):
            return None
        if match := pattern._match(inner, ctx):
            return match
    return None


def _missing(pattern: Any, node: Any, ctx: Any, trial: _Trial) -> Any:
    if pattern_op(pattern) in _FIXED:
        return None
    saved = trial.save(ctx)
    for inner in _tensors(pattern):
        trial.restore(ctx, saved)
        if not trial.spend(Edit("missing", node, pattern)):
            return None
        if match := ctx.match(inner, node):
            return match
    return None


def _tensors(pattern: Any) -> list[Any]:
    """List the operands of a pattern; for a layout op, its input, which may be an argument."""
    if pattern_op(pattern) in LAYOUT:
        return list(pattern.args[:1])
    return [each for each in pattern.flat_args_kwargs[0] if hasattr(each, "fns")]
