"""`ctrace explain` as one screen: the verdict first, then what matters most, each with its line, reason and fix."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.model import Session
from ctrace.inspector.views.attention import State, kinds, unfused, wrong
from ctrace.inspector.views.breaks import lonely_skips, never_compiled, ranked
from ctrace.inspector.views.cuts import Cut, cuts
from ctrace.inspector.views.graphfates import cut_off, happened
from ctrace.inspector.views.recompiles import RecompileGroup, groups
from ctrace.inspector.views.shapes import violations
from ctrace.inspector.views.summary import guard_count, languages, next_steps
from ctrace.inspector.views.targetgpu import target_of
from ctrace.inspector.views.userkernels import in_one_line, stuck
from ctrace.reports import format as fmt
from ctrace.reports.terminal.attention import attention_item, places
from ctrace.reports.terminal.findings import break_head, skip_line
from ctrace.reports.terminal.fusionline import fusion_lines, fusion_title
from ctrace.reports.terminal.kernels import most_moving
from ctrace.reports.terminal.parts import MOST, fix, hanging, headline, item, more, section, table
from ctrace.reports.terminal.scenarios import danger_findings, provoked_findings
from ctrace.reports.terminal.target import facts, in_short

_VALUES = 8
_GRAPH_NUMBERS = 26
"""Columns that the graphs table needs besides the function."""


def explain_screen(session: Session, width: int) -> Iterator[RenderableType]:
    """Show a run."""
    yield headline(session)
    for sentence in violations(session):
        yield item(Text(fmt.one_line(sentence, 900), style="red"))
    yield _environment(session)
    yield from _wrong(session)
    yield from _findings(session)
    yield from _generated(session, width)
    yield from _endings(session)


def _environment(session: Session) -> Text:
    environment = session.environment
    gpu = target_of(session)
    emitted = f"emitted for {gpu.target}, not run" if gpu else "emitted, not built"
    built = "built" if environment.built else emitted
    parts = [
        f"torch {environment.torch}" if environment.torch else "torch unknown",
        f"python {environment.python}" if environment.python else "",
        environment.device,
        f"backend {environment.backend}" if environment.backend else "",
        built if "inductor" in environment.backend else "",
        fmt.count(len(session.scenarios), "scenario") if len(session.scenarios) > 1 else "",
    ]
    return Text(fmt.plain(" · ".join(part for part in parts if part)), style="dim")


def _wrong(session: Session) -> Iterator[RenderableType]:
    """Show the worst there is: results that are wrong."""
    if replaced := wrong(session):
        yield section("Wrong results: torch replaced an attention by something else")
        for each in replaced[:MOST]:
            yield attention_item(each, session.environment.cwd)
        yield from more(len(replaced), "attention")


def _findings(session: Session) -> Iterator[RenderableType]:
    cwd = session.environment.cwd
    if session.breaks:
        costliest = ", the costliest first" if len(session.breaks) > 1 else ""
        yield section(f"Graph breaks{costliest}")
        for number, each in enumerate(ranked(session)[:MOST], 1):
            at = each.at
            code = [Text(f"   {fmt.one_line(at.source, 200)}", style="cyan")] if at.source else []
            skips = [hanging(f"{skip.function} is left in eager. {skip.reason}") for skip in each.skips]
            yield item(Group(break_head(number, each, cwd), *code, hanging(at.reason), *skips, fix(at.fix)))
        yield from more(len(session.breaks), "break", "ctrace breaks --all")
    yield from danger_findings(session)
    if alone := lonely_skips(session):
        yield section("Left in eager")
        for skip in alone[:MOST]:
            yield item(Group(skip_line(skip, cwd), hanging(skip.reason), fix(skip.fix)))
        yield from more(len(alone), "function")
    if silent := never_compiled(session):
        names = fmt.listed((f"{each.name} ({fmt.place(each.file, each.line, cwd)})" for each in silent), 4)
        yield item(Text(fmt.plain(f"\nNever compiled, no graph came of it: {names}"), style="bold red"))
    recompiled = groups(session)
    if recompiled:
        yield section(f"Recompiles ({len(session.recompiles)})")
        for group in recompiled[:MOST]:
            yield _recompile(group, cwd)
        yield from more(len(recompiled), "cause")
    if session.limit.hit:
        full = [use.function for use in session.limit.functions if use.refused]
        which = f" by {fmt.listed(full, 3)}" if full else ""
        yield item(Text(f"The recompile limit was hit{which}: calls that fit no graph run eagerly.", style="red"))
    yield from provoked_findings(session)


def _recompile(group: RecompileGroup, cwd: str) -> RenderableType:
    times = fmt.count(len(group.compilations), "recompile")
    expected = " · expected" if group.expected else ""
    where = fmt.place(group.file, group.line, cwd)
    facts = f"  {group.kind} · {times} of {fmt.plain(group.function)} ({where}){expected}"
    head = Text.assemble((fmt.one_line(group.subject, 120), "bold"), (facts, "dim"))
    values = f"took {fmt.listed((fmt.one_line(value, 40) for value in group.values), _VALUES)}" if group.values else ""
    lines: list[RenderableType] = [head]
    if values:
        lines.append(hanging(values))
    if not group.expected:
        lines.append(fix(group.fix))
    return item(Group(*lines))


def _generated(session: Session, width: int) -> Iterator[RenderableType]:
    if session.graphs:
        yield section("Graphs")
        yield _graphs(session, width)
        yield from _cuts(session)
        yield from _attention(session)
    if session.kernels:
        by_language = ", ".join(f"{number} {language}" for language, number in languages(session).items())
        yield section(f"Kernels: {by_language}{fusion_title(session)}")
        yield from fusion_lines(session)
        yield from facts(session)
        yield most_moving(session, width)
    if told := in_one_line(session):
        yield item(Text(fmt.one_line(f"{told}: see ctrace kernels", 300), style="dim"))
    for _, note in stuck(session):
        yield hanging(note.text)
    yield from in_short(session)


def _graphs(session: Session, width: int) -> RenderableType:
    told = {graph.id: happened(session, graph) for graph in session.graphs[:MOST]}
    rows = table("graph", "function", "ops", "guards", *(["what happened"] if any(told.values()) else []))
    by_id = {compilation.id: compilation for compilation in session.compilations}
    for graph in session.graphs[:MOST]:
        compilation = by_id.get(graph.id)
        where = f"  {fmt.file_name(graph.file)}:{graph.line}"
        function = Text.assemble(fmt.one_line(graph.function), (where, "dim"))
        function.truncate(width - _GRAPH_NUMBERS - max(map(len, told.values())), overflow="ellipsis")
        guards = "?" if compilation is None or compilation.guards is None else str(compilation.guards)
        rows.add_row(graph.id, function, str(graph.ops), guards, told[graph.id])
    return Group(rows, *more(len(session.graphs), "graph"))


def _cuts(session: Session) -> Iterator[RenderableType]:
    found = cuts(session)
    for cut in found[:MOST]:
        yield item(Text(fmt.one_line(cut_off(session, cut, _breaks_of(session, cut)), 300), style="dim"))
    yield from more(len(found), "cut")


def _breaks_of(session: Session, cut: Cut) -> list[str]:
    return [
        f"{fmt.place(at.file, at.line, session.environment.cwd)} {fmt.one_line(at.expression or at.source, 60)}".strip()
        for at in (session.breaks[index] for index in cut.breaks)
    ]


def _attention(session: Session) -> Iterator[RenderableType]:
    found = kinds(each for each in unfused(session) if each.state is not State.WRONG)
    for each in found[:MOST]:
        where = f"{fmt.listed(each.graphs, 3)}, {places(each.lines, session.environment.cwd)}"
        title = f" ({each.title})" if each.title else ""
        times = f" {each.times} times" if each.times > 1 else ""
        yield item(Text(fmt.one_line(f"{where}: {each.sentence}{title}{times}", 300), style="yellow"))
    yield from more(len(found), "attention")


def _endings(session: Session) -> Iterator[RenderableType]:
    yield Text()
    guards = guard_count(session)
    facts = [("Time", _time(session))]
    if session.compilations or session.failure is None:
        facts = [
            ("Ops in graphs", _coverage(session)),
            ("Guards", "not measured" if guards is None else str(guards)),
            *facts,
        ]
    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        grid.add_row(Text(name, style="bold"), Text(value))
    for number, step in enumerate(next_steps(session)):
        grid.add_row(Text("" if number else "What to do", style="bold"), Text(fmt.one_line(step)))
    yield grid
    if session.problems:
        yield section("Problems")
        for problem in session.problems[:MOST]:
            where = f"trace.log:{problem.line}: " if problem.line is not None else ""
            yield item(Text(f"! {where}{fmt.one_line(problem.what, 300)}", style="yellow"))
        yield from more(len(session.problems), "problem")
    if session.unknown:
        names = fmt.listed((f"{fmt.one_line(name, 60)} ({number})" for name, number in session.unknown.items()), 4)
        yield Text(f"Log entries that this version does not know: {names}", style="dim")


def _coverage(session: Session) -> str:
    """Write the share of ops in graphs, and of each scenario where not all agree that it is all or nothing."""
    whole = fmt.share(session.coverage.compiled, session.coverage.ops)
    shares = {each.name: fmt.share(each.coverage.compiled, each.coverage.ops) for each in session.scenarios}
    coverages = [each.coverage for each in session.scenarios]
    all_of_it = all(each.ops is not None and each.compiled == each.ops for each in coverages)
    if all_of_it or len(set(shares.values())) < 2:
        return whole
    return f"{whole}; {fmt.listed((f'{fmt.one_line(name, 30)} {share}' for name, share in shares.items()), 6)}"


def _time(session: Session) -> str:
    if session.time.total is None and not session.time.phases:
        return "not measured"
    phases = ", ".join(f"{name} {fmt.seconds(value)}" for name, value in session.time.phases.items())
    total = f"{fmt.seconds(session.time.total)} in all" if session.time.total is not None else ""
    return "; ".join(part for part in (total, phases) if part)
