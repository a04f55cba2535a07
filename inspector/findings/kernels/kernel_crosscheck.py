"""Check the kernels of a graph part against torch's count, and their bytes against the scheduler's nodes."""

from collections.abc import Iterable, Iterator

from ctrace.inspector.facts.fusion_facts import Fusion, Node, NodeKind
from ctrace.inspector.facts.kernels import Kernel, Launch, Stage
from ctrace.inspector.knowledge.counting import count
from ctrace.inspector.log.raw import Raw


def miscounted_kernels(raw: Raw) -> Iterator[str]:
    """Report kernels that torch counted and the log lacks, and vice versa.

    Torch's count increases by one for a Triton kernel and for each loop nest of a C++ kernel, and by more where torch
    generates several kernels to time them. So it increases between two calls of generated kernels, and not after the
    last call.
    """
    for written in raw.written:
        id_, stage, part = written.id, written.stage, written.generated
        if part is None:
            continue
        calls = [made for made in written.kernels if made.counted is not None]
        own = [made for made in calls if made.language != "external" and not made.user]
        reached = part.before
        for made in own:
            if made.counted is not None and made.counted <= reached:
                yield f"graph {id_} ({stage}) calls {made.name}, which torch's generated_kernel_count does not count"
            reached = made.counted or reached
        if part.counted > reached:
            yield (
                f"graph {id_} ({stage}): torch's generated_kernel_count includes "
                f"{count(part.counted - reached, 'kernel')} after the last one in the log; some may be missing"
            )


def unbalanced(kernels: Iterable[Kernel], fusions: Iterable[Fusion]) -> Iterator[str]:
    """Report parts whose kernels do not move the same bytes as their nodes after fusion."""
    made: dict[tuple[str, Stage], list[Launch]] = {}
    for kernel in kernels:
        made.setdefault((kernel.graph, kernel.stage), []).extend(kernel.launches)
    parts: dict[tuple[str, Stage], list[Fusion]] = {}
    for fusion in fusions:
        parts.setdefault((fusion.graph, fusion.stage), []).append(fusion)
    for (graph, stage), fused in parts.items():
        launches = made.get((graph, stage), [])
        known = [each.read + (each.written or 0) for each in launches if each.read is not None]
        nodes = sum(node.read + node.written for fusion in fused for node in _launched(fusion, launches))
        if launches and len(known) == len(launches) and sum(known) != nodes:
            moved = f"its kernels move {sum(known)} bytes, but its nodes after fusion move {nodes}"
            yield f"graph {graph} ({stage}): {moved}"


def _launched(fusion: Fusion, launches: Iterable[Launch]) -> Iterator[Node]:
    """Yield the nodes that kernels compute: leave out views and copies between devices.

    A copy between devices is one statement in the wrapper, `buf1.copy_(buf0)` (2.11 to 2.13, codegen/wrapper.py:
    `codegen_device_copy`).
    """
    called = {name for each in launches for name in each.operations}
    devices = {buffer.name: buffer.device for buffer in fusion.buffers}
    for node in fusion.result:
        crosses = len({devices.get(each.buffer, "") for each in node.accesses}) > 1
        is_copy = node.kind is NodeKind.EXTERNAL and crosses and called.isdisjoint(node.operations)
        if node.kind is not NodeKind.NOTHING and not is_copy:
            yield node
