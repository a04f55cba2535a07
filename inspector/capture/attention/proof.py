"""Check that torch's replacement of an attention computes the same values: run both on random tensors.

Torch's patterns are traced in advance and match any number (2.11 to 2.13, _inductor/pattern_matcher.py,
`gen_register_replacement`), so they accept a softmax over any dimension and a permutation of any dimensions.
"""

from collections.abc import Iterator
from typing import Any

from ctrace.inspector.capture.attention.attention_places import op_of
from ctrace.inspector.capture.attention.choice import whole

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
    new = new[0] if isinstance(new, (list, tuple)) else new
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
        size += whole(value.numel()) * value.dtype.itemsize if hasattr(value, "numel") else 0
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
        return VALUES if bool((one - other).norm() > _APART * one.norm()) else SAME


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
        fresh = [] if node in inputs else [each for each in node.all_input_nodes if each not in seen]
        seen.update(fresh)
        queue += fresh


def _evaluated(root: Any, known: dict[Any, Any]) -> Any:
    """Compute a node's value; compute each node that it depends on once."""
    from torch.fx import map_arg

    needed = set(_behind(root, set(known)))
    values = dict(known)
    for node in root.graph.nodes:
        if node in needed and node not in values:
            if node.op == "call_function":
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
            else:
                values[node] = _random(node.meta["val"])
    return values[root]
