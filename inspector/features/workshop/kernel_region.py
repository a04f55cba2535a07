"""The part of Inductor's last graph that a kernel computes: from the values that it reads to those that it stores.

Its definition in PyTorch operators is written twice: as Python that computes it, and as data that a matcher finds it
by. A C++ kernel of the CPU is taken as an op calls it.
"""

import ast
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernel_facts import Kernel, KernelBuffer, KernelCall, Pointer
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.workshop.size_expressions import (
    SEE_DUMP,
    RefusalError,
    UnknownExpressionError,
    are_equal,
    renamed,
    symbols_of,
)
from ctrace.inspector.findings.graphs.fx import At, FxGraph, FxNode, FxNodeKind, is_view, op_name
from ctrace.inspector.findings.graphs.graph_lines import aten_inputs, traced_inputs
from ctrace.inspector.findings.graphs.graph_view import compiled

_WIDTHS = {"16": "AVX512", "8": "AVX2"}
"""Floats in a vector register, and torch's name of the instructions."""
_LOOP = re.compile(r"Vectorized<float>::loadu\([^;]*?, static_cast<int64_t>\((\d+)\)\)")
_STEP = re.compile(r"\+=static_cast<int64_t>\((\d+)L\)")
_SHORT = re.compile(r"\b(?:bfloat16|BFloat16|half|Half)\b")
"""Types of which a vector holds more elements than of float."""
_ALIAS = re.compile(r"auto (\w+) = (\w+);")


class CppKernel(Struct, frozen=True):
    """A C++ kernel, and what its call passes."""

    source: str
    capability: str
    """The vector instructions that it is written for, in torch's terms; empty: any."""
    arguments: tuple[str, ...]
    """Names of tensors and expressions of sizes, in order."""
    copies: tuple[tuple[str, str], ...]
    """Outputs that start as a copy of an input, and the inputs: the kernel changes these in place."""


def is_loaded_first(pointer: Pointer, source: str) -> bool:
    """Whether a C++ kernel reads what is behind a pointer before it writes there."""
    # In front of the brace are the parameters, which name each pointer, too.
    body = source.partition("{")[2]
    names = {pointer.name, *(new for new, old in _ALIAS.findall(body) if old == pointer.name)}
    body = _ALIAS.sub("", body)
    name = "|".join(map(re.escape, sorted(names)))
    used = re.search(rf"\b(?:{name})\b", body)
    stored = re.search(rf"\b(?:{name})\[[^=;]*\] = |\.store\((?:{name})\b", body)
    return used is not None and (stored is None or used.start() < stored.start())


def is_loaded(pointer: Pointer, source: str) -> bool:
    """Whether a C++ kernel reads what is behind a pointer at all."""
    name = re.escape(pointer.name)
    return re.search(rf"\bloadu\({name}\b|= {name}\[", source.partition("{")[2]) is not None


def is_used(pointer: str, source: str) -> bool:
    """Whether a C++ kernel uses a parameter."""
    return re.search(rf"\b{re.escape(pointer)}\b", source.partition("{")[2]) is not None


def vector_instructions(source: str) -> str:
    """Return the instructions that the kernel's loops are written for.

    Raises:
        RefusalError: ctrace does not know them.
    """
    if "at::vec::" not in source:
        return ""
    widths = set(_LOOP.findall(source)) & _WIDTHS.keys()
    if not widths and not _SHORT.search(source):  # all vectors are partly filled; the loops' steps are whole ones
        widths = set(_STEP.findall(source)) & _WIDTHS.keys()
    if len(widths) != 1:
        raise RefusalError("ctrace does not know the vector instructions that it is written for", SEE_DUMP)
    return _WIDTHS[widths.pop()]


_RANDOM = re.compile(r"inductor_(?:random|randint|lookup_seed|seeds?)\b|philox|\brand|bernoulli|native_dropout\b")
_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
_IN_PLACE = re.compile(r"(?<=[^\W_])_(\.\w+)$")
_ALIASING = frozenset(("getitem", "aten.reshape", "aten.contiguous", "aten.to"))
"""Ops beside views that may return the memory of their argument; for some, that depends on its strides or dtype."""
_COPY = "torch.ops.aten.copy_.default"
_TWO_STEP = ("torch.ops.aten.var_mean.", "torch.ops.prims.prepare_softmax_online.")
"""Operators of two results, of which a kernel may compute one from the other: the variance from the mean."""
_SPLIT = ("torch.ops.aten.convolution.default", "torch.ops.aten.addmm.default")


class CallOfKernel(Struct, frozen=True):
    """A call of a kernel, and the kernel."""

    call: KernelCall
    kernel: Kernel


class RegionTensor(Struct, frozen=True):
    """A tensor that a region takes or returns; sizes and strides are expressions of the graph's symbols."""

    name: str
    """A Python identifier, unique in the region."""
    node: str
    dtype: str
    shape: tuple[str, ...]
    stride: tuple[str, ...]
    label: str = ""
    """The user's name for it, such as `norm.weight`; empty if there is none."""


class RegionStep(Struct, frozen=True):
    """One call of an op in the region."""

    name: str
    """The node's name, which is unique in the region, also among its tensors."""
    target: str
    """Such as `aten.mul.Tensor`, `prims.convert_element_type.default` or `operator.getitem`."""
    args: str
    """The arguments as torch printed them; they name nodes."""
    dtype: str
    """Empty if the op returns several tensors."""
    shape: tuple[str, ...] = ()
    at: At | None = None


class Region(Struct, frozen=True):
    """What one kernel computes, or several that belong together."""

    inputs: tuple[RegionTensor, ...]
    outputs: tuple[RegionTensor, ...]
    scratch: tuple[RegionTensor, ...]
    """Values that one kernel passes to the next and that are not in the graph, such as partial sums."""
    steps: tuple[RegionStep, ...]
    names: Mapping[str, str]
    """The Python names of the region's nodes, keyed by the names in the graph."""
    sizes: Mapping[str, str]
    """Nodes that are symbolic numbers, and their expressions."""
    pointers: tuple[Mapping[str, tuple[str, str]], ...]
    """Of each kernel, its pointers with the names of the tensors that each reads and writes; empty: none."""


def region_of(session: Session, parts: Sequence[CallOfKernel]) -> Region:
    """Find the region that some calls of kernels compute, in the order of the calls.

    Raises:
        RefusalError: it cannot be determined, or uses what an op without side effects cannot do.
    """
    call = parts[-1].call
    return _Finder(post_grad_graph(session, call), parts, _labels(session, call)).region()


def post_grad_graph(session: Session, call: KernelCall) -> FxGraph:
    """Return the graph that a call belongs to as it is after Inductor's last passes, which kernels are made of.

    Raises:
        RefusalError: the log lacks it.
    """
    stages = [staged for each in compiled(session) if each.id == call.graph for staged in each.stages]
    for staged in stages:
        # The part of a graph and the stage of a call are two enums with the same words, such as "backward".
        is_of_call = str(staged.part) == str(call.stage)
        if staged.stage is GraphStage.POST_GRAD and is_of_call and staged.graph:
            return staged.graph
    raise RefusalError("the log lacks Inductor's last graph", "capture the model again with this ctrace")


def _labels(session: Session, call: KernelCall) -> dict[str, str]:
    """Return the user's names of the graph's inputs."""
    for each in compiled(session):
        if each.id == call.graph:
            traced = traced_inputs(session, each)
            graph = each.first(GraphStage.FORWARD, GraphStage.INFERENCE, GraphStage.AFTER_JOINT)
            found = {}
            if graph is not None:
                found = aten_inputs(graph, traced)
            return {name: known.name for name, known in found.items() if known.role != "size"}
    return {}


class _Finder:
    """Walks from the values that kernels store back to those that they read."""

    def __init__(self, graph: FxGraph, parts: Sequence[CallOfKernel], labels: Mapping[str, str]) -> None:
        self._nodes = {node.name: node for node in graph.nodes}
        self._parts = parts
        self._labels = labels
        self._buffers = {buffer.name: buffer for part in parts for buffer in part.call.buffers}
        self._names = _Names()
        self._accesses = [accesses(part) for part in parts]

    def region(self) -> Region:
        written = self._written()
        stored = self._stored(written)
        if not stored:
            raise RefusalError("it stores no value of the graph", SEE_DUMP)
        read = self._read(set(written))
        steps = self._steps(set(stored), set(read))
        self._refuse_second_steps(steps, read)
        used = {name for step in steps for name in self._nodes[step].uses}
        inputs = {node: buffer for node, buffer in read.items() if node in used}
        taken = {buffer: self._tensor(node, self._buffers[buffer]) for node, buffer in inputs.items()}
        results = {buffer: self._tensor(node, self._buffers[buffer]) for node, buffer in stored.items()}
        scratch = {
            name: self._scratch(self._buffers[name], number)
            for number, name in enumerate((each for each in written if each not in results), 1)
        }
        self._refuse(steps)
        names = {name: each.name for name, each in taken.items()}
        made = {name: each.name for name, each in (*results.items(), *scratch.items())}
        return Region(
            inputs=tuple(taken.values()),
            outputs=tuple(results.values()),
            scratch=tuple(scratch.values()),
            steps=tuple(self._step(self._nodes[name]) for name in steps if not self._nodes[name].symbol),
            names={name: self._names.of(name) for name in (*inputs, *steps)},
            sizes={node.name: node.symbol for node in self._nodes.values() if node.symbol},
            pointers=tuple(self._pointers(names, made)),
        )

    def _written(self) -> list[str]:
        """Return the buffers that the kernels write, in order."""
        return list(
            dict.fromkeys(access.pointer.written for each in self._accesses for access in each if access.is_written)
        )

    def _stored(self, written: Iterable[str]) -> dict[str, str]:
        """Return the values of the graph among the written buffers: nodes, and their buffers."""
        found: dict[str, str] = {}
        passed = {access.pointer.read for each in self._accesses for access in each if access.is_read}
        # What a later kernel reads may be a partial result; what none reads has to be a value of the graph.
        main = set(written) - passed - set(self._read_back())
        for name in written:
            node = node_after(self._buffers[name], self._nodes)
            if node is not None and name in main and self._nodes[node].kind is not FxNodeKind.CALL_FUNCTION:
                raise RefusalError(f"it copies {node} into a part of another value, such as a concatenation", SEE_DUMP)
            if node is not None and (name not in passed or self._why_not(node, self._buffers[name]) is None):
                found[node] = name
            elif name in main:
                raise RefusalError(
                    f"Inductor does not say which value of the graph {name} holds: it may be a part of a reduction"
                    " or of a concatenation",
                    "eject the kernel that reads it, which takes this one with it",
                )
        return found

    def _read_back(self) -> Iterable[str]:
        """Yield what a C++ kernel writes in one loop and reads in the next: the sum of squares of a norm, for example.

        Where the graph has no such value, nothing outside of the kernel can need it.
        """
        for part in self._parts:
            if part.kernel.language != "cpp":
                continue
            for pointer in part.call.pointers:
                if pointer.written and not pointer.read and is_loaded(pointer, part.kernel.source):
                    yield pointer.written

    def _read(self, written: set[str]) -> dict[str, str]:
        """Return the values that come from outside: nodes, and their buffers."""
        found: dict[str, str] = {}
        made: set[str] = set()
        for each in self._accesses:
            for access in each:
                name = access.pointer.read
                if access.is_read and name not in made:
                    node = node_before(self._buffers[name], self._nodes)
                    if node is None:
                        raise RefusalError(f"it reads {name}, which is no value of the graph", SEE_DUMP)
                    found.setdefault(node, name)
            made |= {access.pointer.written for access in each if access.is_written}
        return found

    def _pointers(self, names: Mapping[str, str], made: Mapping[str, str]) -> Iterable[Mapping[str, tuple[str, str]]]:
        before: set[str] = set()
        for each in self._accesses:
            passed: dict[str, tuple[str, str]] = {}
            for access in each:
                pointer = access.pointer
                if pointer.read in before:
                    holders = made
                else:
                    holders = names
                read = ""
                if access.is_read:
                    read = holders.get(pointer.read, "")
                written = ""
                if access.is_written:
                    written = made.get(pointer.written, "")
                passed[pointer.name] = (read, written)
            yield passed
            before |= {access.pointer.written for access in each if access.is_written}

    def _steps(self, stored: set[str], read: set[str]) -> list[str]:
        """Return the nodes between the values read and those stored, in the order of the graph."""
        if late := self._dependent(read, stored):
            raise RefusalError(f"it reads {late}, which depends on a value that it stores", SEE_DUMP)
        todo, found = list(stored), set[str]()
        while todo:
            name = todo.pop()
            node = self._nodes[name]
            # A value may be read and stored, where the kernel changes it in place: its computation belongs
            # to the region.
            if name in found or node.symbol or (name in read and name not in stored):
                continue
            if node.kind is not FxNodeKind.CALL_FUNCTION:
                raise RefusalError(f"its results depend on {name}, which the kernel does not take", SEE_DUMP)
            if node.target in _SPLIT and name in stored:
                raise RefusalError(
                    f"Inductor splits {name} into a library's kernel and the addition of its bias, which this"
                    " kernel computes",
                    "a layer with bias=False, followed by an addition, has a region of its own",
                )
            found.add(name)
            todo += node.uses
        return [name for name in self._nodes if name in found]

    def _dependent(self, read: set[str], stored: set[str]) -> str | None:
        """Return a value read that depends on one stored, so that no op can take one and return the other."""
        dependent = set(stored)
        for node in self._nodes.values():
            if not dependent.isdisjoint(node.uses):
                dependent.add(node.name)
        return min(read & dependent, default=None)

    def _is_fresh(self, node: FxNode, steps: set[str]) -> bool:
        """Whether an op in place changes memory that the region makes and nothing else uses, also through views."""
        for _ in self._nodes:  # at most so many views: the text of a damaged log may have a cycle
            name = ""
            if node.uses:
                name = node.uses[0]
            users = [each for each in self._nodes.values() if name in each.uses]
            # With a second user, the change would show in a value outside.
            if name not in steps or len(users) != 1:
                return False
            node = self._nodes[name]
            if not _may_be_view(node):
                return True
        return False

    def _refuse(self, steps: Sequence[str]) -> None:
        for name in steps:
            node = self._nodes[name]
            if _RANDOM.search(node.target):
                raise RefusalError(
                    "it generates random numbers, which no definition in PyTorch operators repeats",
                    "eject a kernel without dropout: model.eval(), or p=0",
                )
            if "higher_order" in node.target or not node.target.startswith(("torch.ops.", "operator.")):
                raise RefusalError(f"it contains {node.target}, which is not an ATen operator", SEE_DUMP)
            if _IN_PLACE.search(node.target) and not self._is_fresh(node, set(steps)):
                raise RefusalError(f"it contains {node.target}, which changes its input", SEE_DUMP)

    def _refuse_second_steps(self, steps: Sequence[str], read: Iterable[str]) -> None:
        """Refuse a variance around a mean that is read: its definition, of the values alone, takes no other mean."""
        for name in read:
            for of in self._nodes[name].uses:
                if of in steps and self._nodes[of].target.startswith(_TWO_STEP):
                    op = self._nodes[of].target.removeprefix("torch.ops.")
                    raise RefusalError(
                        f"it computes one result of {op} from another one, {name}, which an earlier kernel computes",
                        SEE_DUMP,
                    )

    def _scratch(self, buffer: KernelBuffer, number: int) -> RegionTensor:
        return RegionTensor(self._names.new(f"partial_{number}", ""), "", buffer.dtype, buffer.shape, buffer.stride)

    def _tensor(self, node: str, buffer: KernelBuffer) -> RegionTensor:
        if why := self._why_not(node, buffer):
            raise RefusalError(why, SEE_DUMP)
        label = self._labels.get(node, "")
        stride = _as_in_graph(self._nodes[node], buffer)
        return RegionTensor(self._names.new(node, label), node, buffer.dtype, buffer.shape, stride, label)

    def _why_not(self, name: str, buffer: KernelBuffer) -> str | None:
        """Return why a buffer cannot hold a node's whole value, or None."""
        type_ = self._nodes[name].type
        if type_ is None:
            return f"the graph does not say the sizes of {name}"
        try:
            for each in (*buffer.shape, *buffer.stride):
                symbols_of(each)
            is_same = len(type_.sizes) == len(buffer.shape) and all(map(are_equal, type_.sizes, buffer.shape))
        except UnknownExpressionError:
            return f"the sizes of {name} are in a notation that ctrace does not know"
        sizes = f"({', '.join(buffer.shape)}), the graph as ({', '.join(type_.sizes)})"
        if is_same:
            return None
        return f"the kernel sees {name} as {sizes}"

    def _step(self, node: FxNode) -> RegionStep:
        dtype, shape = "", tuple[str, ...]()
        if node.type:
            dtype, shape = _DTYPES.get(node.type.dtype, ""), node.type.sizes
        return RegionStep(
            name=self._names.of(node.name),
            # Inductor makes ops in place of others after the passes that packages are put back in (post_grad.py, 2.11)
            target=_IN_PLACE.sub(r"\1", node.target.removeprefix("torch.ops.")),
            args=node.args,
            dtype=dtype,
            shape=shape,
            at=node.at,
        )


def _may_be_view(node: FxNode) -> bool:
    """Whether the memory of an op's result may be that of its first argument."""
    return is_view(node) or op_name(node) in _ALIASING


def _as_in_graph(node: FxNode, buffer: KernelBuffer) -> tuple[str, ...]:
    """Return a buffer's strides, written as in the graph where both are equal.

    Inductor multiplies products of sums out. A graph with strides in that form does not always compile again: torch
    divides them by each other, and cannot bound the result (ValueRangeError, 2.13).
    """
    strides = None
    if node.type is not None:
        strides = node.type.strides
    if strides is None or len(strides) != len(buffer.stride):
        return buffer.stride
    try:
        return tuple(one if are_equal(one, other) else other for one, other in zip(strides, buffer.stride, strict=True))
    except UnknownExpressionError:
        return buffer.stride


class PointerUse(Struct, frozen=True):
    """How a kernel uses a pointer."""

    pointer: Pointer
    is_read: bool
    """Whether it loads what was there before the call."""
    is_written: bool
    is_added: bool
    """Whether it adds atomically."""


def accesses(part: CallOfKernel) -> tuple[PointerUse, ...]:
    """Return how a kernel uses each pointer, from its source."""
    pointers = part.call.pointers
    if part.kernel.language == "cpp":  # it reads an input that it changes through the pointer that it writes to
        reads = {each.read for each in pointers}
        pointers = tuple(
            replace(each, read=each.written) if not each.read and each.written in reads else each for each in pointers
        )
    return tuple(_access(each, part.kernel) for each in pointers)


def _access(pointer: Pointer, kernel: Kernel) -> PointerUse:
    if kernel.language != "triton":
        is_read = bool(pointer.read) and is_loaded_first(pointer, kernel.source)
        return PointerUse(pointer, is_read, bool(pointer.written), is_added=False)
    # Behind the signature, and behind the decorators, which name the pointers as well.
    body = kernel.source.partition("\ndef ")[2].partition("):")[2]
    name = re.escape(pointer.name)
    used = re.search(rf"\b{name}\b", body)
    stored = re.search(rf"tl\.(?:store|atomic_\w+)\({name}\b", body)
    added = bool(re.search(rf"tl\.atomic_\w+\({name}\b", body))
    is_read = bool(pointer.read) and used is not None and (stored is None or used.start() < stored.start())
    return PointerUse(pointer, is_read, bool(pointer.written) and stored is not None, added)


def node_before(buffer: KernelBuffer, nodes: Mapping[str, FxNode]) -> str | None:
    """Return the node whose value a buffer holds before a kernel writes it; None if there is none."""
    if buffer.kind == "input" and buffer.name in nodes:
        name = buffer.name
    else:
        name = buffer.node
    # The node of a copy into an input is what the buffer holds afterwards.
    if name in nodes and nodes[name].target != _COPY:
        return name
    return None


def node_after(buffer: KernelBuffer, nodes: Mapping[str, FxNode]) -> str | None:
    """Return the node whose value a buffer holds after a kernel wrote it: for an input, what the graph copies to it."""
    target = buffer.mutates or (buffer.name if buffer.kind == "input" else "")
    copies = [each for each in nodes.values() if each.target == _COPY and len(each.uses) > 1]
    if target:
        return next((each.uses[1] for each in copies if each.uses[0] == target), None)
    if buffer.node in nodes and nodes[buffer.node].target == _COPY:
        return nodes[buffer.node].uses[1]
    if buffer.node in nodes:
        return buffer.node
    return None


class _Names:
    """Gives each node a unique Python name: the user's name if there is one."""

    _TAKEN = frozenset(
        ("torch", "aten", "triton", "tl", "operator", "definition", "device", "self", "grid", "kernel", "meta", "math",
         "covers", "run_kernel", "run_definition", "as_strided_copy", "flops", "save_inputs", "differentiate",
         "prepare_softmax_online", "multiply_add", "iota", "max_pool_with_offsets", "offsets_to_indices", "copied",
         "rows", "layers", "libdevice", "max", "min", "float", *keyword.kwlist)
    )  # fmt: skip
    """Names that the package's files use otherwise."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def new(self, node: str, label: str) -> str:
        text = ""
        if label:
            # Dynamo begins the names of what the model holds with it.
            text = re.sub(r"\W+", "_", label.rpartition("L__self___")[2]).strip("_")
        if not (text.isidentifier() and text.isascii()):
            text = ""
        # AOTAutograd's names of inputs and of gradients that come in.
        name = text or re.sub(r"^tangents_", "grad_", re.sub(r"^primals_", "input_", node))
        taken = set(self._of.values()) | self._TAKEN
        while name in taken and self._of.get(node) != name:
            name += "_"
        return self._of.setdefault(node, name)

    def of(self, node: str) -> str:
        return self._of.get(node) or self.new(node, "")


_MODULES = frozenset(("torch", "math", "operator"))
_PRIMS = {
    "prims.convert_element_type.default": "aten.to.dtype",
    "prims.prepare_softmax_online.default": "prepare_softmax_online",
    "prims.fma.default": "multiply_add",
    "prims.rev.default": "aten.flip.default",
    "aten.copy.default": "copied",
    "prims.iota.default": "iota",
    "prims._low_memory_max_pool_with_offsets.default": "max_pool_with_offsets",
    "prims._low_memory_max_pool_offsets_to_indices.default": "offsets_to_indices",
}
"""Operators without a derivative or a CPU kernel, and what the definition calls instead."""
FUNCTIONS = {
    "prepare_softmax_online": '''\
def prepare_softmax_online(x, dim):
    """Return the maximum along a dimension, and the sum of exponentials relative to it."""
    largest = aten.amax.default(x, [dim], True)
    return largest, aten.sum.dim_IntList(aten.exp.default(aten.sub.Tensor(x, largest)), [dim], True)
''',
    "multiply_add": '''\
def multiply_add(x, y, z):
    """Return x * y + z."""
    return aten.add.Tensor(aten.mul.Tensor(x, y), z)
''',
    "iota": '''\
def iota(length, *, start, step, dtype, device, requires_grad=False):
    """Return `length` integers from `start` on."""
    return torch.arange(start, start + length * step, step, dtype=dtype, device=device)
''',
    "max_pool_with_offsets": '''\
def max_pool_with_offsets(x, window, stride, padding, dilation, ceil_mode):
    """Return the maximum of each window, and its place in the window, counted row by row."""
    largest, indices = aten.max_pool2d_with_indices.default(x, window, stride, padding, dilation, ceil_mode)
    rows = torch.arange(largest.shape[-2], device=x.device)[:, None] * stride[0] - padding[0]
    columns = torch.arange(largest.shape[-1], device=x.device) * stride[1] - padding[1]
    row = (indices // x.shape[-1] - rows) // dilation[0]
    column = (indices % x.shape[-1] - columns) // dilation[1]
    return largest, (row * window[1] + column).to(torch.int8)
''',
    "copied": '''\
def copied(x, y, non_blocking=False):
    """Return the values of y with the sizes and the dtype of x."""
    return y.expand(x.shape).to(x.dtype)
''',
    "offsets_to_indices": '''\
def offsets_to_indices(offsets, window, size, stride, padding, dilation):
    """Return the places in the whole input that places in windows mean."""
    rows = torch.arange(offsets.shape[-2], device=offsets.device)[:, None] * stride[0] - padding[0]
    columns = torch.arange(offsets.shape[-1], device=offsets.device) * stride[1] - padding[1]
    row = offsets.to(torch.int64) // window[1] * dilation[0] + rows
    column = offsets.to(torch.int64) % window[1] * dilation[1] + columns
    return row * size[1] + column
''',
}
"""The functions behind `_PRIMS`, in terms of ATen."""
_FREE = frozenset(
    ("permute", "view", "reshape", "_unsafe_view", "expand", "unsqueeze", "squeeze", "slice", "select", "clone", "cat",
     "to", "convert_element_type", "embedding", "index", "gather", "full", "iota", "alias", "t", "transpose", "detach",
     "as_strided", "full_like", "constant_pad_nd", "arange", "_to_copy", "empty", "split", "copy", "scalar_tensor",
     "slice_scatter", "select_scatter", "scatter", "index_select", "repeat", "flip", "diagonal", "unbind", "lift")
)  # fmt: skip
"""Operators that move values and compute nothing."""
_REDUCTIONS = frozenset(
    ("sum", "mean", "amax", "amin", "prod", "any", "var_mean", "var", "prepare_softmax_online", "argmax", "argmin",
     "max", "min", "all", "std")
)  # fmt: skip


class Line(Struct, frozen=True):
    """One statement of the definition."""

    text: str
    at: At | None


class Definition(Struct, frozen=True):
    """A region in PyTorch operators."""

    lines: tuple[Line, ...]
    functions: tuple[str, ...]
    """The names of `FUNCTIONS` that the lines call."""
    pattern: tuple[str, ...]
    """Of each step, `Step(...)` with its op and arguments, for the matcher."""
    flops: tuple[str, ...]
    """Numbers of operations, as products of sizes, one for each step that computes something."""


def definition_of(region: Region, symbols: Mapping[str, str], device: str) -> Definition:
    """Write a region in PyTorch operators.

    Args:
        symbols: the names of the graph's symbols in the package.
        device: an expression for the device of the inputs.

    Raises:
        RefusalError: an argument has a form that ctrace does not know.
    """
    functions = dict.fromkeys(_PRIMS[each.target] for each in region.steps if each.target in _PRIMS)
    return Definition(
        lines=tuple(Line(_statement(each, region, symbols, device), each.at) for each in region.steps),
        functions=tuple(each for each in functions if each in FUNCTIONS),
        pattern=tuple(_pattern(each, region, symbols) for each in region.steps),
        flops=tuple(_flops(region, symbols)),
    )


def _call(step: RegionStep) -> ast.Call:
    try:
        call = ast.parse(f"f({step.args})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise RefusalError(f"the arguments of {step.target} cannot be parsed", SEE_DUMP) from None
    assert isinstance(call, ast.Call)
    return call


def _statement(step: RegionStep, region: Region, symbols: Mapping[str, str], device: str) -> str:
    call = _Arguments(step, region, symbols, device, is_pattern=False).visit(_call(step))
    if step.target == "operator.getitem":
        return f"{step.name} = {ast.unparse(call.args[0])}[{ast.unparse(call.args[1])}]"
    if step.target.startswith("operator."):
        return f"{step.name} = {step.target}({', '.join(map(ast.unparse, call.args))})"
    target = _PRIMS.get(step.target, step.target)
    if target.startswith("prims."):
        raise RefusalError(f"it contains {target}, for which ctrace knows no definition in ATen operators", SEE_DUMP)
    if target.startswith("aten.") or target in FUNCTIONS:
        name = target
    else:
        name = f"torch.ops.{target}"
    call.func = ast.parse(name, mode="eval").body
    return f"{step.name} = {ast.unparse(call)}"


def _pattern(step: RegionStep, region: Region, symbols: Mapping[str, str]) -> str:
    call = _Arguments(step, region, symbols, "ANY", is_pattern=True).visit(_call(step))
    args = "".join(f"{ast.unparse(each)}, " for each in call.args)
    kwargs = ", ".join(f"{each.arg!r}: {ast.unparse(each.value)}" for each in call.keywords)
    return f"Step({step.name!r}, {step.target!r}, ({args}), {{{kwargs}}})"


class _Arguments(ast.NodeTransformer):
    """Replaces the names of nodes: tensors by their names in the package, numbers by expressions of symbols."""

    def __init__(
        self, step: RegionStep, region: Region, symbols: Mapping[str, str], device: str, *, is_pattern: bool
    ) -> None:
        self._step = step
        self._region = region
        self._symbols = symbols
        self._device = device
        self._is_pattern = is_pattern

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "device":
            return ast.parse(self._device, mode="eval").body
        if isinstance(node.func, ast.Name) and node.func.id == "f":
            node.args = [self.visit(each) for each in node.args]
            node.keywords = [ast.keyword(each.arg, self.visit(each.value)) for each in node.keywords]
            return node
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node if ast.unparse(node).split(".")[0] in _MODULES else self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._region.names:
            name = self._region.names[node.id]
            return ast.parse(f"V({name!r})" if self._is_pattern else name, mode="eval").body
        if node.id in self._region.sizes:
            try:
                text = renamed(self._region.sizes[node.id], self._symbols)
            except UnknownExpressionError:
                raise RefusalError(f"the size {node.id} is in a notation that ctrace does not know", SEE_DUMP) from None
            return ast.parse(f"S({text!r})" if self._is_pattern else text, mode="eval").body
        # Torch prints numbers of a graph as Python does, and these have no literal.
        if node.id in ("inf", "nan"):
            return ast.parse(f'float("{node.id}")', mode="eval").body
        raise RefusalError(f"{self._step.target} uses {node.id}, which the graph does not define", SEE_DUMP)


def _flops(region: Region, symbols: Mapping[str, str]) -> Iterable[str]:
    """Yield one operation per element that a step computes; of a reduction, per element that it reads."""
    shapes = {each.node: each.shape for each in region.inputs}
    names = {new: old for old, new in region.names.items()}
    for step in region.steps:
        shapes[names.get(step.name, step.name)] = step.shape
        if "." in step.target:
            op = step.target.split(".")[1]
        else:
            op = step.target
        if op in _FREE or step.target.startswith("operator."):
            continue
        shape: tuple[str, ...] = step.shape
        if op in _REDUCTIONS:
            first = _call(step).args[0]
            if isinstance(first, ast.Name):
                shape = shapes.get(first.id, step.shape)
            else:
                shape = step.shape
        try:
            yield (
                " * ".join(
                    f"({renamed(each, symbols)})" if not each.isalnum() else renamed(each, symbols) for each in shape
                )
                # A number has no sizes, and one element.
                or "1"
            )
        except UnknownExpressionError:
            continue
