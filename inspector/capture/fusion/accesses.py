"""Compute which distinct elements of each buffer the scheduler's nodes read and write.

`BaseSchedulerNode.get_read_write_buffer_accesses` (2.13, scheduler.py:1680) counts something else, for heuristics. It
counts the whole iteration space for each dependency, up to the buffer's size: in full for a bias broadcast over rows,
and for each of the three slices of a fused query-key-value buffer. It counts ordering dependencies as reads, and
nothing for the views of an external call.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.fusion.buffers import Buffers
from ctrace.inspector.capture.fusion.extents import Pattern, of_dep, of_layout
from ctrace.inspector.facts.fusion import Access


class Touch(Struct, frozen=True):
    """One access of one operation to a buffer."""

    buffer: str
    """The name of the storage; an in-place operation writes it under another name."""
    version: str
    """Torch's name, which changes with each in-place write."""
    write: bool
    pattern: Pattern


def touches(node: Any, buffers: Buffers) -> list[Touch]:
    """List the accesses of an unfused node; a node that only names a part of a buffer has none."""
    from torch._inductor import ir, scheduler

    if isinstance(node, scheduler.SchedulerNode):
        return list(_generated(node, buffers))
    if isinstance(node, scheduler.ExternKernelSchedulerNode) and not isinstance(node.node, ir.MultiOutput):
        return list(_external(node, buffers))
    return []


def accesses(members: Sequence[Any], touched: Iterable[Touch], buffers: Buffers) -> tuple[Access, ...]:
    """Return a node's memory traffic by buffer, from its members' accesses.

    A buffer made inside the node is not read, nor written if no other node uses it: it stays in registers.
    """
    touched = list(touched)
    made = {touch.version for touch in touched if touch.write}
    inside = {name for name in made if len(members) > 1 and _stays_inside(name, members)}
    read: dict[str, set[Pattern]] = defaultdict(set)
    written: dict[str, set[Pattern]] = defaultdict(set)
    for touch in touched:
        if touch.write and touch.version not in inside:
            written[touch.buffer].add(touch.pattern)
        elif not touch.write and touch.version not in made:
            read[touch.buffer].add(touch.pattern)
    names = dict.fromkeys(touch.buffer for touch in touched if touch.buffer in read or touch.buffer in written)
    size, part = buffers.size, buffers.part
    return tuple(
        Access(name, size(name, read[name]), size(name, written[name]), part(read[name]), part(written[name]))
        for name in names
    )


def _stays_inside(name: str, members: Sequence[Any]) -> bool:
    names = {member.get_name() for member in members}
    return bool(members[0].scheduler.can_buffer_be_removed_through_fusion(name, names))


def _generated(node: Any, buffers: Buffers) -> Iterator[Touch]:
    """Yield the accesses of a loop: its loads, stores and searches. Its other dependencies only order nodes."""
    from torch._inductor.dependencies import MemoryDep, StarDep

    searched = _searched(node)
    for dep in node.read_writes.reads:
        if isinstance(dep, MemoryDep):
            yield Touch(buffers.real(dep.name), dep.name, False, of_dep(dep, node.get_name()))
        elif isinstance(dep, StarDep) and buffers.real(dep.name) in searched:
            yield Touch(buffers.real(dep.name), dep.name, False, buffers.whole(dep.name))
    for dep in node.read_writes.writes:
        real, pattern = buffers.real(dep.name), _written(dep, node, buffers)
        yield Touch(real, dep.name, True, pattern)
        if getattr(dep, "mode", None) == "atomic_add":
            yield Touch(real, real, False, pattern)


def _written(dep: Any, node: Any, buffers: Buffers) -> Pattern:
    return of_dep(dep, node.get_name()) if hasattr(dep, "var_names") else buffers.whole(dep.name)


def _searched(node: Any) -> set[str]:
    """Return the buffers that `ops.bucketize` searches; the loop reads them at unknown places."""
    usage = getattr(getattr(node, "_body", None), "memory_usage", {})
    return {
        entry.buffer_name
        for kind, entries in usage.items()
        if kind.name == "BUCKETIZE"
        for entry in entries
        if entry.buffer_name is not None
    }


def _external(node: Any, buffers: Buffers) -> Iterator[Touch]:
    """Yield the accesses of a call, by the layouts of arguments and results; it also reads what it changes in place.

    A user-written kernel counts as writing but not reading what it changes: most only write their results.
    """
    changed, user = _changed(node.node), _is_users(node.node)
    for tensor in _tensors(node.node.inputs):
        name, pattern = tensor.get_name(), _laid_out(tensor)
        if pattern is None:
            continue
        if name in changed:
            yield Touch(buffers.real(name), f"{name} of {node.get_name()}", True, pattern)
        if name not in changed or not user:
            yield Touch(buffers.real(name), name, False, pattern)
    for output in _outputs(node.node):
        pattern = _laid_out(output)
        if pattern is not None and not output.get_mutation_names():
            yield Touch(buffers.real(output.get_name()), output.get_name(), True, pattern)


def _changed(operation: Any) -> set[str]:
    """Return the buffers that a call changes in place: from the operation, or from outputs that alias arguments."""
    names = {name for output in operation.get_outputs() for name in output.get_mutation_names()}
    return names | set(operation.get_mutation_names())


def _is_users(operation: Any) -> bool:
    from torch._inductor import ir

    return isinstance(operation, ir.UserDefinedTritonKernel)


def _tensors(inputs: Any) -> Iterator[Any]:
    from torch._inductor import ir

    for each in inputs:
        if isinstance(each, list | tuple):
            yield from _tensors(each)
        elif isinstance(each, ir.TMADescriptor):
            yield each.tensor
        elif isinstance(each, ir.IRNode) and not isinstance(each, ir.NonTensorObj):
            yield each


def _outputs(operation: Any) -> list[Any]:
    """Return the buffers that a call makes; for a call with several results, return each of them but not the tuple."""
    from torch._inductor import ir

    if not isinstance(operation.get_output_spec(), ir.MultiOutputLayout):
        return list(operation.get_outputs())
    made = getattr(operation, "outputs", None) or ()
    return [each for each in _tensors(made if isinstance(made, list | tuple) else [made]) if hasattr(each, "layout")]


def _laid_out(tensor: Any) -> Pattern | None:
    """Return the elements of a tensor, or None for a value without any, such as a number or a side-effect token."""
    layout = tensor.maybe_get_layout()
    if layout is None or not hasattr(layout, "size"):
        return None
    return of_layout(layout.size, layout.stride, layout.offset)
