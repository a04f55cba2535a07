"""Compare which ops Inductor fused into one kernel; the names of nodes and buffers do not count."""

from collections import Counter
from collections.abc import Iterator

from ctrace.inspector.facts.fusion import Fusion, Node, NodeKind
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.features.compare.diff.changes import Change, How, What, edited
from ctrace.inspector.features.compare.diff.graphs import Pairs, RunGraph

_Group = tuple[tuple[str, ...], ...]
"""The ops of each node in a fused group, in order."""


def fusion_changes(pairs: Pairs) -> Iterator[Change]:
    """Yield the groups of fused ops that differ between matched graphs."""
    for old, new in pairs.both:
        olds, news = _fusions(old), _fusions(new)
        for stage in Stage:
            if stage in olds and stage in news:
                yield from _between(olds[stage], news[stage], f"{new.where} {stage}")


def _fusions(seen: RunGraph) -> dict[Stage, Fusion]:
    return {each.stage: each for each in seen.session.fusions if each.graph == seen.graph.id}


def _between(old: Fusion, new: Fusion, where: str) -> Iterator[Change]:
    was, now = Counter(_groups(old)), Counter(_groups(new))
    gone, come = list((was - now).elements()), list((now - was).elements())
    for group in list(gone):
        near = max(come, key=lambda other, group=group: _shared(group, other), default=None)  # type: ignore[misc]
        if near is not None and _shared(group, near):
            gone.remove(group)
            come.remove(near)
            if len(group) > 1 or len(near) > 1:
                yield edited(What.FUSION, where, _text(group), _text(near))
    for group in gone:
        if len(group) > 1:
            yield Change(What.FUSION, How.REMOVED, where, was=_text(group))
    for group in come:
        if len(group) > 1:
            yield Change(What.FUSION, How.ADDED, where, now=_text(group))


def _groups(fusion: Fusion) -> Iterator[_Group]:
    """Yield the ops of each group; a library call is one node and fuses nothing."""
    nodes: dict[str, Node] = {each.name: each for each in fusion.nodes}
    for made in fusion.result:
        if made.kind not in (NodeKind.EXTERNAL, NodeKind.NOTHING):
            yield tuple(nodes[name].ops if name in nodes else made.ops for name in made.operations)


def _shared(one: _Group, other: _Group) -> int:
    """Count the ops that two groups share."""
    return len({op for node in one for op in node} & {op for node in other for op in node})


def _text(group: _Group) -> str:
    return " + ".join("/".join(ops) or "?" for ops in group)
