"""Kernels of a run by graph part: what each moves and computes, what it writes, and what it was fused from."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ctrace.inspector.errors import SelectionError, did_you_mean
from ctrace.inspector.model.fusion import Buffer, Fusion, Node
from ctrace.inspector.model.kernels import Kernel, Launch, Stage
from ctrace.inspector.model.session import Session

_LIBRARY = "extern_kernels."
"""What the wrapper calls torch's own library functions by (2.13, _inductor/select_algorithm.py)."""


@dataclass(frozen=True, slots=True)
class Work:
    """What something moves and computes; None: not known."""

    read: int | None
    """Bytes."""
    written: int | None
    flops: int | None

    @property
    def bytes(self) -> int | None:
        """Bytes read and written."""
        return None if self.read is None or self.written is None else self.read + self.written

    @property
    def intensity(self) -> float | None:
        """Floating-point operations for each byte."""
        return None if self.flops is None or not self.bytes else self.flops / self.bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel of one graph part, all its calls together."""

    kernel: Kernel
    work: Work
    share: float | None
    """Of the known bytes of the graph part, from 0 to 1."""
    nodes: tuple[Node, ...]
    """Nodes of the scheduler that it was fused from; empty: not known."""
    merged: tuple[Node, ...]
    """What the scheduler made of them."""
    buffers: tuple[Buffer, ...]
    """All that it reads or writes, as far as they are known."""

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """Buffers that it writes, in the order in which it does."""
        written = {access.buffer for node in self.merged for access in node.accesses if access.written}
        return tuple(buffer for buffer in self.buffers if buffer.name in written)

    @property
    def is_fused(self) -> bool:
        """Whether several nodes of the scheduler became one in it."""
        return len(self.nodes) > max(len(self.kernel.launches), 1)

    @property
    def label(self) -> str:
        """Its name, without the prefix that all functions of the library have."""
        return self.kernel.name.removeprefix(_LIBRARY)


@dataclass(frozen=True, slots=True)
class Part:
    """The kernels of one graph part, those that move most bytes first; those of which it is not known come last."""

    graph: str
    stage: Stage
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """How it is called on screens."""
        return f"{self.graph} {self.stage}"

    @property
    def is_known(self) -> bool:
        """Whether it is known of each kernel what it moves and computes."""
        return all(row.work.bytes is not None and row.work.flops is not None for row in self.rows)

    @property
    def known(self) -> Work:
        """The sums of what is known; its intensity means something only where all is."""
        return added((row.work for row in self.rows), partly=True)


def parts(session: Session, graph: str | None = None, stage: str | None = None) -> tuple[Part, ...]:
    """List graph parts that have kernels, in torch's order.

    Raises:
        TargetError: no kernel is of that graph, or of that stage.
    """
    keys = list(dict.fromkeys((kernel.graph, kernel.stage) for kernel in session.kernels))
    _check("graph", graph, [key[0] for key in keys])
    _check("stage", stage, [str(key[1]) for key in keys if graph in (None, key[0])])
    chosen = [key for key in keys if graph in (None, key[0]) and stage in (None, str(key[1]))]
    return tuple(_part(session, *key) for key in chosen)


def rows(session: Session) -> tuple[Row, ...]:
    """List all kernels, in torch's order."""
    found = {id(row.kernel): row for part in parts(session) for row in part.rows}
    return tuple(found[id(kernel)] for kernel in session.kernels)


def _check(option: str, asked: str | None, known: Sequence[str]) -> None:
    if asked is not None and asked not in known:
        raise SelectionError(option, f"{asked}: this run has no kernels of it", did_you_mean(asked, known))


def suggestion(asked: str, known: Iterable[str]) -> str:
    """Say which of some names may be meant, or what there is."""
    names = list(dict.fromkeys(known))
    return did_you_mean(asked, names, f"there are: {', '.join(names[:8]) or 'none'}")


def _part(session: Session, graph: str, stage: Stage) -> Part:
    fusions = [fusion for fusion in session.fusions if (fusion.graph, fusion.stage) == (graph, stage)]
    scheduled = _Scheduled(fusions)
    kernels = [kernel for kernel in session.kernels if (kernel.graph, kernel.stage) == (graph, stage)]
    rows = [scheduled.row(kernel) for kernel in kernels]
    whole = added((row.work for row in rows), partly=True).bytes
    shared = (replace(row, share=_share(row.work.bytes, whole)) for row in rows)
    return Part(graph, stage, tuple(sorted(shared, key=by_bytes)))


def by_bytes(row: Row) -> tuple[bool, int, bool]:
    """Order rows: most bytes first, and what is not known last, calls of a library after what was generated."""
    return row.work.bytes is None, -(row.work.bytes or 0), row.kernel.language == "external"


class _Scheduled:
    """What the scheduler knew of one graph part, by the names of operations and buffers."""

    def __init__(self, fusions: Iterable[Fusion]) -> None:
        self._nodes: dict[str, Node] = {}
        self._merged: dict[str, Node] = {}
        self._buffers: dict[str, Buffer] = {}
        for fusion in fusions:
            self._nodes |= {operation: node for node in fusion.nodes for operation in node.operations}
            self._merged |= {operation: node for node in fusion.result for operation in node.operations}
            self._buffers |= {buffer.name: buffer for buffer in fusion.buffers}

    def row(self, kernel: Kernel) -> Row:
        operations = [operation for launch in kernel.launches for operation in launch.operations]
        nodes, merged = (
            tuple(dict.fromkeys(known[operation] for operation in operations if operation in known))
            for known in (self._nodes, self._merged)
        )
        touched = dict.fromkeys(access.buffer for node in merged for access in node.accesses)
        buffers = tuple(self._buffers[name] for name in touched if name in self._buffers)
        return Row(kernel, work_of(kernel), None, nodes, merged, buffers)


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def work_of(kernel: Kernel) -> Work:
    """Add up the calls of a kernel; what is not known of each of them is not known."""
    return added(map(work_of_launch, kernel.launches if len(kernel.launches) >= kernel.calls else ()))


def work_of_launch(launch: Launch) -> Work:
    """Say what one call moves and computes."""
    return Work(launch.read, launch.written, launch.flops)


def added(each: Iterable[Work], *, partly: bool = False) -> Work:
    """Add up; of nothing, nothing is known. With `partly`, what is not known is passed over."""
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
    return sum(known) if known and len(known) == len(values) else None


def named(found: Sequence[Part], name: str) -> tuple[Part, ...]:
    """Keep the kernels of one name: the whole name, or the beginning or a part of it that only one kernel has.

    Raises:
        TargetError: there is none, or there are several.
    """
    labels = {row.kernel.name: row.label for part in found for row in part.rows}
    tests: tuple[Callable[[str], bool], ...] = (
        lambda full: name in (full, labels[full]),
        lambda full: full.startswith(name) or labels[full].startswith(name),
        lambda full: name in full,
    )
    matches = next((hits for test in tests if (hits := [full for full in labels if test(full)])), [])
    if len(matches) != 1:
        what = "several kernels have that in their name" if matches else "no kernel has that in its name"
        todo = f"name one: {', '.join(matches[:8])}" if matches else suggestion(name, list(labels.values()))
        raise SelectionError("kernel", f"{name}: {what}", todo)
    kept = (replace(part, rows=tuple(row for row in part.rows if row.kernel.name == matches[0])) for part in found)
    return tuple(part for part in kept if part.rows)
