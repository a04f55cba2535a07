"""Find attention in a graph of aten ops: a matmul, something like a softmax of it, and a matmul with the result.

Only structure decides. When Inductor searches for its attention patterns, `_softmax` is already decomposed into amax,
sub, exp, sum and div (2.11 to 2.13, _inductor/decomposition.py), like a softmax written by hand.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

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
    packet = getattr(node.target, "overloadpacket", None) if node.op == "call_function" else None
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
        dims: Any = node.args[1] if op_of(node) == "aten.sum" and len(node.args) > 1 else ()
        value = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
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
