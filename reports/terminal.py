"""A Session as one screen: the verdict first, then what matters most, each finding with its line, reason and fix."""

from collections.abc import Iterator
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ctrace.inspector.model import Break, BreakKind, Compilation, Kernel, Owner, Session, Verdict
from ctrace.inspector.views.recompiles import RecompileGroup, groups
from ctrace.inspector.views.summary import fusion_totals, guard_count, languages, next_steps, sentence
from ctrace.reports import format as fmt

_VERDICT_STYLES = {
    Verdict.COMPILED: "bold green",
    Verdict.PARTIAL: "bold yellow",
    Verdict.NOT_COMPILED: "bold red",
    Verdict.FAILED: "bold red",
}
_MOST = 6
"""How many graphs, kernels or findings of a kind the screen shows; the rest is counted."""
_VALUES = 8
_LINES = 4
_GAP = 2
_LANGUAGE = 8
_GRAPH_NUMBERS = 48
"""Columns that the graphs table needs besides the function."""


def render_terminal(session: Session, console: Console) -> None:
    """Print the screen."""
    with console.capture() as screen:
        console.print(Group(*_screen(session, console.width)), highlight=False, markup=False, emoji=False)
    # Rich fills lines up to the width; whoever copies or diffs them does not want that.
    console.file.write("".join(f"{line.rstrip()}\n" for line in screen.get().splitlines()))


def _screen(session: Session, width: int) -> Iterator[RenderableType]:
    yield _headline(session)
    yield _environment(session)
    yield from _findings(session)
    yield from _generated(session, width)
    yield from _endings(session)


def _headline(session: Session) -> Text:
    verdict = str(session.verdict).replace("_", " ").upper()
    name = fmt.plain(session.target.path or session.target.name or "this run")
    told = fmt.plain(sentence(session))
    failure = session.failure
    if failure is not None and failure.file is not None:
        told += f"\nat {fmt.place(failure.file, failure.line, session.environment.cwd)}"
    return Text.assemble((verdict, _VERDICT_STYLES[session.verdict]), "  ", (name, "bold"), "\n", told)


def _environment(session: Session) -> Text:
    environment = session.environment
    built = "built" if environment.built else "emitted, not built"
    parts = [
        f"torch {environment.torch}" if environment.torch else "torch unknown",
        f"python {environment.python}" if environment.python else "",
        environment.device,
        f"backend {environment.backend}" if environment.backend else "",
        built if "inductor" in environment.backend else "",
        fmt.count(len(session.scenarios), "scenario") if len(session.scenarios) > 1 else "",
    ]
    return Text(fmt.plain(" · ".join(part for part in parts if part)), style="dim")


def _findings(session: Session) -> Iterator[RenderableType]:
    cwd = session.environment.cwd
    if session.breaks:
        yield _section("Graph breaks")
        for number, each in enumerate(session.breaks[:_MOST], 1):
            yield _break(number, each, cwd)
        yield from _more(len(session.breaks), "break")
    if session.skips:
        yield _section("Left in eager")
        for skip in session.skips[:_MOST]:
            because = (
                f"break {skip.break_index + 1}" if skip.break_index is not None else fmt.one_line(skip.reason, 200)
            )
            where = fmt.place(skip.file, skip.line, cwd)
            yield _item(Text.assemble((f"{fmt.plain(skip.function)}", "bold"), f"  {where}  because of {because}"))
        yield from _more(len(session.skips), "function")
    recompiled = groups(session)
    if recompiled:
        yield _section(f"Recompiles ({len(session.recompiles)})")
        for group in recompiled[:_MOST]:
            yield _recompile(group, cwd)
        yield from _more(len(recompiled), "cause")
    if session.limit.hit:
        full = [use.function for use in session.limit.functions if use.used >= use.of]
        which = f" by {fmt.listed(full, 3)}" if full else ""
        yield _item(Text(f"The recompile limit was hit{which}: calls that fit no graph run eagerly.", style="red"))


def _break(number: int, each: Break, cwd: str) -> RenderableType:
    gb = ", ".join(each.gb) or "no gb id"
    owner = "" if each.owner is Owner.USER else f" · in {each.owner} code"
    kind = " · disabled by its author" if each.kind is BreakKind.DISABLED else ""
    head = Text.assemble(
        (f"{number}. {fmt.place(each.file, each.line, cwd)}", "bold"),
        f" in {fmt.plain(each.function)}",
        (f"  {gb} · {fmt.count(each.times, 'time')}{owner}{kind}", "dim"),
    )
    lines = [head, Text(f"   {fmt.one_line(each.source, 200)}", style="cyan")] if each.source else [head]
    return _item(Group(*lines, _hanging(each.reason), _fix(each.fix)))


def _recompile(group: RecompileGroup, cwd: str) -> RenderableType:
    times = fmt.count(len(group.compilations), "recompile")
    expected = " · expected" if group.expected else ""
    where = fmt.place(group.file, group.line, cwd)
    facts = f"  {group.kind} · {times} of {fmt.plain(group.function)} ({where}){expected}"
    head = Text.assemble((fmt.one_line(group.subject, 120), "bold"), (facts, "dim"))
    values = f"took {fmt.listed((fmt.one_line(value, 40) for value in group.values), _VALUES)}" if group.values else ""
    lines: list[RenderableType] = [head]
    if values:
        lines.append(_hanging(values))
    if not group.expected:
        lines.append(_fix(group.fix))
    return _item(Group(*lines))


def _generated(session: Session, width: int) -> Iterator[RenderableType]:
    if session.graphs:
        yield _section("Graphs")
        yield _graphs(session, width)
    if session.kernels:
        totals = fusion_totals(session)
        fused = (
            f"; fusion: {totals.before} nodes into {totals.after}, {fmt.count(totals.rounds, 'round')}"
            if totals
            else ""
        )
        by_language = ", ".join(f"{number} {language}" for language, number in languages(session).items())
        yield _section(f"Kernels: {by_language}{fused}")
        yield _kernels(session, width)


def _graphs(session: Session, width: int) -> RenderableType:
    table = _table("graph", "function", "ops", "guards", "bytecode")
    by_id = {compilation.id: compilation for compilation in session.compilations}
    for graph in session.graphs[:_MOST]:
        compilation = by_id.get(graph.id)
        where = f"  {fmt.file_name(graph.file)}:{graph.line}"
        function = Text.assemble(fmt.one_line(graph.function), (where, "dim"))
        function.truncate(width - _GRAPH_NUMBERS, overflow="ellipsis")
        guards = "?" if compilation is None or compilation.guards is None else str(compilation.guards)
        table.add_row(graph.id, function, str(graph.ops), guards, _bytecode(compilation))
    return Group(table, *_more(len(session.graphs), "graph"))


def _bytecode(compilation: Compilation | None) -> str:
    if compilation is None or compilation.bytecode is None:
        return "?"
    return f"{compilation.bytecode.before} → {compilation.bytecode.after} B"


def _kernels(session: Session, width: int) -> RenderableType:
    table = _table("kernel", "language", "aten ops", "lines")
    for kernel in sorted(session.kernels, key=lambda kernel: kernel.language == "external")[:_MOST]:
        table.add_row(*_kernel_row(kernel, width - _LANGUAGE - 4 * _GAP))
    return Group(table, *_more(len(session.kernels), "kernel"))


def _kernel_row(kernel: Kernel, width: int) -> tuple[str, str, str, str]:
    """Cut names, ops and lines so that they share `width` columns; rich would rather drop a whole column."""
    times = f" ×{kernel.calls}" if kernel.calls > 1 else ""
    name = fmt.one_line(kernel.name.removeprefix("extern_kernels."), 2 * width // 5 - len(times)) + times
    ops = fmt.one_line(fmt.listed((fmt.short_op(op) for op in kernel.ops), 3), width // 4)
    lines = fmt.one_line(_lines(kernel.lines), width - 2 * width // 5 - width // 4)
    return name, fmt.one_line(kernel.language, _LANGUAGE), ops, lines


def _lines(places: tuple[str, ...]) -> str:
    """Write `file.py:27,28,30`, the file with the most lines first; other files are counted."""
    by_file: dict[str, set[int]] = {}
    for where in places:
        file, _, line = where.rpartition(":")
        by_file.setdefault(fmt.file_name(file), set()).add(int(line))
    if not by_file:
        return "not known"
    file, lines = max(by_file.items(), key=lambda item: len(item[1]))
    numbers = ",".join(map(str, sorted(lines)[:_LINES])) + ("…" if len(lines) > _LINES else "")
    others = f" and {fmt.count(len(by_file) - 1, 'other file')}" if len(by_file) > 1 else ""
    return f"{file}:{numbers}{others}"


def _endings(session: Session) -> Iterator[RenderableType]:
    yield Text()
    guards = guard_count(session)
    facts = [("Time", _time(session))]
    if session.compilations or session.failure is None:
        covered = fmt.share(session.coverage.compiled, session.coverage.ops)
        facts = [("Ops in graphs", covered), ("Guards", "not measured" if guards is None else str(guards)), *facts]
    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        grid.add_row(Text(name, style="bold"), Text(value))
    for number, step in enumerate(next_steps(session)):
        grid.add_row(Text("" if number else "What to do", style="bold"), Text(fmt.one_line(step)))
    yield grid
    if session.problems:
        yield _section("Problems of ctrace itself")
        for problem in session.problems[:_MOST]:
            where = f"trace.log:{problem.line}: " if problem.line is not None else ""
            yield _item(Text(f"! {where}{fmt.one_line(problem.what, 300)}", style="yellow"))
        yield from _more(len(session.problems), "problem")
    if session.unknown:
        names = fmt.listed((f"{fmt.one_line(name, 60)} ({number})" for name, number in session.unknown.items()), 4)
        yield Text(f"Log entries that this version does not know: {names}", style="dim")


def _time(session: Session) -> str:
    if session.time.total is None and not session.time.phases:
        return "not measured"
    phases = ", ".join(f"{name} {fmt.seconds(value)}" for name, value in session.time.phases.items())
    total = f"{fmt.seconds(session.time.total)} in all" if session.time.total is not None else ""
    return "; ".join(part for part in (total, phases) if part)


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in ("ops", "guards") else "left"
        table.add_column(column, overflow="ellipsis", no_wrap=True, justify=justify)
    return table


def _section(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _item(content: RenderableType) -> RenderableType:
    return Padding(content, (0, 0, 0, 1))


def _hanging(text: str) -> RenderableType:
    return Padding(Text(fmt.one_line(text, 400)), (0, 0, 0, 3))


def _fix(text: str) -> RenderableType:
    return Padding(Text(f"→ {fmt.one_line(text, 400)}", style="green"), (0, 0, 0, 3)) if text else Text()


def _more(number: int, noun: str) -> Iterator[RenderableType]:
    if number > _MOST:
        yield Text(f"  and {fmt.count(number - _MOST, f'more {noun}', f'more {noun}s')}: see --json", style="dim")
