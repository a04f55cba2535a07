"""Screen of `ctrace time --compile`: where compile time goes, by phase, by graph, as a tree; what caches returned."""

from collections import Counter
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.compile_time import LookupOutcome, TorchCachesUsed
from ctrace.inspector.findings import compile_time_view
from ctrace.inspector.findings.compile_time_view import CompileAnswer, CompileDocument
from ctrace.reports import format as fmt
from ctrace.reports.format import duration
from ctrace.reports.terminal.widgets import MOST, capped, columned, fix, hanging, item, more, section

_SMALL = 0.01
"""Share of the compile time below which a step is left out."""
# Chosen: each level takes a column, and deeper steps are small parts of those above them.
_DEPTH = 11
_STYLES = {LookupOutcome.HIT: "green", LookupOutcome.MISS: "red", LookupOutcome.BYPASS: "yellow"}
# Chosen: each is three lines, and one change of the settings changes several components.
_DIFFERENCES = 3
# Chosen: the sentence names what to look at first.
_LARGEST = 2


def compile_time_screen(document: CompileDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show where compile time goes, then what each cache returned and why."""
    found, whole = document.compile, document.compile.seconds
    name = fmt.one(document.target.path or document.target.name or "this run")
    yield Text.assemble(("COMPILE TIME", "bold"), "  ", (name, "bold"), "\n", headline(found))
    for line in circumstances(document) if whole is not None else ():
        yield Text(fmt.one_line(line, 300), style="dim")
    if whole is None:
        yield fix("compile something: ctrace time --compile model.py")
    else:
        yield from _phases(found, whole, width)
        yield from _graphs(document, whole, width, all_of_it=all_of_it)
        yield from _tree(found, whole, width, all_of_it=all_of_it)
    yield from _caches(found, all_of_it=all_of_it)


def _phases(found: CompileAnswer, whole: float, width: int) -> Iterator[RenderableType]:
    yield section("By phase: each second counts once")
    rows = [
        (name, duration(part), f"{part / whole:.0%}", compile_time_view.PHASES[name])
        for name, part in found.phases.items()
    ]
    yield columned(width, ("phase", ">time", ">", ""), [*rows, ("= all", duration(whole), "", "")])


def _graphs(document: CompileDocument, whole: float, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    found = document.compile.graphs
    shown = capped(found, MOST, all_of_it=all_of_it)
    yield section("By graph")
    rows = []
    for each in shown:
        place = fmt.place(each.file, each.line, document.cwd)
        name = "no graph"
        if each.id is not None:
            name = fmt.one_line(f"{each.id} {each.function}", 40)
        # Two say most of it, and fit in the row.
        top = sorted(each.phases, key=lambda name: -each.phases[name])[:2]
        parts = ", ".join(f"{phase} {duration(each.phases[phase])}" for phase in top)
        rows.append((name, fmt.one_line(place, 60), duration(each.seconds), f"{each.seconds / whole:.0%}", parts))
    yield columned(width, ("graph", "at", ">time", ">", "most of it"), rows)
    yield from more(len(found), "graph", "--all", most=len(shown))


def _tree(found: CompileAnswer, whole: float, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    left_out = fmt.when(not all_of_it, f", without those below {_SMALL:.0%}")
    yield section(f"As a tree of torch's steps{left_out}")
    rows = list(_rows(found.tree, whole, 0, all_of_it=all_of_it))
    yield columned(width, ("step", ">time", ">", ">times", "phase"), rows)
    beside = [each for each in found.parallel if all_of_it or each.seconds >= _SMALL * whole]
    if beside:
        text = ", ".join(f"{fmt.one_line(each.name, 60)} {duration(each.seconds)}" for each in beside[:MOST])
        yield hanging(f"In parallel, in other threads or processes, and not in the sum: {text}.")


def _rows(
    steps: tuple[compile_time_view.StepSpans, ...], whole: float, depth: int, *, all_of_it: bool
) -> Iterator[tuple[str, ...]]:
    for step in steps:
        # No step takes longer than the one around it, so nothing large is left out with it.
        if not all_of_it and (step.seconds < _SMALL * whole or depth > _DEPTH):
            continue
        times = fmt.when(step.times > 1, f"{step.times:,}")
        name = f"{' ' * depth}{fmt.one_line(step.name, 80)}"
        yield (name, duration(step.seconds), f"{step.seconds / whole:.0%}", times, step.phase)
        yield from _rows(step.children, whole, depth + 1, all_of_it=all_of_it)


def _caches(found: CompileAnswer, *, all_of_it: bool) -> Iterator[RenderableType]:
    yield section(f"Caches: {use(found.use)}")
    for name, numbers in found.outcomes.items():
        text = ", ".join(fmt.count(numbers[each], str(each)) for each in LookupOutcome if each in numbers)
        yield item(Text(f"{compile_time_view.CACHES[name]}: {text}"))
    if not found.outcomes and found.use.kind != "off":
        yield item(Text("Torch looked nothing up in its caches."))
    yield from _off(found.use)
    answers = found.caches
    # A hit needs no reason.
    asked = tuple(each for each in answers if all_of_it or each.lookup.outcome is not LookupOutcome.HIT)
    shown = capped(asked, MOST, all_of_it=all_of_it)
    for answer in shown:
        yield from _answer(answer, most=len(answer.differs) if all_of_it else _DIFFERENCES)
    yield from more(len(asked), "look-up", "--all", most=len(shown))


def _off(found: TorchCachesUsed) -> Iterator[RenderableType]:
    if found.switched_off and found.kind != "off":
        yield item(Text(f"Switched off by torch's settings: {fmt.one_line(', '.join(found.switched_off), 200)}"))


def _answer(answer: compile_time_view.CacheAnswer, *, most: int) -> Iterator[RenderableType]:
    lookup = answer.lookup
    of = fmt.joined(" ", lookup.graph or "", lookup.stage or "", lookup.kernel or "")
    title = f"{compile_time_view.CACHES[lookup.cache]} {fmt.one_line(of, 80)}"
    yield Text()
    yield item(Text.assemble((title, "bold"), "  ", (str(lookup.outcome), _STYLES[lookup.outcome])))
    yield hanging(answer.why)
    for each in answer.differs[:most]:
        was, now = (fmt.known(text, otherwise="absent") for text in (each.was, each.now))
        yield hanging(f"{each.component}")
        yield hanging(f"   was {was}")
        yield hanging(f"   now {now}")
    yield from more(len(answer.differs), "component", "--all", most=most)
    if lookup.is_stored is False:
        yield hanging(f"Not stored, so the next run misses it, too: {lookup.not_stored}", "yellow")


def headline(found: CompileAnswer) -> str:
    """Say how long compiling took, and what took most of it."""
    whole, parts = found.seconds, found.phases
    if whole is None:
        return "No compile time: the log has no timed step of torch.compile."
    largest = sorted(parts, key=lambda name: -parts[name])[:_LARGEST]
    most = " and ".join(f"{name} ({parts[name] / whole:.0%})" for name in largest)
    graphs = fmt.count(sum(each.id is not None for each in found.graphs), "compilation")
    return f"Compiling took {duration(whole)} for {graphs}, mostly {most}.{_hits(found)}"


def _hits(found: CompileAnswer) -> str:
    if not found.caches:
        return ""
    numbers = Counter(each.lookup.outcome for each in found.caches)
    return f" Caches: {', '.join(fmt.count(numbers[each], str(each)) for each in LookupOutcome if numbers[each])}."


def circumstances(document: CompileDocument) -> Iterator[str]:
    """Say how the run was made, where that changes what the times mean."""
    environment = document.run.environment
    if not environment.ctrace:
        yield "From a log of torch's own, without ctrace's hooks."
    elif document.compile.use.kind in ("private", "user"):
        yield "Measured with caches on, and without the hooks that slow down compiling."
    else:
        built = "Kernels were generated, not built"
        if environment.built:
            built = "Kernels were built"
        yield f"{built}; caches were off, and ctrace's hooks, which take time, were on."
        yield "To measure without them: ctrace time --compile model.py"
    if document.compile.is_cut:
        yield "The log ends before compiling does: the last steps are cut off."


def use(found: TorchCachesUsed) -> str:
    """Say which caches a run could use."""
    match found.kind:
        case "private":
            return "on, in a private folder that is kept between runs"
        case "user":
            return f"on, in your own folder ({fmt.one_line(found.folder, 120)})"
        case "off":
            return "off in this run"
    return "as the job had them"
