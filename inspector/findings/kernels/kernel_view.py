"""Query the kernels of each graph part: bytes and operations, outputs, and the nodes fused into each kernel.

The nodes of Inductor's last graph that a kernel computes are found by a comment: above each Triton kernel that it
generates, Inductor prints them as the `Graph fragment` (2.13, `get_kernel_metadata` in _inductor/utils.py). C++ kernels
and calls of a library have no such comment, and a kernel with several calls has the comment of its first one: their
nodes are those of the same line and op that torch does not name for another kernel.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import SelectionError, did_you_mean
from ctrace.inspector.facts.fusion_facts import Buffer, Fusion, Node
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernel_facts import Kernel, Launch, Stage
from ctrace.inspector.facts.session import Graph, Session
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.graphs.fx import CALLS, FxGraph, op_name
from ctrace.inspector.findings.graphs.graph_view import compiled

_LIBRARY = "extern_kernels."
"""The wrapper's prefix for torch's library functions (2.13, _inductor/select_algorithm.py)."""


def label_of(kernel: Kernel) -> str:
    """Return a kernel's name on screens: without the prefix of library functions."""
    return kernel.name.removeprefix(_LIBRARY)


class Work(Struct, frozen=True):
    """Bytes moved and operations computed; None if not known."""

    JSON: ClassVar[str] = "basis=FIGURES read written flops intensity"
    FIGURES: ClassVar[Basis] = Basis.COMPUTED
    read: int | None
    """In bytes, like `written`."""
    written: int | None
    flops: int | None

    @property
    def bytes(self) -> int | None:
        """Bytes read and written."""
        if self.read is None or self.written is None:
            return None
        return self.read + self.written

    @property
    def intensity(self) -> float | None:
        """Floating-point operations for each byte."""
        if self.flops is None or not self.bytes:
            return None
        return self.flops / self.bytes


class KernelNode(Struct, frozen=True):
    """A node of Inductor's scheduler: it becomes one kernel, or one loop nest of a C++ kernel."""

    JSON: ClassVar[str] = "name=of.name kind=of.kind loops=of.loops ops=of.ops lines=of.lines|places"
    of: Node


class KernelOfPart(Struct, frozen=True):
    """One kernel of one graph part, with all its calls."""

    JSON: ClassVar[str] = (
        "basis=BASIS bases=BASES graph=kernel.graph stage=kernel.stage name=kernel.name language=kernel.language "
        "user=kernel.user ops=kernel.ops lines=kernel.lines|places calls=kernel.calls read=work.read "
        "written=work.written flops=work.flops nodes=scheduled"
    )
    BASIS: ClassVar[Basis] = Basis.EMITTED
    BASES: ClassVar[dict[str, Basis]] = dict.fromkeys(("read", "written", "flops"), Basis.COMPUTED)
    kernel: Kernel
    work: Work
    share: float | None
    """Its share in the graph part's known bytes, from 0 to 1."""
    nodes: tuple[Node, ...]
    """Scheduler nodes fused into it; empty if not known."""
    merged: tuple[Node, ...]
    """The nodes after fusion that it computes."""
    buffers: tuple[Buffer, ...]
    """The known buffers that it reads or writes."""

    @property
    def scheduled(self) -> int | None:
        """How many scheduler nodes are fused into it; None: not known."""
        return len(self.nodes) or None

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The buffers that it writes, in order."""
        written = {access.buffer for node in self.merged for access in node.accesses if access.written}
        return tuple(buffer for buffer in self.buffers if buffer.name in written)

    @property
    def is_fused(self) -> bool:
        """Whether the kernel fuses several scheduler nodes."""
        # A kernel that is called twice has a node for each call, which is no fusion.
        return len(self.nodes) > max(len(self.kernel.launches), 1)

    @property
    def label(self) -> str:
        """The kernel's name without the prefix of library functions."""
        return label_of(self.kernel)


class PartKernels(Struct, frozen=True):
    """The kernels of one graph part, most bytes first; kernels with unknown bytes come last."""

    JSON: ClassVar[str] = "graph stage known=sums kernels=rows"
    graph: str
    stage: Stage
    rows: tuple[KernelOfPart, ...]
    of: Graph | None = None
    """The graph; None: the log does not have it."""

    @property
    def name(self) -> str:
        """The graph part's name on screens."""
        return f"{self.graph} {self.stage}"

    @property
    def is_known(self) -> bool:
        """Whether bytes and operations of every kernel are known."""
        return all(row.work.bytes is not None and row.work.flops is not None for row in self.rows)

    @property
    def known(self) -> Work:
        """The sums of the known values; the intensity is meaningful only if all are known."""
        return added((row.work for row in self.rows), partly=True)

    @property
    def sums(self) -> "KnownWork":
        """The sums of the known values, and what they leave out."""
        intensity = self.known.intensity if self.is_known else None
        return KnownWork(self.known, intensity, sum(row.work.bytes is None for row in self.rows))


class KnownWork(Struct, frozen=True):
    """What is known of the work of a graph part."""

    JSON: ClassVar[str] = (
        "basis=FIGURES read=work.read written=work.written flops=work.flops intensity bytes_not_known_of=unknown"
    )
    FIGURES: ClassVar[Basis] = Basis.COMPUTED
    work: Work
    # None unless all is known: bytes and FLOPs may be those of different kernels.
    intensity: float | None
    unknown: int


def parts(session: Session, graph: str | None = None, stage: str | None = None) -> tuple[PartKernels, ...]:
    """List the graph parts with kernels, in torch's order.

    Raises:
        TargetError: that graph or stage has no kernels.
    """
    keys = list(dict.fromkeys((kernel.graph, kernel.stage) for kernel in session.kernels))
    _check("graph", graph, [key[0] for key in keys])
    _check("stage", stage, [str(key[1]) for key in keys if graph in (None, key[0])])
    chosen = [key for key in keys if graph in (None, key[0]) and stage in (None, str(key[1]))]
    return tuple(_part(session, *key) for key in chosen)


def rows(session: Session) -> tuple[KernelOfPart, ...]:
    """List all kernels, in torch's order."""
    # By identity: a kernel's launches hold mappings, so it cannot be a key.
    found = {id(row.kernel): row for part in parts(session) for row in part.rows}
    return tuple(found[id(kernel)] for kernel in session.kernels)


def _check(option: str, value: str | None, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        raise SelectionError(option, f"{value}: this run has no such kernels", did_you_mean(value, known))


def suggestion(value: str, known: Iterable[str]) -> str:
    """Return advice on an unknown name: the nearest known name, or the known names."""
    names = list(dict.fromkeys(known))
    return did_you_mean(value, names, f"there are: {', '.join(names[:8]) or 'none'}")


def _part(session: Session, graph: str, stage: Stage) -> PartKernels:
    fusions = [fusion for fusion in session.fusions if (fusion.graph, fusion.stage) == (graph, stage)]
    scheduled = _Scheduled(fusions)
    kernels = [kernel for kernel in session.kernels if (kernel.graph, kernel.stage) == (graph, stage)]
    rows = [scheduled.row(kernel) for kernel in kernels]
    total = added((row.work for row in rows), partly=True).bytes
    shared = (replace(row, share=_share(row.work.bytes, total)) for row in rows)
    of = next((each for each in session.graphs if each.id == graph), None)
    return PartKernels(graph, stage, tuple(sorted(shared, key=by_bytes)), of)


def by_bytes(row: KernelOfPart) -> tuple[bool, int, bool]:
    """Return a sort key: most bytes first, unknown bytes last, library calls after generated kernels."""
    # On a tie a generated kernel comes first, because it is the one that a user can change.
    return row.work.bytes is None, -(row.work.bytes or 0), row.kernel.language == "external"


def largest_first(found: Iterable[PartKernels]) -> list[PartKernels]:
    """Sort graph parts as their kernels are sorted: those that move the most bytes first, the others in torch's order.

    A part with a kernel of unknown bytes moves at least what is known.
    """
    return sorted(found, key=lambda part: -(part.known.bytes or 0))


class _Scheduled:
    """The scheduler's nodes and buffers of one graph part, by name."""

    def __init__(self, fusions: Iterable[Fusion]) -> None:
        self._nodes: dict[str, Node] = {}
        self._merged: dict[str, Node] = {}
        self._buffers: dict[str, Buffer] = {}
        for fusion in fusions:
            self._nodes |= {operation: node for node in fusion.nodes for operation in node.operations}
            self._merged |= {operation: node for node in fusion.result for operation in node.operations}
            self._buffers |= {buffer.name: buffer for buffer in fusion.buffers}

    def row(self, kernel: Kernel) -> KernelOfPart:
        operations = [operation for launch in kernel.launches for operation in launch.operations]
        nodes, merged = (
            tuple(dict.fromkeys(known[operation] for operation in operations if operation in known))
            for known in (self._nodes, self._merged)
        )
        touched = dict.fromkeys(access.buffer for node in merged for access in node.accesses)
        buffers = tuple(self._buffers[name] for name in touched if name in self._buffers)
        return KernelOfPart(kernel, work_of(kernel), None, nodes, merged, buffers)


def _share(part: int | None, total: int | None) -> float | None:
    if part is None or not total:
        return None
    return part / total


def work_of(kernel: Kernel) -> Work:
    """Add up the calls of a kernel; a sum is unknown if it is unknown for one call."""
    # The log of an older ctrace lacks launches, and a sum over some of the calls would pass for all.
    return added(map(work_of_launch, kernel.launches if len(kernel.launches) >= kernel.calls else ()))


def work_of_launch(launch: Launch) -> Work:
    """Return the bytes and operations of one call."""
    return Work(launch.read, launch.written, launch.flops)


def added(each: Iterable[Work], *, partly: bool = False) -> Work:
    """Add up values; the sum is unknown if there are none or if one is unknown. With `partly`, skip unknown values."""
    works = list(each)
    moved = [work for work in works if work.bytes is not None or not partly]
    counted = [work for work in works if work.flops is not None or not partly]
    return Work(
        _sum([work.read for work in moved]),
        _sum([work.written for work in moved]),
        _sum([one.flops for one in counted]),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    if known and len(known) == len(values):
        return sum(known)
    return None


def named(found: Sequence[PartKernels], name: str) -> tuple[PartKernels, ...]:
    """Keep the kernel with a name, which may be a unique prefix or part of the kernel's name.

    Raises:
        TargetError: no kernel or several kernels match.
    """
    labels = {row.kernel.name: row.label for part in found for row in part.rows}
    # From the exact name to a part: `triton_poi_fused_1` has to find itself, although `triton_poi_fused_10` contains
    # it.
    tests: tuple[Callable[[str], bool], ...] = (
        lambda full: name in (full, labels[full]),
        lambda full: full.startswith(name) or labels[full].startswith(name),
        lambda full: name in full,
    )
    matches = next((hits for test in tests if (hits := [full for full in labels if test(full)])), [])
    if len(matches) != 1:
        what = "several kernel names contain that" if matches else "no kernel name contains that"
        todo = f"name one: {', '.join(matches[:8])}" if matches else suggestion(name, list(labels.values()))
        raise SelectionError("kernel", f"{name}: {what}", todo)
    kept = (replace(part, rows=tuple(row for row in part.rows if row.kernel.name == matches[0])) for part in found)
    return tuple(part for part in kept if part.rows)


_COMPILED = re.compile(r"^(\w+) = async_compile\.")
_NODE = re.compile(r"^#   %(\w+) .*= call_(?:function|method|module)\[")


class GraphNodes(Struct, frozen=True):
    """The nodes of a stage that a kernel computes."""

    JSON: ClassVar[str] = "stage names exact=is_exact"
    stage: str
    """The label of the stage, such as `post_grad`."""
    names: tuple[str, ...]
    is_exact: bool
    """Whether torch names the nodes; if not, these are the nodes with the line and op of a call."""


def graph_nodes(session: Session, kernel: Kernel) -> GraphNodes | None:
    """Return the nodes of a kernel in the last graph of its part; None if there is no such graph."""
    last = _last_graph(session, kernel)
    if last is None:
        return None
    label, graph = last
    fragments = _fragments_of(session, kernel)
    named = set(fragments.get(kernel.name, ()))
    if named and kernel.calls == 1:
        return GraphNodes(label, tuple(node.name for node in graph.nodes if node.name in named), is_exact=True)
    # What torch names for another kernel is certainly not computed by this one.
    elsewhere = {name for other, names in fragments.items() if other != kernel.name for name in names}
    found = (_matching(graph, kernel, named) - elsewhere) | named
    return GraphNodes(label, tuple(node.name for node in graph.nodes if node.name in found), is_exact=False)


def _matching(graph: FxGraph, kernel: Kernel, named: set[str]) -> set[str]:
    """Return the nodes with the line and op of a call; every call has the same ops as the call with known nodes."""
    launches = kernel.launches or (Launch(ops=kernel.ops, lines=kernel.lines),)
    known = {op_name(node) for node in graph.nodes if node.name in named}
    wanted: set[tuple[str, str]] = set()
    for launch in launches:
        wanted.update(product(launch.lines, known or launch.ops))
    return {
        node.name
        for node in graph.nodes
        if node.kind in CALLS and node.at is not None and (f"{node.at.file}:{node.at.line}", op_name(node)) in wanted
    }


def _last_graph(session: Session, kernel: Kernel) -> tuple[str, FxGraph] | None:
    for each in compiled(session):
        if each.id == kernel.graph:
            for staged in each.stages:
                if staged.stage is GraphStage.POST_GRAD and str(staged.part) == str(kernel.stage) and staged.graph:
                    return staged.label, staged.graph
    return None


def _fragments_of(session: Session, kernel: Kernel) -> dict[str, tuple[str, ...]]:
    """Return the nodes that torch names for each kernel of the same graph part."""
    for code in session.code:
        if (code.graph, code.stage) == (kernel.graph, kernel.stage):
            return _fragments(code.text)
    return {}


@lru_cache(maxsize=16)
def _fragments(text: str) -> dict[str, tuple[str, ...]]:
    """Return the nodes in the comment above each generated kernel, by the kernel's name."""
    found: dict[str, tuple[str, ...]] = {}
    above: list[str] = []
    for line in text.split("\n"):
        if match := _NODE.match(line):
            above.append(match[1])
        elif match := _COMPILED.match(line):
            found[match[1]] = tuple(dict.fromkeys(above))
        # The comment stands directly above its kernel; one further up is about something else.
        if not line.startswith("#"):
            above = []
    return found
