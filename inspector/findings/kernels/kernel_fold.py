"""Build the kernels of each graph part from the log, map each line of their source to the user's lines, and check both.

The capture identifies a line by its text and by the kernel object that wrote it. In a C++ kernel, several objects
write separate blocks of one source, and the same text may occur in several blocks. A block then belongs to the
objects that wrote all of its lines. The arguments of calls are parsed from emitted code: buffers, views of buffers,
and numbers.

The kernels of a graph part are checked against torch's count, and their bytes against the scheduler's nodes. With
`--build` or `--target`, there are also compiled kernels: their configurations, which of these torch launches, their
code and times.
"""

import ast
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.built import Built, BuiltEvent, KernelChosen, KernelCode, LaunchTiming
from ctrace.inspector.facts.fusion_facts import Fusion, Node, NodeKind
from ctrace.inspector.facts.kernel_facts import (
    Argument,
    CodeWritten,
    Kernel,
    KernelMade,
    Launch,
    Layout,
    Lines,
    OutputCode,
    PartGenerated,
    Stage,
    Statement,
)
from ctrace.inspector.facts.stored import text_of
from ctrace.inspector.facts.user_kernels import UserKernel, UserKernelWritten
from ctrace.inspector.findings.graphs.fx import calculated
from ctrace.inspector.findings.kernels.emitted_code import Emitted, EmittedCall, dotted, parse
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import count, named
from ctrace.inspector.log.collected_log import CollectedLog, WrittenPart
from ctrace.inspector.source.stacks import user_lines

_VIEW = "reinterpret_tensor"
_DEPTH = 50
"""The deepest expression to parse; expressions of sizes are flat."""
_OPS = "torch.ops."


class BufferNames:
    """Resolves the names of buffers and sizes in a graph part's code."""

    def __init__(self, part: PartGenerated, assigned: Mapping[str, ast.expr]) -> None:
        self._buffers = {each.name: each for each in part.buffers}
        self._symbols = part.symbols
        self._assigned = assigned

    def arguments(self, call: EmittedCall) -> tuple[Argument, ...]:
        """Return the arguments of a call in order; a list of tensors counts as its tensors."""
        return tuple(
            replace(argument, keyword=keyword)
            for keyword, expression in call.arguments
            for argument in self._flattened(expression)
        )

    def _flattened(self, node: ast.expr) -> Iterator[Argument]:
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        # A tuple without a tensor is a shape, which stays one argument.
        if any(self._tensor(item) for item in items):
            for item in items:
                yield from self._flattened(item)
            return
        tensor = self._tensor(node)
        yield tensor if tensor is not None else self._value(node)

    def _tensor(self, node: ast.expr) -> Argument | None:
        match node:
            case ast.Name(id=name) if name in self._buffers:
                return _argument(self._buffers[name])
            case ast.Call(func=function, args=[ast.Name(id=name), shape, stride, offset]) if (
                name in self._buffers and dotted(function) == _VIEW
            ):
                return self._view(name, self._sizes(shape), self._sizes(stride), self.number(offset))
        return None

    def _view(
        self, name: str, shape: tuple[int, ...] | None, stride: tuple[int, ...] | None, offset: int | None
    ) -> Argument | None:
        if shape is None or stride is None or offset is None:
            return None
        whole = self._buffers[name]
        return _argument(replace(whole, shape=shape, stride=stride, offset=offset))

    def _value(self, node: ast.expr) -> Argument:
        text = _text(node)
        number = self.number(node)
        return Argument(name=text, tensor=False, value=text if number is None else str(number))

    def _sizes(self, node: ast.expr) -> tuple[int, ...] | None:
        items = [self.number(item) for item in node.elts] if isinstance(node, ast.Tuple) else [None]
        known = tuple(item for item in items if item is not None)
        if len(known) == len(items):
            return known
        return None

    def number(self, node: ast.expr, depth: int = 0) -> int | None:
        """Evaluate a size with the values of symbols for which the graph was compiled; return None if not known."""
        if depth > _DEPTH:
            return None
        match node:
            # `True` is an int for Python.
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            # Before what the code assigns: `s77 = arg0_1` would lead to an input without a value.
            case ast.Name(id=name) if name in self._symbols:
                return self._symbols[name]
            case ast.Name(id=name) if name in self._assigned:
                return self.number(self._assigned[name], depth + 1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return calculated(0, ast.Sub(), self.number(operand, depth + 1))
            case ast.BinOp(left=left, op=operator, right=right):
                return calculated(self.number(left, depth + 1), operator, self.number(right, depth + 1))
        return None


def _text(node: ast.expr) -> str:
    """Return the source of an expression; shorten an expression that is too deep for `ast.unparse`."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "..."


def _argument(layout: Layout) -> Argument:
    return Argument(
        name=layout.name,
        tensor=True,
        dtype=layout.dtype,
        shape=layout.shape,
        stride=layout.stride,
        offset=layout.offset,
        device=layout.device,
    )


_Line = tuple[int, int]
"""A line's number in the source, from 1, and the checksum of its text."""


def statements_of(source: str, written: Iterable[Lines], prefixes: Mapping[str, str]) -> tuple[Statement, ...]:
    """Return the lines of a source whose origin in the user's or a library's code is known."""
    objects = tuple(lines for lines in written if lines)
    found = []
    known: dict[tuple[tuple[str, ...], ...], tuple[str, ...]] = {}
    """The user's lines, keyed by stacks; most lines of a kernel have those of the line before."""
    for block in _blocks(source, objects):
        texts = {text for _, text in block}
        owners = [lines for lines in objects if texts <= lines.keys()] or objects
        for number, text in block:
            stacks = tuple([lines[text] for lines in owners if text in lines])
            if stacks not in known:
                known[stacks] = user_lines(chain.from_iterable(stacks), prefixes)
            if known[stacks]:
                found.append(Statement(number, known[stacks]))
    return tuple(found)


def _blocks(source: str, objects: tuple[Lines, ...]) -> Iterator[list[_Line]]:
    """Yield blocks of consecutive lines with a known checksum."""
    known = {text for lines in objects for text in lines}
    numbered = [
        # Stripped, as the hook does, since Inductor indents a line again when it puts it into a function.
        (number, zlib.crc32(line.strip().encode("utf-8", "replace")))
        for number, line in enumerate(source.split("\n"), 1)
    ]
    for is_known, block in groupby(numbered, key=lambda line: line[1] in known):
        if is_known:
            yield list(block)


class Generated(Struct, frozen=True):
    """The kernels of a run, their code, and the problems that occurred while parsing the code."""

    kernels: tuple[Kernel, ...]
    code: tuple[OutputCode, ...]
    problems: tuple[str, ...] = ()


class _Part(Struct):
    """One compiled part of a graph."""

    id: str
    stage: Stage
    code: CodeWritten | None
    generated: PartGenerated | None
    fusion: Fusion | None
    made: dict[str, list[KernelMade]] = field(default_factory=dict)
    """The calls of each kernel."""


def generated_of(raw: CollectedLog, fusions: Sequence[Fusion]) -> Generated:
    """Parse the emitted code of all graph parts, and join it with the recorded kernels.

    `fusions` are those of `raw`, in their order.
    """
    kernels: list[Kernel] = []
    problems: list[str] = []
    for part in _parts(raw, fusions):
        emitted, problem = _emitted(part)
        problems += problem
        kernels += _kernels(part, emitted, raw)
    code = (
        OutputCode(each.id, each.stage, each.code.text, _counted(each)) for each in raw.written if each.code is not None
    )
    return Generated(tuple(_joined(kernels)), tuple(code), tuple(problems))


def _counted(written: WrittenPart) -> int | None:
    part = written.generated
    if part is not None:
        return part.counted - part.before
    return None


def _parts(raw: CollectedLog, fusions: Sequence[Fusion]) -> Iterator[_Part]:
    for written in raw.written:
        fusion = None if written.fusion is None else fusions[written.fusion]
        part = _Part(written.id, written.stage, written.code, written.generated, fusion)
        for made in written.kernels:
            part.made.setdefault(made.name, []).append(made)
        if part.made:
            yield part


def _joined(kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    """Join kernels of one name and one source that several parts of a graph call."""
    found: dict[tuple[str, Stage, str, str], Kernel] = {}
    for each in kernels:
        # Inductor numbers kernels per part, so one name may be two kernels; the source tells.
        key = each.graph, each.stage, each.name, each.source
        known = found.get(key)
        if known is None:
            found[key] = each
            continue
        found[key] = replace(
            known,
            ops=_merged((known.ops, each.ops)),
            lines=_merged((known.lines, each.lines)),
            calls=known.calls + each.calls,
            launches=(*known.launches, *each.launches),
            user=known.user or each.user,
        )
    return iter(found.values())


def _emitted(part: _Part) -> tuple[Emitted | None, list[str]]:
    """Parse the code of a part, if the log has it, and return the problems."""
    if part.code is None:
        return None, []
    try:
        emitted = parse(text_of(part.code.text), part.made.keys())
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return None, [f"{_code_name(part)} cannot be parsed ({type(error).__name__}: {error})"]
    return emitted, list(_missing(part, emitted))


def _missing(part: _Part, emitted: Emitted) -> Iterator[str]:
    """Report kernels that the code does not define, or does not call as often as torch recorded."""
    for name, made in part.made.items():
        if made[0].language != "external" and name not in emitted.sources:
            yield f"{_code_name(part)} does not define {name}"
        called = len(emitted.calls.get(name, ()))
        if called != len(made):
            times = f"{called} {named(called, 'time')}"
            problem = f"calls {name} {times}, but torch recorded {len(made)}; its arguments are not known"
            yield f"{_code_name(part)} {problem}"


def _code_name(part: _Part) -> str:
    return f"the code of graph {part.id} ({part.stage})"


def _kernels(part: _Part, emitted: Emitted | None, raw: CollectedLog) -> Iterator[Kernel]:
    """Yield one kernel for each name, with the lines of all its calls."""
    costs = Costs(part.fusion, [each.operations for calls in part.made.values() for each in calls])
    names = BufferNames(part.generated, emitted.assigned) if emitted and part.generated else None
    for name, made in part.made.items():
        source = emitted.sources.get(name, "") if emitted else ""
        launches = [costs.counted(_launch(each, raw)) for each in made]
        yield Kernel(
            graph=part.id,
            stage=part.stage,
            name=name,
            language=made[-1].language,
            ops=_merged(each.ops for each in launches),
            lines=_merged(each.lines for each in launches),
            calls=len(made),
            launches=tuple(_with_calls(launches, emitted.calls.get(name, []) if emitted else [], names)),
            user=any(each.user for each in made),
            source=source,
            statements=statements_of(source, [lines for each in made for lines in each.statements], raw.prefixes),
        )


def _merged(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for each in texts for text in each))


def _launch(made: KernelMade, raw: CollectedLog) -> Launch:
    return Launch(operations=made.operations, ops=made.ops, lines=user_lines(made.stacks, raw.prefixes))


def _with_calls(launches: list[Launch], calls: list[EmittedCall], names: BufferNames | None) -> Iterator[Launch]:
    """Add the arguments of the calls to the launches; both are in program order."""
    # Without the same number, it is open which call belongs to which launch.
    if len(calls) != len(launches):
        yield from launches
        return
    for launch, call in zip(launches, calls, strict=True):
        yield replace(launch, call=call.line, arguments=names.arguments(call) if names is not None else None)


class Costs:
    """Computes the bytes and operations of the launches in one graph part."""

    def __init__(self, fusion: Fusion | None, launches: Sequence[tuple[str, ...]]) -> None:
        """Index the nodes; `launches` has the operations of each launch."""
        result = fusion.result if fusion is not None else ()
        self._nodes = {operation: node for node in result for operation in node.operations}
        # What several launches share cannot be divided among them.
        self._launches = Counter(node.name for operations in launches for node in self.nodes(operations))

    def nodes(self, operations: tuple[str, ...]) -> tuple[Node, ...]:
        """Return the nodes that a launch computes (in C++, one per loop nest); empty if one of them is not known."""
        found = {node.name: node for each in operations if (node := self._nodes.get(each)) is not None}
        if all(each in self._nodes for each in operations):
            return tuple(found.values())
        return ()

    def counted(self, launch: Launch) -> Launch:
        """Add bytes and operations to a launch, unless a node is missing or several launches share a node."""
        nodes = self.nodes(launch.operations)
        if not nodes or any(self._launches[node.name] > 1 for node in nodes):
            return launch
        flops = [node.flops for node in nodes if node.flops is not None]
        return replace(
            launch,
            read=sum(node.read for node in nodes),
            written=sum(node.written for node in nodes),
            flops=sum(flops) if len(flops) == len(nodes) else None,
        )


_Call = tuple[str, str, str]


def user_kernels_of(raw: CollectedLog) -> tuple[UserKernel, ...]:
    """List calls of user-written kernels in lowering order; if torch lowers a call again, the last lowering counts."""
    # By operation, so that a call that is lowered again takes the place of its first lowering.
    calls: dict[_Call, UserKernel] = {}
    for event in raw.user_kernels:
        match event:
            case UserKernel():
                lines = user_lines((event.stack,), raw.prefixes)
                calls[event.graph, event.stage, event.operation] = replace(event, lines=lines)
            case UserKernelWritten():
                key = event.id, event.stage, event.operation
                if key in calls:
                    calls[key] = _written(calls[key], event)
    return tuple(calls.values())


def _written(kernel: UserKernel, event: UserKernelWritten) -> UserKernel:
    parameters = tuple(replace(each, fixed=each.name in event.constants) for each in kernel.parameters)
    return replace(kernel, name=event.name, epilogue=event.epilogue, parameters=parameters)


def built_of(events: Sequence[BuiltEvent]) -> tuple[Built, ...]:
    """Return each configuration of each kernel once, with its code if the log has it."""
    found = {_key(each): each for each in events if isinstance(each, Built)}
    used = {(each.graph, each.stage, each.kernel): each.hash for each in events if isinstance(each, KernelChosen)}
    codes = {each.hash: each.ir for each in events if isinstance(each, KernelCode)}
    configurations = Counter((each.graph, each.stage, each.kernel) for each in found.values())
    made = []
    for each in found.values():
        kernel = each.graph, each.stage, each.kernel
        only = configurations[kernel] == 1
        # Torch's choice is certain; without a record, only a kernel with a single configuration leaves none to make.
        chosen = used[kernel] == each.hash if kernel in used else each.chosen and only
        made.append(replace(each, chosen=chosen, ir=codes.get(each.hash, {})))
    return tuple(made)


def _key(built: Built) -> tuple[str, ...]:
    return built.graph, built.stage, built.kernel, built.hash


def timed_of(events: Sequence[BuiltEvent], kernels: Collection[str]) -> tuple[LaunchTiming, ...]:
    """Return the last time of each launch, with the name that the kernel has in `kernels`."""
    launches = (_named(each, kernels) for each in events if isinstance(each, LaunchTiming))
    return tuple({(each.graph, each.stage, each.kernel, each.launch): each for each in launches}.values())


def _named(timed: LaunchTiming, kernels: Collection[str]) -> LaunchTiming:
    """Name an op as Inductor does, which omits `torch.ops.` for ops with an out argument (2.11 to 2.13, ir.py)."""
    short = timed.kernel.removeprefix(_OPS)
    if timed.kernel not in kernels and short in kernels:
        return replace(timed, kernel=short)
    return timed


def miscounted_kernels(raw: CollectedLog) -> Iterator[str]:
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
        # Torch's count goes on from graph to graph in one process.
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
    parts = grouped(fusions, lambda fusion: (fusion.graph, fusion.stage))
    for (graph, stage), fused in parts.items():
        launches = made.get((graph, stage), [])
        known = [each.read + (each.written or 0) for each in launches if each.read is not None]
        nodes = sum(node.read + node.written for fusion in fused for node in _launched(fusion, launches))
        # With one unknown launch the sums have to differ.
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
