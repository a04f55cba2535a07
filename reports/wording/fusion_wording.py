"""Describe nodes of Inductor's scheduler: their ops, what pairs share, and how pairs are ranked."""

from collections import Counter

from ctrace.inspector.facts.fusion_facts import Buffer, Node, NodeKind, Score
from ctrace.inspector.findings.fusion_totals import Totals
from ctrace.inspector.findings.fusion_view import Called, called, kinds
from ctrace.inspector.findings.missed_fusions import Missed, Shared
from ctrace.reports import format as fmt

# Chosen: the first ops of a node tell it from its neighbors.
_OPS = 3


def short_name(name: str) -> str:
    """Shorten torch's name of a fused node: `op0…op7`."""
    parts = name.split("_")
    return fmt.one_line(name if len(parts) < 3 else f"{parts[0]}…{parts[-1]}", 24)


def ops_text(each: Called) -> str:
    """Name a node by its ops, such as `exp, sub`, or by torch's name if the ops are not known."""
    return fmt.one_line(fmt.listed(map(fmt.short_op, each.ops), _OPS), 60) or short_name(each.name)


_CALLED = {NodeKind.NOTHING: "without code", NodeKind.USER: "user-written"}
"""Names for kinds of nodes that read better after a number than the kind."""


def kinds_text(nodes: tuple[Node, ...]) -> str:
    """Count nodes by kind: `3 pointwise, 1 reduction`."""
    return ", ".join(f"{number} {_CALLED.get(kind, kind)}" for kind, number in kinds(nodes).items())


def totals_text(found: Totals) -> str:
    """Write the bytes moved, the bytes without fusion, and the lower bound."""
    least = f" ({fmt.memory(found.least_with_calls)} with its "
    return f"{bytes_text(found)}{fmt.framed(least, fmt.some(found.calls, 'library call'), ')')}"


def bytes_text(found: Totals) -> str:
    """Write the same bytes without the share of library calls, in fewer than 80 letters."""
    return (
        f"{fmt.memory(found.fused)} moved; {fmt.memory(found.unfused)} without fusion, "
        f"lower bound {fmt.memory(found.least)}"
    )


def shared_text(buffers: tuple[Buffer, ...], shared: tuple[Shared, ...]) -> str:
    """Say what extra memory traffic a pair causes: `float32[64, 128] is written and read back`."""
    types = {each.name: f"{each.dtype}[{', '.join(each.shape)}]" for each in buffers if each.dtype}
    traffic = Counter(f"{types.get(each.buffer, each.buffer)} {_extra_traffic(each)}" for each in shared)
    texts = (f"{fmt.repeated(number, '', ' × ')}{text}" for text, number in traffic.items())
    return fmt.one_line(fmt.listed(texts, 2), 200)


def _extra_traffic(each: Shared) -> str:
    if not each.produced:
        if each.read or not each.perhaps:
            return "is read by both"
        return "is read in part by both"
    if each.written:
        return "is written and read back"
    return "is read back"


def score_text(score: Score) -> str:
    """Say what ranks a pair: `both reductions or neither, share 4.0 MiB, neighbors in the program`."""
    # -1 only with `triton.nested_reduction`: one reduction reads another one of a different size.
    alike = {1: "both reductions or neither", -1: "reductions of different sizes"}.get(score.kind, "one is a reduction")
    known = score.kind or score.shared  # torch gives 0 too where nothing is shared
    parts = []
    # 0 is a prologue of a template, which torch ranks last (2.13, _inductor/choices.py:score_fusion).
    if not score.template:
        parts.append("goes into a template")
    if known:
        parts.append(alike)
    parts.append(f"share {fmt.memory(score.shared)}")
    if score.overlap:
        parts.append(f"read {fmt.memory(score.overlap)} in different ways")
    parts.append("neighbors in the program" if score.proximity == -1 else f"{-score.proximity} nodes apart")
    return ", ".join(parts)


def missed_text(each: Missed) -> str:
    """Write a missed pair on one line: its ops, source lines, bytes and reason."""
    first, second = (ops_text(called(node)) for node in (each.first, each.second))
    lines = lines_text((*each.first.lines, *each.second.lines))
    return f"{first} and {second} ({lines}), {fmt.memory(each.bytes)} extra memory traffic: {each.reason.title}"


def lines_text(lines: tuple[str, ...], limit: int = 48) -> str:
    """Write `model.py:9,10`: file names without folders, each once."""
    by_file: dict[str, dict[str, None]] = {}
    for line in lines:
        file, _, number = line.rpartition(":")
        by_file.setdefault(fmt.file_name(file), {})[number] = None
    listed = (f"{file}:{','.join(sorted(numbers, key=_as_number))}" for file, numbers in by_file.items())
    return fmt.one_line(fmt.listed(listed, 2), limit) or "line not known"


def _as_number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
