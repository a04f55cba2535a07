"""Describe the scheduler's nodes of one graph part, before and after fusion (`GraphPart`): operations and bytes of
each.

**Floating-point operations** (`flops_of`). External calls and templates: torch's own formula (torch.utils.flop_counter;
matmuls only, without the bias), without running the operation and without torch's counter, which `estimate_flops`
bumps. Generated loops: 1 for each arithmetic or transcendental operation and each element of the iteration space, even
if a compiler may hoist it; 2 for `fma`. Loads, stores, casts, roundings, selects, comparisons (including `maximum`),
random numbers and integers count 0; masked parts count in full. Reductions, for each reduced element: 1 for a sum or a
product, 0 for a maximum, 2 for `dot`, 3 for an online softmax (subtract, exp, add), 6 for Welford's mean and variance
(subtract, divide, add; subtract, multiply, add), 10 to combine two of those. A scan counts 1, a sort 0. Members of a
fused node that compute the same value in the same loops share it, as in the emitted kernel: Inductor makes one node for
the mean and one for the variance, each with all of Welford's algorithm.

**Bytes** are those of the distinct elements of each buffer that nodes read and write (`touches`).
`BaseSchedulerNode.get_read_write_buffer_accesses` (2.13, scheduler.py:1680) counts something else, for heuristics. It
counts the whole iteration space for each dependency, up to the buffer's size: in full for a bias broadcast over rows,
and for each of the three slices of a fused query-key-value buffer. It counts ordering dependencies as reads, and
nothing for the views of an external call.

An `ElementSet` says which elements of a buffer an access touches, and how many they are. Patterns of equal elements are
equal, however the loops over them are split or ordered. Counts are exact for sums of `stride * variable` (even if
windows overlap), and upper bounds for indices that depend on data or divide.

What the loop of a generated node computes is counted value by value (`computed`). A `LoopBody` (2.13,
_inductor/loop_body.py:94) holds FX graphs of calls of `ops`. Walk them without running them, because running one
rewrites all its index expressions. Values are numbered: equal values of loops of equal sizes have equal keys.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ctrace.inspector.capture.core.node_lines import stacks_of
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.record_kernels import ops_of, origins_of
from ctrace.inspector.facts.fusion_facts import (
    Access,
    Buffer,
    BufferRole,
    FusedNode,
    FusionRecord,
    NodeKind,
    ScheduledNode,
)

Computed = dict[Hashable, int]
"""FLOPs by value."""
Numbers = dict[Hashable, int]
"""Numbers of the values in one graph part."""

_FREE = frozenset(
    (
        "load", "load_seed", "constant", "index_expr", "value_expr", "identity", "where", "masked", "maximum",
        "minimum", "to_dtype", "to_dtype_bitcast", "floor", "ceil", "round", "trunc", "rand", "randn", "sort",
        "bucketize",
    )
)  # fmt: skip
"""Ops that return floating-point values without arithmetic. Ops such as `lt` are known by their result dtype."""
_WITHOUT_VALUE = frozenset(("store", "store_reduction", "partial_accumulate", "device_assert_async", "check_bounds"))
_REDUCTIONS = {"sum": 1, "prod": 1, "dot": 2, "online_softmax_reduce": 3, "welford_reduce": 6, "welford_combine": 10}


def _flops(name: str) -> int:
    """Return the floating-point operations of one element of an op."""
    if name in _FREE:
        return 0
    if name == "fma":
        return 2
    return 1


class _Value(Struct, frozen=True):
    """A value of the loop; torch's rules read its `dtype`."""

    key: Hashable
    dtype: Any


def computed(body: Any, elements: int, numbers: Numbers) -> Computed:
    """Count what one node's loop computes for all its elements."""
    walk = _Walk(body, numbers)
    walk.block(body.root_block)
    return {(elements, key): times * elements for key, times in walk.counts.items()}


class _Walk:
    def __init__(self, body: Any, numbers: Numbers) -> None:
        from torch._inductor.dtype_propagation import DtypePropagationOpsHandler

        self._body, self._numbers = body, numbers
        self._rules = DtypePropagationOpsHandler()
        self._indirect: dict[str, Hashable] = {}
        self.counts: dict[Hashable, int] = {}

    def block(self, block: Any) -> Any:
        """Walk one graph and return its value."""
        values: dict[Any, Any] = {}
        for node in block.graph.nodes:
            if node.op == "output":
                return self._resolve(node.args[0], values)
            if node.op != "placeholder":
                values[node] = self._step(node, values)
        return None

    def _step(self, node: Any, values: dict[Any, Any]) -> Any:
        args = [self._resolve(arg, values) for arg in node.args]
        if node.op == "call_function":  # operator.getitem
            if isinstance(args[0], tuple):
                return args[0][args[1]]
            return args[0]
        if node.op == "call_module":
            return self._module(str(node.target), args)
        kwargs = {name: self._resolve(arg, values) for name, arg in node.kwargs.items()}
        return self._call(str(node.target), args[1:], kwargs)

    def _resolve(self, arg: Any, values: dict[Any, Any]) -> Any:
        if isinstance(arg, list | tuple):
            return tuple(self._resolve(each, values) for each in arg)
        if hasattr(arg, "all_input_nodes"):
            # The handler of ops, which is a placeholder, stands for itself.
            return values.get(arg, arg)
        return arg

    def _module(self, name: str, args: list[Any]) -> Any:
        if name == "get_index":
            return self._index(args[0])
        if name.startswith("masked_subblock"):
            inner = self.block(self._body.subblocks[name])
            return _Value(("masked", *map(_key, (args[0], inner, args[1]))), inner.dtype)
        if name.startswith("scan"):
            dtypes, scanned = args
            return self._add(("scan", _key(scanned)), tuple(dtypes), 1)
        self._indirect[name.removeprefix("set_")] = _key(args[0])
        return None

    def _index(self, name: str) -> Hashable:
        """Return an index expression with the values that it depends on."""
        index = self._body.indexing_exprs[name]
        if not self._indirect:
            return (index,)
        # A set of symbols has no order, and the key needs one.
        used = sorted(str(symbol) for symbol in index.free_symbols if str(symbol) in self._indirect)
        return (index, *(self._indirect[symbol] for symbol in used))

    def _call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name in _WITHOUT_VALUE:
            self._stored(name, args, kwargs)
            return None
        dtype = self._dtype(name, args, kwargs)
        key = (name, *map(_key, args), *map(_key, kwargs.items()))
        if name == "reduction":
            return self._add(key, dtype, _REDUCTIONS.get(args[2], 0))
        return self._add(key, dtype, _flops(name))

    def _dtype(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name == "load":
            from torch._inductor.virtualized import V

            return V.graph.get_dtype(args[0])
        if name == "reduction":
            # These return several results at once, such as a mean, the squares and a weight.
            if args[2].startswith(("welford", "online")):
                return (args[0],) * 3
            return args[0]
        return getattr(self._rules, name)(*args, **kwargs)

    def _stored(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        # The mode comes by name or in the fourth place: `store(name, index, value, mode)`.
        if name == "store" and "atomic_add" in (kwargs.get("mode"), *args[3:]):
            self._add(("atomic_add", *map(_key, args)), args[2].dtype, 1)
        if name == "partial_accumulate":  # a reduction that shares its loop with a reduction over other dimensions
            self._add(("reduction", *map(_key, args[1:3])), args[2].dtype, _REDUCTIONS.get(args[1], 0))

    def _add(self, key: Hashable, dtype: Any, times: int) -> Any:
        """Record the value, and count it if it is floating point."""
        number = self._numbers.setdefault(key, len(self._numbers))
        is_float = any(each.is_floating_point or each.is_complex for each in _each(dtype))
        if times and is_float:
            # Set, not added: equal values are computed once, as in the emitted kernel.
            self.counts[number] = times
        if isinstance(dtype, tuple):
            return tuple(_Value((number, place), each) for place, each in enumerate(dtype))
        return _Value(number, dtype)


def _each(dtype: Any) -> tuple[Any, ...]:
    if isinstance(dtype, tuple):
        return dtype
    return (dtype,)


def _key(value: Any) -> Hashable:
    if isinstance(value, _Value):
        return value.key
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    key: Hashable = value
    return key


class ElementSet(Struct, frozen=True):
    """A set of elements of a buffer."""

    key: Hashable
    elements: int


def hint(expr: Any) -> int:
    """Return a size as a number: for a symbol, the size when the graph was compiled, or torch's guess."""
    from torch._inductor.virtualized import V

    if isinstance(expr, int) or expr.is_Integer:
        return int(expr)
    return int(V.graph.sizevars.optimization_hint(expr))


def of_layout(size: Iterable[Any], stride: Iterable[Any], offset: Any) -> ElementSet:
    """Return the elements of a strided tensor; dimensions with stride 0 count once."""
    dims = [(hint(step), hint(count)) for step, count in zip(stride, size, strict=True)]
    return _strided(hint(offset), dims)


def of_dep(dep: Any, within: str) -> ElementSet:
    """Return the elements of a `MemoryDep`; `within` distinguishes data-dependent places."""
    import sympy  # sympy comes with torch; a program without torch must not wait for the import

    sizes = {name: hint(size) for name, size in zip(dep.var_names, dep.size, strict=True)}
    index = sympy.sympify(dep.index)
    symbols = index.free_symbols - set(sizes)
    # An upper bound: how many of the indices are equal depends on the data.
    if dep.is_indirect():
        return ElementSet((within, index, dep.size), prod(sizes.values()))
    index = index.xreplace({symbol: sympy.Integer(hint(symbol)) for symbol in symbols})
    affine = _affine(index, sizes)
    if affine is None:
        used = {name: size for name, size in sizes.items() if name in index.free_symbols}
        return ElementSet((index, tuple(used.items())), prod(used.values()))
    return _strided(*affine)


def _affine(index: Any, sizes: dict[Any, int]) -> tuple[int, list[tuple[int, int]]] | None:
    """Split `8*d0 + d1 + 3` into an offset and (stride, size) pairs; return None for another form."""
    from sympy import Add

    offset, dims = 0, []
    for term in Add.make_args(index):
        factor, variable = term.as_coeff_Mul()
        if not factor.is_Integer:
            return None
        if variable in sizes:
            dims.append((int(factor), sizes[variable]))
        elif variable == 1:
            offset += int(factor)
        else:
            return None
    return offset, dims


def _strided(offset: int, dims: list[tuple[int, int]]) -> ElementSet:
    if any(size == 0 for _, size in dims):
        return ElementSet(0, 0)
    # A loop that runs backwards touches the same elements; counted from its lowest address, its key is the same.
    offset += sum(stride * (size - 1) for stride, size in dims if stride < 0)
    merged = _merged(dims)
    return ElementSet((offset, merged), prod(size for _, size in merged))


def _merged(dims: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge dimensions that continue or overlap each other: 3 windows of 5 with stride 2 are 9 elements."""
    merged: list[tuple[int, int]] = []
    # Smallest stride first, since a dimension can only continue one that is denser.
    for stride, size in sorted((abs(stride), size) for stride, size in dims if stride and size > 1):
        step, count = merged[-1] if merged else (0, 0)
        if step and stride % step == 0 and stride <= step * count:
            merged[-1] = (step, count + (size - 1) * (stride // step))
        else:
            merged.append((stride, size))
    return tuple(merged)


class Touch(Struct, frozen=True):
    """One access of one operation to a buffer."""

    buffer: str
    """The name of the storage; an in-place operation writes it under another name."""
    version: str
    """Torch's name, which changes with each in-place write."""
    write: bool
    pattern: ElementSet


class Buffers:
    """Looks up buffers by the scheduler's names, each only once."""

    def __init__(self, scheduler: Any) -> None:
        from torch._inductor.virtualized import V

        self._real: dict[str, str] = scheduler.mutation_real_name
        self._layouts: dict[str, Any] = {}
        self._whole: dict[str, ElementSet] = {}
        self._parts: dict[frozenset[ElementSet], int] = {}
        self._graph = V.graph

    def real(self, name: str) -> str:
        """Return the name of a buffer's storage: its own name, or that of the buffer that it mutates or is part of."""
        # Inductor gives each in-place write a new name (scheduler.py, 2.13, `mutation_real_name`).
        name = self._real.get(name, name)
        holder = getattr(self._layout(name), "view", None)  # a NonOwningLayout: one input of a `cat`
        if holder is not None:
            name = holder.get_name()
        return name

    def whole(self, name: str) -> ElementSet:
        """Return all elements of a buffer, or none if it is not a tensor."""
        name = self.real(name)
        if name not in self._whole:
            layout = self._layout(name)
            self._whole[name] = (
                ElementSet(0, 0) if layout is None else of_layout(layout.size, layout.stride, layout.offset)
            )
        return self._whole[name]

    def size(self, name: str, patterns: Iterable[ElementSet]) -> int:
        """Return the bytes of some elements of a buffer, at most its size."""
        layout = self._layout(name)
        if layout is None:
            return 0
        # Patterns may overlap, and their sum may exceed the buffer.
        elements = min(sum(pattern.elements for pattern in patterns), self.whole(name).elements)
        return int(elements * layout.dtype.itemsize)

    def part(self, patterns: Iterable[ElementSet]) -> int:
        """Return a number that identifies a set of elements."""
        return self._parts.setdefault(frozenset(patterns), len(self._parts))

    def outputs(self) -> list[str]:
        """Return the names of the graph part's outputs: its results, and the inputs that it changes."""
        names = [*self._graph.get_output_names(), *self._graph.mutated_inputs]
        return list(dict.fromkeys(name for each in names if self._layout(name := self.real(each)) is not None))

    def inputs(self) -> list[str]:
        """Return the names of the graph part's input tensors."""
        return [name for name in self._graph.graph_inputs if self._layout(name) is not None]

    def table(self, names: Iterable[str]) -> tuple[Buffer, ...]:
        """Return the description of each buffer."""
        inputs, outputs = {*self._graph.graph_inputs, *self._graph.constants}, set(self.outputs())
        return tuple(self._described(name, inputs, outputs) for name in names)

    def _described(self, name: str, inputs: set[str], outputs: set[str]) -> Buffer:
        layout, role = self._layout(name), BufferRole.INNER
        if name in inputs:
            role = BufferRole.INPUT
        elif name in outputs:
            role = BufferRole.OUTPUT
        if layout is None:
            return Buffer(name, role, dtype="", shape=(), stride=(), device="")
        return Buffer(
            name=name,
            role=role,
            dtype=str(layout.dtype).removeprefix("torch."),
            shape=tuple(map(str, layout.size)),
            stride=tuple(map(str, layout.stride)),
            device=str(layout.device),
            bytes=None if _depends_on_data(layout) else self.whole(name).elements * layout.dtype.itemsize,
        )

    def _layout(self, name: str) -> Any:
        if name not in self._layouts:
            buffer: Any = self._graph.try_get_buffer(name)
            layout = None
            if hasattr(buffer, "maybe_get_layout"):
                layout = buffer.maybe_get_layout()
            self._layouts[name] = layout if hasattr(layout, "size") else None
        return self._layouts[name]


def touches(node: Any, buffers: Buffers) -> list[Touch]:
    """List the accesses of an unfused node; a node that only names a part of a buffer has none."""
    from torch._inductor import ir, scheduler

    if isinstance(node, scheduler.SchedulerNode):
        return list(_generated(node, buffers))
    # A MultiOutput names one result of a call, whose memory the call itself wrote.
    if isinstance(node, scheduler.ExternKernelSchedulerNode) and not isinstance(node.node, ir.MultiOutput):
        return list(_external(node, buffers))
    return []


def accesses(members: Sequence[Any], touched: Iterable[Touch], buffers: Buffers) -> tuple[Access, ...]:
    """Return a node's memory traffic by buffer, from its members' accesses.

    A buffer made inside the node is not read, nor written if no other node uses it: it stays in registers.
    """
    touched = list(touched)
    # By version: an in-place op reads the old one and writes the new one of the same storage.
    made = {touch.version for touch in touched if touch.write}
    inside = {name for name in made if len(members) > 1 and _stays_inside(name, members)}
    read: dict[str, set[ElementSet]] = defaultdict(set)
    written: dict[str, set[ElementSet]] = defaultdict(set)
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
        # An atomic addition reads what it adds to.
        if getattr(dep, "mode", None) == "atomic_add":
            yield Touch(real, real, False, pattern)


def _written(dep: Any, node: Any, buffers: Buffers) -> ElementSet:
    if hasattr(dep, "var_names"):
        return of_dep(dep, node.get_name())
    return buffers.whole(dep.name)


def _searched(node: Any) -> set[str]:
    """Return the buffers that `ops.bucketize` searches; the loop reads them at unknown places."""
    usage = getattr(getattr(node, "_body", None), "memory_usage", {})
    searches = [entry for kind, entries in usage.items() if kind.name == "BUCKETIZE" for entry in entries]
    return {entry.buffer_name for entry in searches if entry.buffer_name is not None}


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
            # A version of its own: under the buffer's name, `accesses` would take what the call reads for made by it.
            yield Touch(buffers.real(name), f"{name} of {node.get_name()}", True, pattern)
        if name not in changed or not user:
            yield Touch(buffers.real(name), name, False, pattern)
    for output in _outputs(node.node):
        pattern = _laid_out(output)
        # An output that stands for a changed argument was written above.
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


def _laid_out(tensor: Any) -> ElementSet | None:
    """Return the elements of a tensor, or None for a value without any, such as a number or a side-effect token."""
    layout = tensor.maybe_get_layout()
    if layout is None or not hasattr(layout, "size"):
        return None
    return of_layout(layout.size, layout.stride, layout.offset)


class _Facts(Struct, frozen=True):
    """Facts of an unfused node that fusion preserves, though it may rewrite the loops."""

    touches: list[Touch]
    flops: Computed | int | None


class GraphPart:
    """Describes nodes; first call `see` with the nodes before fusion."""

    def __init__(self, scheduler: Any, recorder: Recorder) -> None:
        self._buffers = Buffers(scheduler)
        self._recorder = recorder
        self._facts: dict[str, _Facts] = {}
        self._numbers: Numbers = {}
        self._ops: dict[str, int] = {}
        self._stacks: dict[str, int] = {}
        self._nodes: tuple[ScheduledNode, ...] = ()

    def see(self, nodes: Sequence[Any]) -> None:
        """Store the nodes before fusion."""
        self._nodes = tuple(self._scheduled(node) for node in nodes)

    def added_to(self, record: FusionRecord, result: Sequence[Any]) -> FusionRecord:
        """Return a record with all nodes and their buffers; a node that fusion did not change is its number."""
        numbers = {node.name: number for number, node in enumerate(self._nodes)}
        after = tuple(numbers[name] if (name := node.get_name()) in numbers else self._fused(node) for node in result)
        outputs = self._buffers.outputs()
        used = [access.buffer for node in self._nodes for access in node.accesses]
        return replace(
            record,
            nodes=self._nodes,
            result=after,
            ops=tuple(self._ops),
            stacks=tuple(self._stacks),
            buffers=self._buffers.table(dict.fromkeys([*self._buffers.inputs(), *used, *outputs])),
            outputs=tuple(outputs),
        )

    def _fused(self, node: Any) -> FusedNode:
        members = node.get_nodes()
        facts = [self._facts_of(member) for member in members]
        touched = [touch for each in facts for touch in each.touches]
        return FusedNode(
            name=node.get_name(),
            kind=_kind(node),
            operations=tuple(member.get_name() for member in members),
            loops=_loops(node),
            accesses=accesses(members, touched, self._buffers),
            flops=total([each.flops for each in facts]),
        )

    def _facts_of(self, member: Any) -> _Facts:
        name = member.get_name()
        if name not in self._facts:
            touched: list[Touch] = []
            flops: Computed | int | None = None
            with self._recorder.watching(f"memory accesses of a {type(member).__name__}"):
                touched = touches(member, self._buffers)
                # A node that touches nothing computes nothing; one whose count fails stays unknown.
                flops = 0
                if touched:
                    flops = None
            with self._recorder.watching(f"the FLOPs of a {type(member).__name__}"):
                if touched:
                    flops = flops_of(member, self._numbers)
            self._facts[name] = _Facts(touched, flops)
        return self._facts[name]

    def _scheduled(self, node: Any) -> ScheduledNode:
        fused = self._fused(node)
        members = [member.node for member in node.get_nodes() if member.node is not None]
        origins = [
            origin for member in members for origin in origins_of(member, exact=node.is_extern() and len(members) == 1)
        ]
        stacks = [stack for member in members for stack in stacks_of(member)]
        return ScheduledNode(
            **asdict(fused), ops=_interned(ops_of(origins), self._ops), stacks=_interned(stacks, self._stacks)
        )


def _interned(texts: Sequence[str], table: dict[str, int]) -> tuple[int, ...]:
    return tuple(table.setdefault(text, len(table)) for text in dict.fromkeys(texts))


def _loops(node: Any) -> str:
    """Format the loop sizes in a node's group (2.13, scheduler.py: `(device, group_fn(sizes))`).

    A group for the CPU lists all sizes; a group for another device has only their products.
    """
    group = getattr(node, "group", None)
    if group:
        parts = group[1]
    else:
        parts = ()
    texts = [", ".join(map(str, part)) if isinstance(part, list | tuple) else str(part) for part in parts]
    # The second part of a group is what a reduction reduces.
    outer, inner = texts if len(texts) == 2 else (", ".join(texts), "")
    if inner not in ("", "1"):
        return f"{outer or 1} | {inner}"
    return outer


def _kind(node: Any) -> NodeKind:
    from torch._inductor import ir, scheduler

    members = node.get_nodes()
    # From special to general: a foreach node is also a fused one, and a template is also generated.
    if isinstance(node, scheduler.ForeachKernelSchedulerNode):
        return NodeKind.FOREACH
    if all(
        isinstance(each, scheduler.NopKernelSchedulerNode) or isinstance(each.node, ir.MultiOutput) for each in members
    ):
        return NodeKind.NOTHING
    if any(isinstance(each.node, ir.UserDefinedTritonKernel) for each in members):
        return NodeKind.USER
    if node.is_template():
        return NodeKind.TEMPLATE
    if node.is_extern():
        return NodeKind.EXTERNAL
    return next((name for name, holds in _generated_kinds() if any(map(holds, members))), NodeKind.OTHER)


def _generated_kinds() -> list[tuple[NodeKind, Callable[[Any], bool]]]:
    from torch._inductor import ir, scheduler

    def computes(kind: type) -> Callable[[Any], bool]:
        return lambda member: isinstance(getattr(member.node, "data", None), kind)

    # From special to general: sorts, scans and reductions are SchedulerNodes, too.
    return [
        (NodeKind.SORT, computes(ir.Sort)),
        (NodeKind.SCAN, computes(ir.Scan)),
        (NodeKind.REDUCTION, lambda member: bool(member.is_reduction())),
        (NodeKind.POINTWISE, lambda member: isinstance(member, scheduler.SchedulerNode)),
    ]


_WITHOUT_ARITHMETIC = frozenset(
    (
        "aten.bucketize", "aten.clone", "aten.copy", "aten.copy_", "aten.cummax", "aten.cummin", "aten.empty",
        "aten.empty_strided", "aten.gather", "aten.index", "aten.index_select", "aten.masked_select", "aten.nonzero",
        "aten.searchsorted", "aten.sort", "aten.topk",
    )
)  # fmt: skip
"""Operations that move or compare values."""
_ON_CPU = "_for_cpu"
"""Suffix of an attention op for the CPU; torch has a formula only for the op without the suffix."""


def flops_of(node: Any, numbers: Numbers) -> Computed | int | None:
    """Count an unfused node's FLOPs; those of a loop are listed by value, so that fused nodes can share values."""
    from torch._inductor import ir, scheduler
    from torch._inductor.virtualized import V

    if isinstance(node, scheduler.NopKernelSchedulerNode) or isinstance(node.node, ir.MultiOutput):
        return 0
    if isinstance(node, scheduler.SchedulerNode) and not node.is_template():
        (iteration, reduced), device = node._sizes, node.node.get_device_or_error()
        with V.graph.set_current_device(device):  # torch looks up low-precision arithmetic by device
            return computed(node._body, prod(map(hint, (*iteration, *reduced))), numbers)
    if isinstance(node.node, ir.UserDefinedTritonKernel):
        return None
    return _by_formula(origins_of(node.node, exact=True))


def total(parts: list[Computed | int | None]) -> int | None:
    """Return the sum over the members of a node, or None if one is unknown."""
    values: Computed = {}
    known = 0
    for part in parts:
        if part is None:
            return None
        if isinstance(part, int):
            known += part
        else:
            values |= part
    return known + sum(values.values())


def _by_formula(origins: list[Any]) -> int | None:
    """Return the FLOPs by torch's formula if one operation has a formula, 0 if none computes, else None."""
    from torch.utils.flop_counter import flop_registry

    calls = [origin for origin in origins if origin.op == "call_function"]
    known = [call for call in calls if _counted(call) in flop_registry]
    # With two, it is not known which of them the kernel computes.
    if len(known) == 1:
        return _evaluate(flop_registry[_counted(known[0])], known[0])
    moves = all(str(_packet(call)) in _WITHOUT_ARITHMETIC or not _on_floats(call) for call in calls)
    if calls and not known and moves:
        return 0
    return None


def _packet(call: Any) -> Any:
    return getattr(call.target, "overloadpacket", call.target)


def _counted(call: Any) -> Any:
    """Return the operation whose formula applies to a call."""
    import torch

    name = str(_packet(call))
    if not (name.startswith("aten.") and name.endswith((_ON_CPU, f"{_ON_CPU}_backward"))):
        return _packet(call)
    return getattr(torch.ops.aten, name.removeprefix("aten.").replace(_ON_CPU, ""), None)


def _evaluate(formula: Any, call: Any) -> int:
    import torch

    # A graph argument, such as FlexAttention's score function, has no value, and no formula reads it.
    args, kwargs = torch.fx.map_arg((call.args, call.kwargs), lambda node: node.meta.get("val"))
    count = formula(*args, **kwargs, out_val=call.meta["val"])
    return hint(count.node.expr if isinstance(count, torch.SymInt) else count)


def _on_floats(call: Any) -> bool:
    """Whether an operation takes or returns values other than integers; True if unknown."""
    import torch
    from torch.utils._pytree import tree_leaves

    values = [*tree_leaves(call.meta.get("val", 0.0)), *(node.meta.get("val", 0.0) for node in call.all_input_nodes)]
    tensors = (each for each in tree_leaves(values) if isinstance(each, torch.Tensor | float))
    return any(isinstance(each, float) or each.is_floating_point() or each.is_complex() for each in tensors)


def _depends_on_data(layout: Any) -> bool:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols([*layout.size, *layout.stride]))
