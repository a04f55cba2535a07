"""Put together what is known of the kernels of each graph part."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ctrace.inspector.arguments import Names
from ctrace.inspector.counting import named
from ctrace.inspector.emitted import Call, Emitted, parse
from ctrace.inspector.fusion import Fusion
from ctrace.inspector.generated import Kernel, Launch, OutputCode, Stage
from ctrace.inspector.kernel_events import CodeWritten, KernelMade, PartGenerated
from ctrace.inspector.launchcosts import Costs
from ctrace.inspector.raw import Raw
from ctrace.inspector.stacks import user_lines
from ctrace.inspector.statements import statements_of


@dataclass(frozen=True, slots=True)
class Generated:
    """The kernels of a run, the code they are in, and what of that code cannot be read."""

    kernels: tuple[Kernel, ...]
    code: tuple[OutputCode, ...]
    problems: tuple[str, ...] = ()


@dataclass
class _Part:
    """One compiled part of a graph."""

    id: str
    stage: Stage
    code: CodeWritten | None
    generated: PartGenerated | None
    fusion: Fusion | None
    made: dict[str, list[KernelMade]] = field(default_factory=dict)
    """The calls of each kernel."""


def generated_of(raw: Raw, fusions: Iterable[Fusion]) -> Generated:
    """Read the emitted code of all graph parts, and join it with what capture saw of their kernels."""
    kernels: list[Kernel] = []
    problems: list[str] = []
    for part in _parts(raw, fusions):
        emitted, problem = _emitted(part)
        problems += problem
        kernels += _kernels(part, emitted, raw)
    code = (OutputCode(each.id, each.stage, each.text, _counted(raw, each)) for each in raw.code.values())
    return Generated(tuple(kernels), tuple(code), tuple(problems))


def _counted(raw: Raw, code: CodeWritten) -> int | None:
    part = raw.generated.get((code.id, code.stage))
    return part.counted - part.before if part is not None else None


def _parts(raw: Raw, fusions: Iterable[Fusion]) -> Iterable[_Part]:
    fused = {(each.graph, each.stage): each for each in fusions}
    parts: dict[tuple[str, Stage], _Part] = {}
    for made in raw.kernels:
        key = made.id, made.stage
        if key not in parts:
            parts[key] = _Part(*key, raw.code.get(key), raw.generated.get(key), fused.get(key))
        parts[key].made.setdefault(made.name, []).append(made)
    return parts.values()


def _emitted(part: _Part) -> tuple[Emitted | None, list[str]]:
    """Read the code of a part, where the log has it, or say why it cannot be read."""
    if part.code is None:
        return None, []
    try:
        emitted = parse(part.code.text, part.made.keys())
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return None, [f"{_named(part)} cannot be read ({type(error).__name__}: {error})"]
    return emitted, list(_missing(part, emitted))


def _missing(part: _Part, emitted: Emitted) -> Iterator[str]:
    """Say which kernels the code does not define, or calls another number of times than torch spoke of."""
    for name, made in part.made.items():
        if made[0].language != "external" and name not in emitted.sources:
            yield f"{_named(part)} does not define {name}"
        called = len(emitted.calls.get(name, ()))
        if called != len(made):
            times = f"{called} {named(called, 'time')}"
            yield f"{_named(part)} calls {name} {times}, torch spoke of {len(made)}; its arguments are not known"


def _named(part: _Part) -> str:
    return f"the code of graph {part.id} ({part.stage})"


def _kernels(part: _Part, emitted: Emitted | None, raw: Raw) -> Iterator[Kernel]:
    """Make one kernel for each name; one that is called several times keeps the lines of all its calls."""
    costs = Costs(part.fusion, [each.operations for calls in part.made.values() for each in calls])
    names = Names(part.generated, emitted.assigned) if emitted and part.generated else None
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


def _launch(made: KernelMade, raw: Raw) -> Launch:
    return Launch(operations=made.operations, ops=made.ops, lines=user_lines(made.stacks, raw.prefixes))


def _with_calls(launches: list[Launch], calls: list[Call], names: Names | None) -> Iterator[Launch]:
    """Add what is passed; both are in the order of the program."""
    if len(calls) != len(launches):
        yield from launches
        return
    for launch, call in zip(launches, calls, strict=True):
        yield replace(launch, call=call.line, arguments=names.arguments(call) if names is not None else None)
