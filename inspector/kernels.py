"""Put together what is known of the kernels of each graph part."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ctrace.inspector.arguments import Names
from ctrace.inspector.emitted import Call, Emitted, parse
from ctrace.inspector.fusion import Fusion, Node
from ctrace.inspector.generated import Kernel, Launch, OutputCode, Stage
from ctrace.inspector.kernel_events import KernelMade
from ctrace.inspector.raw import Raw
from ctrace.inspector.stacks import user_lines
from ctrace.inspector.statements import statements_of


@dataclass(frozen=True, slots=True)
class Generated:
    """The kernels of a run, the code they are in, and what is wrong with either."""

    kernels: tuple[Kernel, ...]
    code: tuple[OutputCode, ...]
    problems: tuple[str, ...]


def generated_of(raw: Raw) -> Generated:
    """Read the emitted code of all graph parts, and join it with what capture saw of their kernels."""
    parts: dict[tuple[str, Stage], list[KernelMade]] = {}
    for made in raw.kernels:
        parts.setdefault((made.id, made.stage), []).append(made)
    problems: list[str] = []
    kernels = [kernel for (id_, stage), made in parts.items() for kernel in _of_part(raw, id_, stage, made, problems)]
    code = tuple(OutputCode(each.id, each.stage, each.text) for each in raw.code.values())
    return Generated(tuple(kernels), code, tuple(problems))


def _of_part(raw: Raw, id_: str, stage: Stage, made: list[KernelMade], problems: list[str]) -> Iterator[Kernel]:
    """Make one kernel for each name; one that is called several times keeps the lines of all its calls."""
    by_name: dict[str, list[KernelMade]] = {}
    for each in made:
        by_name.setdefault(each.name, []).append(each)
    emitted = _emitted(raw, id_, stage, by_name, problems)
    costs = _Costs(
        next((each for each in reversed(raw.fusions) if (each.graph, each.stage) == (id_, stage)), None), made
    )
    for name, calls in by_name.items():
        source = emitted.sources.get(name, "") if emitted else ""
        launches = [costs.counted(_launch(each, raw.prefixes)) for each in calls]
        kernel = Kernel(
            graph=id_,
            stage=stage,
            name=name,
            language=calls[-1].language,
            ops=_merged(each.ops for each in launches),
            lines=_merged(each.lines for each in launches),
            calls=len(calls),
            launches=tuple(_called(raw, id_, stage, launches, name, emitted)),
            user=any(each.user for each in calls),
            source=source,
            statements=statements_of(source, (lines for each in calls for lines in each.statements), raw.prefixes),
        )
        yield kernel


def _fusion(raw: Raw, id_: str, stage: Stage) -> Fusion | None:
    return next((each for each in reversed(raw.fusions) if (each.graph, each.stage) == (id_, stage)), None)


def _merged(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for each in texts for text in each))


def _emitted(raw: Raw, id_: str, stage: Stage, names: Mapping[str, object], problems: list[str]) -> Emitted | None:
    code = raw.code.get((id_, stage))
    if code is None:
        return None
    try:
        return parse(code.text, names.keys())
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        problems.append(f"the code of graph {id_} ({stage}) cannot be read ({type(error).__name__}: {error})")
        return None


def _launch(made: KernelMade, prefixes: Mapping[str, str]) -> Launch:
    return Launch(operations=made.operations, ops=made.ops, lines=user_lines(made.stacks, prefixes))


def _called(
    raw: Raw, id_: str, stage: Stage, launches: list[Launch], name: str, emitted: Emitted | None
) -> Iterator[Launch]:
    """Add what is passed; not known where the code has another number of calls than torch spoke of."""
    calls = emitted.calls.get(name, []) if emitted else []
    part = raw.generated.get((id_, stage))
    if emitted is None or len(calls) != len(launches):
        yield from launches
        return
    names = Names(part, emitted.assigned) if part is not None else None
    for launch, call in zip(launches, calls, strict=True):
        yield _with_call(launch, call, names)


def _with_call(launch: Launch, call: Call, names: Names | None) -> Launch:
    return replace(launch, call=call.line, arguments=names.arguments(call) if names is not None else None)


class _Costs:
    """Bytes and arithmetic of launches, by the nodes of the scheduler that are in them."""

    def __init__(self, fusion: Fusion | None, made: list[KernelMade]) -> None:
        result = fusion.result if fusion is not None else ()
        self._nodes = {operation: node for node in result for operation in node.operations}
        self._launches: dict[str, int] = {}
        for each in made:
            for node in self._of(each.operations) or ():
                self._launches[node.name] = self._launches.get(node.name, 0) + 1

    def counted(self, launch: Launch) -> Launch:
        """Add what its nodes move and compute; not known where one is not found, or is spread over launches."""
        nodes = self._of(launch.operations)
        if not nodes or any(self._launches[node.name] > 1 for node in nodes):
            return launch
        flops = [node.flops for node in nodes if node.flops is not None]
        return replace(
            launch,
            read=sum(node.read for node in nodes),
            written=sum(node.written for node in nodes),
            flops=sum(flops) if len(flops) == len(nodes) else None,
        )

    def _of(self, operations: tuple[str, ...]) -> list[Node] | None:
        if not all(operation in self._nodes for operation in operations):
            return None
        return list({id(node): node for node in map(self._nodes.__getitem__, operations)}.values())
