"""Record every attention of a graph: a call of `scaled_dot_product_attention`, or matmuls and a softmax by hand.

Inductor searches for the second kind in its joint graph passes (2.11 to 2.13, _inductor/fx_passes/joint_graph.py:649)
with some sixty patterns of fuse_attention.py. The hook searches the same graph just before and tries each pattern. It
gets torch's decision from `extra_check`, torch's last call before it replaces a match.

`AttentionCalls` finds calls of `torch.nn.functional.scaled_dot_product_attention`, and the aten ops that each one
becomes. Nodes of aten ops name the call that they come from (`source_fn_stack`, 2.11 to 2.13). A call becomes one op if
torch has a fused kernel for it, and otherwise matmuls and a softmax (`_scaled_dot_product_attention_math`).

`likeness` checks that torch's replacement of an attention computes the same values: it runs both on random tensors.
Torch's patterns are traced in advance and match any number (2.11 to 2.13, _inductor/pattern_matcher.py,
`gen_register_replacement`), so they accept a softmax over any dimension and a permutation of any dimensions.
"""

import threading
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.inductor.attention_choice import AttentionCall, whole, why_math
from ctrace.inspector.capture.inductor.attention_misses import (
    BETWEEN,
    AttentionPlace,
    axis_of,
    is_backward,
    op_of,
    places_in,
    refused,
    untried,
    why_not,
)
from ctrace.inspector.capture.inductor.record_passes import is_attention_pattern, pattern_name, stage_of
from ctrace.inspector.facts.passes import Attention, AttentionFound, WhyNotFused

SAME, VALUES, SHAPE, UNTRIED = "same", "values", "shape", "untried"
"""The result of a trial; `untried` if it is too large or has dropout."""
_LARGEST = 1 << 26
"""Bytes of all values of one trial."""
_APART = 0.05
"""Results differ if their distance exceeds this fraction of the norm; bfloat16 is accurate to 0.01."""
_RANDOM = ("rand", "dropout", "bernoulli", "philox", "seed")


def likeness(match: Any) -> tuple[Any, ...]:
    """Return a key that distinguishes matches by ops, numbers and sizes; layers of a model are mostly alike."""
    nodes = [(node.target, repr([each for each in node.args if not hasattr(each, "users")])) for node in match.nodes]
    inputs = [(name, str(getattr(node, "meta", {}).get("val", node))) for name, node in match.kwargs.items()]
    return (*nodes, *inputs)


def compared(entry: Any, match: Any) -> str:
    """Compare the nodes that a pattern matched with the replacement that torch is about to insert.

    Read `match.replacement_graph` and get its arguments from `entry.normalize_args`, as torch does to apply it.
    """
    root, arguments = match.output_nodes()[0], entry.normalize_args(**match.kwargs)
    replacement = match.replacement_graph.graph
    new = next(node for node in reversed(replacement.nodes) if node.op == "output").args[0]
    if isinstance(new, (list, tuple)):
        new = new[0]
    if not _have_one_shape(root, new):
        return SHAPE
    inputs = {each for each in arguments if hasattr(each, "users")}
    if _is_too_much(root, inputs):
        return UNTRIED
    tensors = [match.kwargs.get(name) for name in ("query", "key", "value")]
    return _run(root, new, inputs, dict(zip(_placeholders(replacement), arguments, strict=False)), tensors)


def _have_one_shape(root: Any, new: Any) -> bool:
    sizes = [[whole(size) for size in node.meta["val"].shape] for node in (root, new)]
    return sizes[0] == sizes[1]


def _placeholders(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _is_too_much(root: Any, inputs: set[Any]) -> bool:
    size = 0
    for node in _behind(root, inputs):
        value = node.meta.get("val")
        if hasattr(value, "numel"):
            size += whole(value.numel()) * value.dtype.itemsize
        if size > _LARGEST or any(word in op_of(node) for word in _RANDOM):
            return True
    return False


def _run(root: Any, new: Any, inputs: set[Any], arguments: dict[Any, Any], tensors: list[Any]) -> str:
    import torch
    from torch._guards import tracing
    from torch.utils._python_dispatch import _disable_current_modes

    # Inductor's passes run in fake mode, in which ops compute no values.
    with tracing(None), _disable_current_modes(), torch.no_grad():
        # Sorted, so that a trial draws the same numbers in each run.
        random = {node: _random(node.meta["val"], mask=node not in tensors) for node in sorted(inputs)}
        before = _evaluated(root, random)
        known = {place: random.get(each, each) if hasattr(each, "users") else each for place, each in arguments.items()}
        after = _evaluated(new, known)
        known_to_both = before.isfinite() & after.isfinite()  # a fully masked row has no softmax
        one, other = before[known_to_both].double(), after[known_to_both].double()
        if not one.numel():
            return UNTRIED
        # By the norm, so that the rounding of single values does not count.
        if bool((one - other).norm() > _APART * one.norm()):
            return VALUES
        return SAME


def _random(like: Any, *, mask: bool = True) -> Any:
    """Make a random tensor of the same sizes without using the user's random generator; return a size unchanged.

    A mask has zeros and ones: one of torch's patterns assumes that `mask == 0` is the opposite of `mask == 1`.
    """
    import torch

    if not hasattr(like, "dtype"):
        return whole(like)
    made = torch.empty([whole(size) for size in like.shape], dtype=like.dtype, device=like.device)
    generator = torch.Generator(like.device).manual_seed(0)
    if like.dtype.is_floating_point and not mask:
        return made.normal_(generator=generator)
    return made.random_(0, 2, generator=generator)


def _behind(root: Any, inputs: set[Any]) -> Iterator[Any]:
    """List a node and everything that it is computed from, arguments last."""
    queue, seen = [root], {root}
    while queue:
        node = queue.pop()
        yield node
        fresh = []
        if node not in inputs:
            fresh = [each for each in node.all_input_nodes if each not in seen]
        seen.update(fresh)
        queue += fresh


def _evaluated(root: Any, known: dict[Any, Any]) -> Any:
    """Compute a node's value; compute each node that it depends on once."""
    from torch.fx import map_arg

    needed = set(_behind(root, set(known)))
    values = dict(known)
    # In the graph's order, in which a node comes after its inputs.
    for node in root.graph.nodes:
        if node in needed and node not in values:
            if node.op == "call_function":
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
            else:
                values[node] = _random(node.meta["val"])
    return values[root]


_FUNCTION = "scaled_dot_product_attention"
_MODULE = "multi_head_attention_forward"
"""The function that `nn.MultiheadAttention` calls; Dynamo keeps it as one node (2.11 to 2.13)."""
FUSED = "_scaled_dot_product_"
"""Prefix of the names of torch's fused attention ops."""


class AttentionCalls(Struct, frozen=True):
    """The attention calls of one graph, keyed by their names in Dynamo's graph."""

    nodes: dict[str, list[Any]]
    names: dict[Any, str]

    @classmethod
    def of(cls, graph: Any, modules: Container[str]) -> "AttentionCalls":
        """Find the nodes of each call; for a call in `modules`, the nodes name a module's class as their function."""
        nodes: dict[str, list[Any]] = {}
        for node in graph.nodes:
            name, function = _source(node)
            is_of_call = node.op == "call_function" and not is_backward(node)
            if is_of_call and (is_attention(function) or str(name) in modules):
                nodes.setdefault(str(name), []).append(node)
        return cls(nodes, {node: name for name, own in nodes.items() for node in own})

    def without(self, names: Container[str]) -> "AttentionCalls":
        """Return the calls except those in `names`."""
        nodes = {name: own for name, own in self.nodes.items() if name not in names}
        return AttentionCalls(nodes, {node: name for node, name in self.names.items() if name in nodes})

    def name_of(self, node: Any) -> str | None:
        """Return the name of the call that a node comes from."""
        return self.names.get(node)

    def fused(self) -> Iterator[tuple[str, Any]]:
        """Return the calls that became one op, each with its node."""
        for name, nodes in self.nodes.items():
            yield from ((name, node) for node in nodes if FUSED in op_of(node))


def is_attention(function: Any) -> bool:
    """Whether a function is `scaled_dot_product_attention`, or one that calls it and is one node of Dynamo's graph."""
    return getattr(function, "__name__", None) in (_FUNCTION, _MODULE)


def is_module(function: Any) -> bool:
    """Whether a function is the one that `nn.MultiheadAttention` calls."""
    return getattr(function, "__name__", None) == _MODULE


def wants_weights(node: Any) -> bool:
    """Whether `nn.MultiheadAttention` must return weights, and so does not call `scaled_dot_product_attention`."""
    return is_module(node.target) and bool(node.kwargs.get("need_weights", True))


def fused_ops(replacement: Any) -> list[str]:
    """Return the names of a replacement's fused attention ops, each once."""
    nodes = [node for node in replacement.graph.nodes if node.op == "call_function"]
    return list(dict.fromkeys(op_of(node) for node in nodes if FUSED in op_of(node)))


def source_name(node: Any) -> str:
    """Return the name of the call that a node comes from; the node may be named after the user's variable."""
    return str(_source(node)[0])


def _source(node: Any) -> tuple[Any, Any]:
    stack = node.meta.get("source_fn_stack")
    if not stack:
        return node.name, None
    name, target = stack[-1]
    return name, target


# Torch counts here what a pattern replaced (fuse_attention.py, `counters["inductor"]`); a difference proves that it
# did.
_COUNTER = "fuse_attention"
_BATCHED = ("aten.bmm", "aten.baddbmm")
"""Batched matmuls: a softmax between plain ones may be that of a router, or of a classifier's loss."""


class _Candidate(Struct):
    """An attention, and the pattern that matches it or the reason why none does."""

    place: AttentionPlace
    axis: int | None
    answer: WhyNotFused | None = None
    """Why no pattern matched; None if the reason is unknown, or if a pattern matched."""
    was_refused: bool = False
    """Whether a pattern matched, and torch's last check refused it."""
    matched: str | None = None
    counted: int = 0
    became: list[str] = field(default_factory=list)
    trial: str = ""
    """Result of running both versions, if a pattern matched."""


class _Attention:
    """Records attentions before and after the joint graph passes, for each thread."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._current = threading.local()

    def pre_grad(self, graph: Any) -> None:
        """Store the arguments of attention calls in Dynamo's graph, to explain calls that do not become a fused op."""
        found = [node for node in graph.nodes if node.op == "call_function" and is_attention(node.target)]
        self._current.modules = {source_name(node) for node in found if is_module(node.target)}
        self._current.weighted = {source_name(node) for node in found if wants_weights(node)}
        self._current.calls = {
            source_name(node): AttentionCall.within(node) if is_module(node.target) else AttentionCall.of(node)
            for node in found
            if not wants_weights(node)
        }

    def joint(self, original: Callable[..., Any], graph: Any, *args: Any, **kwargs: Any) -> Any:
        """Replace `joint_graph_passes`: record the graph's attentions after the passes."""
        if not self._recorder.keeps("attention"):
            return original(graph, *args, **kwargs)
        calls: list[AttentionCalls] = []
        # None until torch searches: with `config.pattern_matcher` off, it never calls `apply`
        # (fx_passes/joint_graph.py).
        self._current.candidates = None
        with self._recorder.watching("attention"):
            every = AttentionCalls.of(graph.graph, getattr(self._current, "modules", ()))
            calls += [every.without(getattr(self._current, "weighted", ())), every]
            self._current.called = calls[0].names
        done = original(graph, *args, **kwargs)
        with self._recorder.watching("attention"):
            # The passes changed the graph, so only what is still there is reported.
            if (candidates := self._current.candidates) is None:  # torch did not search for the patterns
                why = WhyNotFused(_off(), ())
                candidates = [_Candidate(place, axis_of(place), why) for place in places_in(done.graph)]
            self._record(done.graph, calls[0], calls[1], candidates)
        return done

    def apply(self, original: Callable[..., Any], patterns: Any, gm: Any) -> Any:
        """Replace `PatternMatcherPass.apply`."""
        # Torch applies dozens of other passes through the same method; only one has the patterns of attention.
        entries = _attention_entries(patterns)
        if not (entries and hasattr(self._current, "candidates") and self._recorder.keeps("attention")):
            return original(patterns, gm)
        candidates: list[_Candidate] = []
        with self._recorder.watching("attention"):
            # Before the passes: afterwards, a replaced attention is one node.
            candidates += _candidates(getattr(gm, "graph", gm), entries, self._current.called)
            self._current.candidates = candidates
        with _watching(entries, candidates, self._recorder):
            return original(patterns, gm)

    def _record(self, graph: Any, calls: AttentionCalls, every: AttentionCalls, candidates: list[_Candidate]) -> None:
        places = [_fused(name, node) for name, node in calls.fused()]
        for each in candidates:
            call = calls.name_of(each.place.output)
            if call is not None and not each.matched:
                each.answer = self._why_math(call)
            elif not each.matched and every.name_of(each.place.output):
                each.answer = WhyNotFused("weights_asked", ())
            places.append(_described(each, call))
        if places:
            self._recorder.add(AttentionFound(stage_of(graph, "joint_graph_passes"), tuple(places)))

    def _why_math(self, name: str) -> WhyNotFused:
        call = getattr(self._current, "calls", {}).get(name)
        first, *others = why_math(call) if call is not None else ("math",)
        return WhyNotFused(first, (), also=tuple(others))


def _candidates(graph: Any, entries: list[Any], called: Container[Any]) -> list[_Candidate]:
    training = any(map(is_backward, graph.nodes))
    known: dict[tuple[Any, ...], WhyNotFused] = {}
    candidates = []
    for place in places_in(graph):
        tried = [(entry, _root_for(entry, place.roots)) for entry in entries]
        candidates.append(_Candidate(place, axis_of(place), _first_answer(place, tried, training, known, called)))
    return candidates


def _root_for(entry: Any, roots: tuple[Any, ...]) -> Any:
    """Return the node where a pattern could start; the matmul if no node has the pattern's op."""
    # From the end: a pattern that ends in layout ops starts to match at the last of them.
    return next((root for root in reversed(roots) if root.target in entry.pattern.fns), roots[0])


def _first_answer(
    place: AttentionPlace,
    tried: list[tuple[Any, Any]],
    training: bool,
    known: dict[tuple[Any, ...], WhyNotFused],
    called: Container[Any],
) -> WhyNotFused | None:
    for entry, root in tried:
        # The pattern fits as it is. Then torch itself discarded the match before its last check.
        if match := entry.pattern.match(root):
            return untried(place, match, pattern_name(entry))
    if place.output in called:  # calls that torch decomposed are explained elsewhere
        return None
    shape = _shape(place)
    # Trying sixty patterns with all budgets takes long, and layers of a model are alike.
    if shape not in known:
        known[shape] = why_not(place, tried, training=training)
    return known[shape]


def _shape(place: AttentionPlace) -> tuple[Any, ...]:
    """Return a key that distinguishes attentions by ops, uses and lines; layers of a model are mostly alike."""
    found, queue, seen = [], [place.roots[-1]], set()
    while queue:
        node = queue.pop(0)
        if node not in seen:
            seen.add(node)
            found.append((op_of(node), len(node.users), node.meta.get("stack_trace")))
            inside = (
                node in place.roots or node in place.softmax or (node is not place.scores and op_of(node) in BETWEEN)
            )
            if inside:
                queue += node.all_input_nodes
    return tuple(found)


@contextmanager
def _watching(entries: list[Any], candidates: list[_Candidate], recorder: Recorder) -> Iterator[None]:
    """Record the result of torch's last check for each match."""
    by_root = {root: each for each in candidates for root in each.place.roots}
    originals = [(entry, entry.extra_check) for entry in entries]
    trials: dict[tuple[Any, ...], str] = {}
    for entry, check in originals:
        # The entries are torch's, shared by all compilations, and so they get their own checks back below.
        entry.extra_check = _watched_check(entry, check, _PatternWatch(pattern_name(entry), by_root, trials, recorder))
    try:
        yield
    finally:
        for entry, check in originals:
            entry.extra_check = check


class _PatternWatch(Struct, frozen=True):
    name: str
    by_root: dict[Any, _Candidate]
    trials: dict[tuple[Any, ...], str]
    """Results of running matches, keyed by `likeness`."""
    recorder: Recorder

    def trial(self, entry: Any, match: Any) -> str:
        alike = (self.name, *likeness(match))
        if alike not in self.trials:
            self.trials[alike] = compared(entry, match)
        return self.trials[alike]


def _watched_check(entry: Any, check: Any, watch: _PatternWatch) -> Any:
    def extra_check(match: Any) -> Any:
        before = _counted()
        # Torch's own check, once, as always: it traces the replacement, and its answer decides.
        is_applied = check(match)
        with watch.recorder.watching("attention"):
            # After torch's answer: whatever fails here, the decision is torch's.
            each = watch.by_root.get(match.output_nodes()[0])
            if each is not None and is_applied:
                each.matched, each.counted = watch.name, _counted() - before
                each.became = fused_ops(match.replacement_graph)
                each.trial = watch.trial(entry, match)
            elif each is not None and each.matched is None and not each.was_refused:
                each.answer, each.was_refused = refused(entry, match, check), True
        return is_applied

    extra_check.__wrapped__ = check  # type: ignore[attr-defined]
    return extra_check


def _counted() -> int:
    from torch._dynamo.utils import counters

    return int(counters["inductor"][_COUNTER])


def _off() -> str:
    from torch._inductor import config

    if config.pattern_matcher:
        return "unlike"
    return "off"


def _attention_entries(patterns: Any) -> list[Any]:
    found = (entry for entries in patterns.patterns.values() for entry in entries)
    # Torch lists an entry under each op that its pattern may end with.
    return list({id(entry): entry for entry in found if is_attention_pattern(entry)}.values())


def _fused(name: str, node: Any) -> Attention:
    return replace(_place(name, [node], node.args[0]), fused=(op_of(node),))


def _described(each: _Candidate, call: str | None) -> Attention:
    place = each.place
    return replace(
        _place(call, [place.scores, *place.softmax, place.output], place.output),
        fused=tuple(each.became),
        matched=each.matched,
        certain=op_of(place.scores) in _BATCHED and op_of(place.output) in _BATCHED,
        counted=each.counted,
        axis=each.axis,
        trial=each.trial,
        why=None if each.matched else each.answer,
    )


def _place(call: str | None, nodes: list[Any], like: Any) -> Attention:
    """Return what is known of an attention from its nodes alone."""
    value = like.meta.get("val")
    return Attention(
        call=call,
        nodes=tuple(node.name for node in nodes),
        stacks=tuple(dict.fromkeys(stack for node in nodes if (stack := node.meta.get("stack_trace")))),
        dtype=str(getattr(value, "dtype", "")).removeprefix("torch."),
        device=str(getattr(value, "device", "")),
        fused=(),
        counted=0,
    )


@contextmanager
def attention(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each attention of each graph that Inductor receives."""
    following = _Attention(recorder)
    with ExitStack() as patches:

        def install_patterns(module: ModuleType) -> None:
            original = module.PatternMatcherPass.apply

            def apply(self: Any, gm: Any) -> Any:
                return following.apply(original, self, gm)

            patches.enter_context(patched(module.PatternMatcherPass, "apply", apply))

        def install_joint(module: ModuleType) -> None:
            original, pre_grad = module.joint_graph_passes, module.pre_grad_passes

            def pre_grad_passes(graph: Any, *args: Any, **kwargs: Any) -> Any:
                with recorder.watching("attention"):
                    following.pre_grad(graph.graph)
                return pre_grad(graph, *args, **kwargs)

            def joint_graph_passes(graph: Any, *args: Any, **kwargs: Any) -> Any:
                return following.joint(original, graph, *args, **kwargs)

            # compile_fx.py imports both functions by name, so that a patch of their own modules would reach no call.
            patches.enter_context(patched(module, "pre_grad_passes", pre_grad_passes))
            patches.enter_context(patched(module, "joint_graph_passes", joint_graph_passes))

        when("torch._inductor.pattern_matcher", install_patterns)
        when("torch._inductor.compile_fx", install_joint)
        yield
