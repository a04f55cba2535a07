"""Everything that a package for one kernel contains, found in a run; `reports/dump/` writes it as files.

1. Take the first call of the kernel that can be taken out (`package_of`).
2. Add the calls that belong to it (`parts_of`): what kernels pass to each other is no value of the graph.
3. Find the region of Inductor's last graph that these compute (`kernel_region.py`), and make its leading size free
   where that is certain to be right (`free_sizes.py`).
4. Name the sizes, rewrite each kernel as plain Triton (`triton_source.py`), and define the region in PyTorch operators.
   A kernel of the CPU stays as it is, in C++.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ctrace.inspector.facts.kernel_facts import Kernel, KernelCall, Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.workshop.free_sizes import generalized
from ctrace.inspector.features.workshop.kernel_region import (
    CallOfKernel,
    CppKernel,
    Definition,
    Region,
    RegionTensor,
    accesses,
    definition_of,
    is_used,
    node_after,
    node_before,
    post_grad_graph,
    region_of,
    vector_instructions,
)
from ctrace.inspector.features.workshop.size_expressions import (
    SEE_DUMP,
    RefusalError,
    UnknownExpressionError,
    renamed,
    symbols_of,
)
from ctrace.inspector.features.workshop.triton_source import TritonKernel, plain_triton
from ctrace.inspector.findings.graphs.fx import FxNode

# Chosen: the name is a folder, a module and an operator; Windows allows 260 letters for the whole path.
_LONGEST = 60
_LETTERS = ("n", "m", "k", "l", "p", "q")


class Size(Struct, frozen=True):
    """A symbol of the package: a size that the op takes from an input, or as an argument."""

    name: str
    source: str
    """An expression such as `x.shape[0]`; empty: the op takes it as an argument."""
    hint: int
    """Its value in the run."""


class EjectedPart(Struct, frozen=True):
    """One kernel of a package, and how to launch it."""

    name: str
    """The name of the Triton function."""
    kernel: Kernel
    triton: TritonKernel
    """Of a C++ kernel, empty."""
    arguments: tuple[str, ...]
    """The expressions that the launch passes, one for each parameter of the kernel."""
    numels: Mapping[str, str]
    """The lengths of the kernel's loops, as expressions of the sizes."""
    call: KernelCall


class EjectedPackage(Struct, frozen=True):
    """What a package is made of."""

    name: str
    """The name of the op and of the package."""
    kernel: Kernel
    """The last of the parts."""
    parts: tuple[EjectedPart, ...]
    """The kernels in the order of their launches."""
    region: Region
    sizes: tuple[Size, ...]
    definition: Definition
    lines: tuple[str, ...]
    """`file:line` of the user's code."""
    symbols: Mapping[str, str]
    """The names of the graph's symbols in the package."""
    cpp: CppKernel | None = None
    """The kernel, if it is written in C++."""

    def text(self, size: str) -> str:
        """Write a size of the graph in the package's names."""
        return renamed(size, self.symbols)


def op_name(kernel: str, stage: Stage) -> str:
    """Make the op's name from Inductor's name of the kernel, such as `gelu_1` from `triton_poi_fused_gelu_1`."""
    text = re.sub(r"^(?:triton|cpp)_(?:poi|red|per|tem|for|split_scan)?_?(?:fused_)?", "", kernel)
    text = re.sub(r"\W+", "_", text).strip("_") or "kernel"
    stem, _, number = text.rpartition("_")
    # Inductor's number stays: it tells kernels of the same ops apart.
    if len(text) > _LONGEST:
        text = f"{stem[: _LONGEST - len(number) - 1].rstrip('_')}_{number}"
    # Inductor counts kernels for each wrapper alone (`_names_iter`, codegen/wrapper.py, 2.13), so both may
    # have a `gelu_1`.
    if stage is Stage.BACKWARD:
        text = f"{text}_backward"
    if text[0].isalpha():
        return text
    return f"kernel_{text}"


def _unique_name(session: Session, kernel: Kernel) -> str:
    """Return the op's name; kernels of later graphs that have the name of an earlier one add the graph's id."""
    name = op_name(kernel.name, kernel.stage)
    graphs = dict.fromkeys(
        each.graph for each in session.kernels if each.language != "external" and op_name(each.name, each.stage) == name
    )
    is_first = next(iter(graphs), kernel.graph) == kernel.graph
    if is_first:
        return name
    return f"{name}_graph_{re.sub(r'[^0-9]+', '_', kernel.graph)}"


def package_of(session: Session, kernel: Kernel) -> EjectedPackage:
    """Take one kernel out of a run.

    Raises:
        RefusalError: it cannot be taken out.
    """
    if kernel.language == "external":
        raise RefusalError(
            "it is a library's kernel, whose code is not generated",
            "eject a generated kernel beside it; mode max-autotune can make Triton templates of matrix products",
        )
    if kernel.user:
        raise RefusalError("you wrote it", "ctrace kernels wrap FILE:KERNEL makes an op of it")
    if kernel.language not in ("triton", "cpp"):
        raise RefusalError(f"it is a {kernel.language} kernel", "capture for a GPU: --target h100")
    refusal = None
    # A kernel may be called several times, and write a value of the graph in one of the calls only.
    for call in _calls(session, kernel):
        try:
            return _package(session, kernel, call)
        except RefusalError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _package(session: Session, kernel: Kernel, call: KernelCall) -> EjectedPackage:
    parts = parts_of(session, kernel, call)
    if any(each.call.workspaces for each in parts):
        raise RefusalError("it takes scratch memory that Inductor's wrapper zeroes", SEE_DUMP)
    region = region_of(session, parts)
    if not region.inputs:
        raise RefusalError(
            "it reads no tensor: it only makes constants",
            "make them once, as a buffer of the module, so that no kernel makes them in each call",
        )
    if kernel.language == "cpp":
        return _cpp_package(session, kernel, region, parts)
    # What one kernel passes to the next has the sizes that Inductor chose for those of the run.
    if len(parts) == 1:
        region, call = generalized(region, call, kernel.source)
        parts = (CallOfKernel(call, kernel),)
    symbols, sizes = _sizes(region, parts)
    kernel = parts[-1].kernel
    name = _unique_name(session, kernel)
    return EjectedPackage(
        name=name,
        kernel=kernel,
        parts=tuple(_part(session, name, number, parts, region, symbols) for number in range(len(parts))),
        region=region,
        sizes=sizes,
        definition=definition_of(region, symbols, f"{region.inputs[0].name}.device"),
        lines=_in_order(line for each in parts for line in each.kernel.lines),
        symbols=symbols,
    )


def _in_order(lines: Iterable[str]) -> tuple[str, ...]:
    """Sort the user's lines as `file:line`, the files in the order in which they come first."""
    pairs = [(file, int(number) if number.isdigit() else 0, line) for line in lines
             for file, _, number in (line.rpartition(":"),)]  # fmt: skip
    files = list(dict.fromkeys(file for file, _, _ in pairs))
    return tuple(dict.fromkeys(line for _, _, line in sorted(pairs, key=lambda each: (files.index(each[0]), each[1]))))


def _cpp_package(session: Session, kernel: Kernel, region: Region, parts: Sequence[CallOfKernel]) -> EjectedPackage:
    """Take out a kernel of the CPU; its sizes stay as they are."""
    if len(parts) > 1:
        raise RefusalError("another kernel takes a part of what it computes", "capture for a GPU: --target h100")
    call, pointers = parts[0].call, region.pointers[0]
    symbols, sizes = _sizes(region, parts)
    unknown = [name for name, (read, written) in pointers.items() if not read and not written]
    unknown = [name for name in unknown if is_used(name, kernel.source)]
    if unknown:
        raise RefusalError(f"ctrace does not know which value {unknown[0]} points to", SEE_DUMP)
    try:
        passed = [renamed(text, symbols) for _, text in call.sizes]
    except UnknownExpressionError as error:
        raise RefusalError(f"a size is in a notation that ctrace does not know: {error}", SEE_DUMP) from None
    cpp = CppKernel(
        source=kernel.source,
        capability=vector_instructions(kernel.source),
        # What the kernel does not use may be anything.
        arguments=(*(written or read or region.inputs[0].name for read, written in pointers.values()), *passed),
        copies=tuple((written, read) for read, written in pointers.values() if read and written),
    )
    name = _unique_name(session, kernel)
    triton = TritonKernel((), (), (), {}, (), "", (), ())
    return EjectedPackage(
        name=name,
        kernel=kernel,
        parts=(EjectedPart(f"{name}_kernel", kernel, triton, cpp.arguments, {}, call),),
        region=region,
        sizes=sizes,
        definition=definition_of(region, symbols, f"{region.inputs[0].name}.device"),
        lines=_in_order(kernel.lines),
        symbols=symbols,
        cpp=cpp,
    )


def _part(
    session: Session,
    name: str,
    number: int,
    parts: Sequence[CallOfKernel],
    region: Region,
    symbols: Mapping[str, str],
) -> EjectedPart:
    """Rewrite one kernel, and say what its launch passes."""
    kernel, call = parts[number].kernel, parts[number].call
    built = [each for each in session.built if (each.graph, each.stage, each.kernel) == _key(kernel)]
    # The first kernel alone would add to memory that nothing has filled.
    adds = any(access.is_added for access in accesses(parts[number])) and number > 0
    triton = plain_triton(kernel.source, kernel.name, region.pointers[number], built, adds=adds)
    try:
        numels = {name: renamed(text, symbols) for name, text in call.numels}
        tensors = (*region.inputs, *region.outputs, *region.scratch)
        values = {
            **{f"{each.name}_ptr": each.name for each in tensors},
            **{name: renamed(text, symbols) for name, text in call.sizes},
            **numels,
        }
    except UnknownExpressionError as error:
        raise RefusalError(f"a size is in a notation that ctrace does not know: {error}", SEE_DUMP) from None
    missing = [each for each in triton.parameters if each not in values]
    if missing:
        raise RefusalError(f"ctrace does not know what Inductor passes as {missing[0]}", SEE_DUMP)
    is_last = number == len(parts) - 1
    return EjectedPart(
        name=f"{name}_kernel" if is_last else f"{name}_part_{number + 1}_kernel",
        kernel=kernel,
        triton=triton,
        arguments=tuple(values[each] for each in triton.parameters),
        numels=numels,
        call=call,
    )


def parts_of(session: Session, kernel: Kernel, call: KernelCall) -> tuple[CallOfKernel, ...]:
    """Return a kernel's call with those that it belongs to, in order: what they pass on is no value of the graph.

    Inductor splits a large reduction into two kernels, and fills memory before a kernel adds to it atomically.

    Raises:
        RefusalError: the log lacks the graph.
    """
    nodes = {node.name: node for node in post_grad_graph(session, call).nodes}
    kernels = {_key(each): each for each in session.kernels}
    parts = [
        CallOfKernel(each, kernels[each.graph, each.stage, each.name])
        for each in session.kernel_calls
        if (each.graph, each.stage) == (call.graph, call.stage) and (each.graph, each.stage, each.name) in kernels
    ]
    start = next(at for at, each in enumerate(parts) if each.call is call)
    found, todo = {start}, [start]
    while todo:
        new = set(_belonging(parts, todo.pop(), nodes)) - found
        found |= new
        todo += new
    return tuple(parts[at] for at in sorted(found))


def _belonging(parts: Sequence[CallOfKernel], at: int, nodes: Mapping[str, FxNode]) -> Iterable[int]:
    """Yield the calls that share a buffer with a call that holds no value of the graph in between."""
    buffers = {each.name: each for each in parts[at].call.buffers}
    for access in accesses(parts[at]):
        read, written = access.pointer.read, access.pointer.written
        if access.is_added or (access.is_read and node_before(buffers[read], nodes) is None):
            if access.is_added:
                name = written
            else:
                name = read
            makers = [number for number in range(at) if _writes(parts[number], name)]
            # Inductor reuses buffers: what is read is what the last kernel before has left there.
            yield from makers[-1:]
        if access.is_written:
            is_scratch = node_after(buffers[written], nodes) is None
            for number in range(at + 1, len(parts)):
                for later in accesses(parts[number]):
                    is_reader = is_scratch and later.is_read and later.pointer.read == written
                    if is_reader or (later.is_added and later.pointer.written == written):
                        yield number


def _writes(part: CallOfKernel, buffer: str) -> bool:
    return any(pointer.written == buffer for pointer in part.call.pointers)


def _key(kernel: Kernel) -> tuple[str, Stage, str]:
    return kernel.graph, kernel.stage, kernel.name


def _calls(session: Session, kernel: Kernel) -> tuple[KernelCall, ...]:
    found = tuple(each for each in session.kernel_calls if (each.graph, each.stage, each.name) == _key(kernel))
    if not found:
        raise RefusalError(
            "the log does not have the arguments of its call", "capture the model again with this ctrace"
        )
    return found


def _sizes(region: Region, parts: Iterable[CallOfKernel]) -> tuple[dict[str, str], tuple[Size, ...]]:
    """Name the symbols, and find each in the sizes of an input."""
    texts: list[str] = [text for part in parts for _, text in (*part.call.sizes, *part.call.numels)]
    for each in (*region.inputs, *region.outputs, *region.scratch):
        texts += (*each.shape, *each.stride)
    texts += [size for step in region.steps for size in step.shape]
    # The arguments of the launch come first, so the sizes of the loops have the first letters.
    used = _symbols(texts)
    tensors = (*region.inputs, *region.outputs, *region.scratch)
    taken = {each.name for each in tensors} | set(region.names.values())
    free = (each for each in (*_LETTERS, *(f"size_{number}" for number in range(1000))) if each not in taken)
    symbols = dict(zip(used, free, strict=False))
    hints = {symbol: hint for part in parts for symbol, hint in part.call.symbols.items()}
    sizes = tuple(Size(name, _source(symbol, region.inputs), hints.get(symbol, 8)) for symbol, name in symbols.items())
    return symbols, sizes


def _symbols(texts: Iterable[str]) -> list[str]:
    found = dict[str, None]()
    for text in texts:
        try:
            found |= dict.fromkeys(symbols_of(text))
        except UnknownExpressionError:  # only a step that needs it fails
            continue
    return list(found)


def _source(symbol: str, inputs: Iterable[RegionTensor]) -> str:
    for each in inputs:
        for at, size in enumerate(each.shape):
            if size == symbol:
                return f"{each.name}.shape[{at}]"
    return ""
