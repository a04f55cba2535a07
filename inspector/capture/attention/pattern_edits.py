"""Find the fewest edits that make one of Inductor's patterns match.

The patterns are trees (`PatternExpr`, 2.11 to 2.13, _inductor/pattern_matcher.py). Match them with a few edits: skip an
op that only the graph has (`extra`), leave out an op that only the pattern has (`missing`), or accept one op in place
of another (`other`). Other users of a node are ignored here.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.attention.attention_places import LAYOUT, op_of
from ctrace.inspector.capture.core.patch import patched

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
        left = self.layouts if edit.is_layout else self.ops
        if left <= 0:
            return False
        if edit.is_layout:
            self.layouts -= 1
        else:
            self.ops -= 1
        self.edits.append(edit)
        return True


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


def _forward_of(pattern: Any) -> Any:
    """Return the forward part of a training pattern; return any other pattern unchanged."""
    return pattern.outputs[0] if hasattr(pattern, "outputs") else pattern


def pattern_op(pattern: Any) -> str:
    """Return the op that a pattern node matches, without its overload."""
    first = pattern.fns[0]
    packet = getattr(first, "overloadpacket", first)
    return str(packet) if packet is not first else getattr(first, "__name__", str(first))


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
