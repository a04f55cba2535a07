"""Find where ranks of one process group part in what they communicate, outside of graphs and in them.

The ranks of a group wait for each other in each of its collectives, so they have to call the same ones in the same
order. What ran outside of graphs was recorded as it ran; what a graph communicates is read from the graph below
autograd, each time that it ran. A sequence that is not known to its end, since the record was cut, the program failed,
a graph is not in the log, or torch's `Join` goes on as long as peers have inputs, is compared as far as it is known.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.facts.cluster_facts import ClusterFacts, CollectiveCalled
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.lowered_collectives import Calls, calls_by_compilation
from ctrace.inspector.features.compare.rank_summary import Apart
from ctrace.inspector.features.compare.ranks_of_job import Divergence
from ctrace.inspector.features.compare.record_content import LoweredCall
from ctrace.inspector.log.folders import LogFile

_KERNEL = re.compile(r"\b_c10d_functional\.(?P<op>\w+?)(?:_out|_)?\.")
_P2P = ("send", "recv", "isend", "irecv", "recv_any_source")
_ROOTED = ("scatter", "gather")
"""The root of these holds the parts of all ranks, and each other rank holds its own."""
_UNEVEN = ("all_to_all", "all_to_all_single")
"""Ranks may send each other parts of any size."""
_MOST_RANKS = 8
_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool", "c64": "complex64", "c128": "complex128",
}  # fmt: skip


class Sent(Struct, frozen=True):
    """One collective of one rank."""

    op: str
    reduction: str
    """Such as `sum`; empty: none, or not known."""
    group: str
    size: str
    """Bytes outside of graphs, a shape in them."""
    dtype: str
    file: str
    line: int
    compilation: str = ""
    """Of its graph; empty: it ran outside of graphs."""

    @property
    def is_compiled(self) -> bool:
        """Whether it is part of a graph."""
        return bool(self.compilation)

    def content(self, *, with_size: bool) -> tuple[str, str, str, str]:
        """Return what has to be equal on all ranks of the group."""
        is_free = self.op in (*_ROOTED, *_UNEVEN) or not with_size
        return self.op, self.reduction, self.dtype, "" if is_free else self.size

    @property
    def text(self) -> str:
        """The collective on a screen."""
        op = f"{self.op}({self.reduction})" if self.reduction else self.op
        place = f" ({Path(self.file).name}:{self.line})" if self.file else ""
        return f"{op} of {self.size} of {self.dtype}{place}"


class _RankCalls(Struct):
    """The collectives of one rank in one group, each with its index among all collectives of the rank."""

    calls: list[tuple[int, Sent]]
    is_whole: bool

    def at(self, index: int) -> Sent | None:
        if index < len(self.calls):
            return self.calls[index][1]
        return None


def first_difference_in_order(runs: Mapping[int, tuple[LogFile, Session]]) -> Divergence | None:
    """Find the first collective in which two ranks of one process group differ; `runs` has log and session by rank."""
    by_group: dict[tuple[int, ...], dict[int, _RankCalls]] = {}
    for rank, (log, session) in runs.items():
        cluster = session.cluster
        if cluster is None:
            continue
        members = _members(cluster)
        sent, is_whole = _sent(log, session, cluster)
        for group in set(members.values()):
            by_group.setdefault(group, {})[rank] = _RankCalls([], is_whole)
        for index, each in enumerate(sent):
            if each.op not in _P2P and each.group in members:
                by_group[members[each.group]][rank].calls.append((index, each))
    found = [part for group, by_rank in by_group.items() if (part := _apart(group, by_rank)) is not None]
    return min(found, default=(0, None), key=lambda each: each[0])[1]


def _sent(log: LogFile, session: Session, cluster: ClusterFacts) -> tuple[list[Sent], bool]:
    """Return the collectives of a rank in order, and whether these are all."""
    has_graphs = any(not isinstance(each, CollectiveCalled) for each in cluster.calls)
    graphs = calls_by_compilation(log) if has_graphs else {}
    found: list[Sent] = []
    for each in cluster.calls:
        if isinstance(each, CollectiveCalled):
            if each.is_joined:
                return found, False
            size = f"{each.bytes} bytes"
            found.append(Sent(each.op, each.reduction, each.group, size, each.dtype, each.file, each.line))
            continue
        calls = _of_graph(graphs.get(each.graph, {}), is_backward=each.is_backward)
        if calls is None:
            return found, False
        lines = _lines_of(session, each.graph, is_backward=each.is_backward)
        found += _with_places(calls, each.graph, lines)
    return found, cluster.cut_after is None and session.failure is None


def _of_graph(calls: Calls, *, is_backward: bool) -> list[LoweredCall] | None:
    """Return what one run of a graph communicates; None: its graph is not in the log."""
    names = ("aot_backward_graph",) if is_backward else ("aot_forward_graph", "aot_inference_graph")
    records = next((calls[name] for name in names if name in calls), None)
    if records is None:
        return None
    # DDP cuts a graph into parts, and the backward runs them from the last to the first.
    ordered = records[::-1] if is_backward else records
    return [each for record in ordered for each in record if isinstance(each, LoweredCall)]


def _lines_of(session: Session, graph: str, *, is_backward: bool) -> dict[str, list[str]]:
    """Return the user's line of each collective that the code of a graph calls, in order, by the name of its op."""
    stages = (Stage.BACKWARD,) if is_backward else (Stage.FORWARD, Stage.INFERENCE)
    found: dict[str, list[str]] = {}
    for kernel in session.kernels:
        match = _KERNEL.search(kernel.name) if kernel.graph == graph and kernel.stage in stages else None
        if match is not None:
            found.setdefault(match["op"], []).extend(each.lines[0] if each.lines else "" for each in kernel.launches)
    return found


def _with_places(calls: list[LoweredCall], graph: str, lines: Mapping[str, list[str]]) -> Iterator[Sent]:
    """Yield the collectives of a graph with the user's lines.

    Torch names its own line in the graph if the program calls torch.distributed: then the kernel has the user's.
    """
    numbers = Counter(each.op for each in calls)
    reached: Counter[str] = Counter()
    for each in calls:
        file, line = each.file, each.line
        known = lines.get(each.op, [])
        if not file or _is_torchs(file):
            place = known[reached[each.op]] if len(known) == numbers[each.op] else ""
            file, _, number = place.rpartition(":")
            line = int(number) if number.isdecimal() else 0
        reached[each.op] += 1
        dtype = _DTYPES.get(each.dtype, each.dtype)
        yield Sent(each.op, each.reduction, each.group, f"[{each.shape}]", dtype, file, line, graph)


def _is_torchs(file: str) -> bool:
    return file.startswith("torch/") or "/torch/" in file


def _members(cluster: ClusterFacts) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each process group that this rank is in."""
    everyone = tuple(range(cluster.world))
    return {"0": everyone} | {each.name: tuple(sorted(each.ranks)) or everyone for each in cluster.groups}


def _apart(group: tuple[int, ...], by_rank: Mapping[int, _RankCalls]) -> tuple[int, Divergence] | None:
    """Return where the ranks of one group part, with how many collectives came before on the rank that is shown."""
    if len(by_rank) < 2:
        return None
    for at in range(max(len(each.calls) for each in by_rank.values())):
        here = {rank: each.at(at) for rank, each in by_rank.items() if each.is_whole or at < len(each.calls)}
        if len(here) > 1 and _differ(list(here.values())):
            return _divergence(group, by_rank, here, _parted_at(by_rank, at))
    return None


def _differ(here: Sequence[Sent | None]) -> bool:
    with_size = len({each.is_compiled for each in here if each is not None}) < 2
    return len({None if each is None else each.content(with_size=with_size) for each in here}) > 1


def _parted_at(by_rank: Mapping[int, _RankCalls], at: int) -> int:
    """Return from where on the ranks call from different lines: a lone collective may look like the next one."""
    while at > 0:
        before = [each.at(at - 1) for each in by_rank.values()]
        if len({(each.file, each.line) for each in before if each is not None}) < 2:
            break
        at -= 1
    return at


def _divergence(
    group: tuple[int, ...], by_rank: Mapping[int, _RankCalls], apart: Mapping[int, Sent | None], at: int
) -> tuple[int, Divergence]:
    here = {rank: by_rank[rank].at(at) for rank in apart}
    there = [each for each in here.values() if each is not None]
    usual = [each.content(with_size=True) for each in there]
    lone = min(
        (rank for rank, each in here.items() if each is not None),
        key=lambda rank: sum(_place(here[rank]) == _place(each) for each in there),
    )
    shown = here[lone]
    assert shown is not None
    before = next((each for rank in apart if (each := here[rank]) is not None and each.file), shown)
    shown = shown if shown.file else before
    values = {rank: "nothing more" if each is None else each.text for rank, each in sorted(here.items())}
    lines = {each.line for each in there if each.file == shown.file} - {shown.line}
    members = ", ".join(map(str, group[:_MOST_RANKS])) + (" and more" if len(group) > _MOST_RANKS else "")
    subject = f"collective {at + 1} of the group of ranks {members}"
    if len(set(usual)) == 1 and len(there) == len(here):
        subject += ", which come from different lines"
    found = Divergence(
        shown.compilation, "", shown.file, shown.line, Apart.COLLECTIVE, subject, values, tuple(sorted(lines))
    )
    return by_rank[lone].calls[at][0], found


def _place(each: Sent | None) -> tuple[str, int] | None:
    if each is None:
        return None
    return (each.file, each.line)
