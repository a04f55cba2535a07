"""Screen of `ctrace explain`: the verdict first, then what to do, the causes, scenario results and totals.

Show what `ctrace explain -v` adds to the screen: the graphs and the generated kernels.
"""

import re
from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.facts.compile_time import Speed
from ctrace.inspector.facts.diagnosis import Diagnosis, Finding, RootCause
from ctrace.inspector.facts.fake_facts import Assumed, AssumedFrom
from ctrace.inspector.facts.scenario_facts import Outcome, ScenarioKind
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.breaks.break_view import never_compiled
from ctrace.inspector.findings.cuda_graph_view import sentence as cuda_graphs
from ctrace.inspector.findings.graphs.attention_view import AttentionState, kinds, unfused
from ctrace.inspector.findings.graphs.cuts import Cut, cut_off, cuts, happened
from ctrace.inspector.findings.kernels.user_kernels_view import in_one_line, stuck
from ctrace.inspector.findings.scenario_view import not_compared, provoked, why_no_coverage
from ctrace.inspector.findings.shape_view import violations
from ctrace.inspector.findings.target_view import target_of
from ctrace.inspector.grouping import grouped
from ctrace.inspector.log.dispatch import RECORDS
from ctrace.inspector.session.summary import fast_sentence, guard_count, languages, next_steps, other_problems
from ctrace.reports import format as fmt
from ctrace.reports.format import duration, times
from ctrace.reports.terminal.fusion_screen import fusion_lines, fusion_title
from ctrace.reports.terminal.kernel_tables import most_moving
from ctrace.reports.terminal.node_screen import places
from ctrace.reports.terminal.target_screen import facts, in_short
from ctrace.reports.terminal.widgets import (
    GAP,
    MOST,
    compile_only_note,
    hanging,
    headline,
    indented,
    item,
    more,
    section,
    table,
)
from ctrace.reports.wording.accuracy_wording import answer, basis, rounded
from ctrace.reports.wording.diagnosis_wording import (
    MOST_ADVICE,
    MOST_CAUSES,
    asks_nothing,
    cost,
    effects,
    is_failure_alone,
    is_nothing,
    later_calls,
    notes,
    symptoms,
)

_ADVICE = 320
"""The most characters to show of a piece of advice."""
_EXPLAINED = 2
"""How many causes are shown with their reason if there are more than three causes."""
_REASON_LETTERS = {1: 400, 2: 300, 3: 220, 4: 220, 5: 120}
"""The most characters of a cause's reason, keyed by the number of causes shown, so that all fit on one screen."""
_TORCHS_LETTERS = 240
"""The most characters of torch's own words in a cause's reason, if the reason has less room."""
_PLACE = 60
"""The most columns for a place."""
_DETAIL = 150
"""The most characters of torch's own reason, which is shown if it is about another cache entry."""
_SENTENCE_END = re.compile(r"[.:;](?= |$)")


def what_to_do(found: Diagnosis, *, whole: bool = False) -> Iterator[RenderableType]:
    """Show the best advice, or the `whole` of it, each with the effect that a trial measured."""
    asked = [each for each in found.advice if not asks_nothing(each)]
    most = len(asked) if whole else MOST_ADVICE
    if asked:
        yield section("What to do")
        for number, each in enumerate(asked[:most], 1):
            head = f"{number}. " if len(asked) > 1 else ""
            lines: list[RenderableType] = [
                _hanging(Text(f"{head}{_bounded(each.text, _ADVICE)}", style="green"), len(head))
            ]
            if effect := effects(each, found):
                lines.append(indented(Text(effect, style="dim"), len(head)))
            yield item(Group(*lines))
        yield from more(len(asked), "suggestion", "ctrace explain --verbose", most=most, before=" ")
    if said := [_bounded(each, _ADVICE) for each in notes(found)]:
        yield Text("\n" + "\n".join(said), style="green")


def _hanging(text: Text, indent: int) -> RenderableType:
    """Indent the lines after the first."""
    if not indent:
        return indented(text, 0)
    return _Hanging(text, indent)


class _Hanging:
    """Text whose lines after the first are indented."""

    def __init__(self, text: Text, indent: int) -> None:
        self._text = text
        self._indent = indent

    def __rich_console__(self, console, options):  # type: ignore[no-untyped-def]
        """Fold the text to the remaining width, and indent all lines but the first."""
        lines = self._text.wrap(console, max(options.max_width - self._indent, 20))
        for number, line in enumerate(lines):
            yield Text(" " * (self._indent if number else 0)) + line


def causes(found: Diagnosis, session: Session) -> Iterator[RenderableType]:
    """Show the costliest causes, each with its line, why, and how many findings it explains."""
    shown = [each for each in found.causes if not each.expected and not is_failure_alone(each)]
    if shown:
        yield section(f"Cause{'s, costliest first' if len(shown) > 1 else ''}")
        for number, each in enumerate(shown[:MOST_CAUSES], 1):
            letters = (
                _REASON_LETTERS[min(len(shown), MOST_CAUSES)]
                if number <= _EXPLAINED or len(shown) <= _EXPLAINED + 1
                else 0
            )
            yield item(_cause(number if len(shown) > 1 else 0, each, session, letters))
        yield from more(len(shown), "cause", "ctrace explain --json", most=MOST_CAUSES, before=" ")
    if expected := [each for each in found.causes if each.expected]:
        advised = {id_ for advice in found.advice for id_ in advice.causes}
        yield from _expected(expected, has_advice=any(each.id in advised for each in expected))


def _cause(number: int, each: RootCause, session: Session, letters: int) -> RenderableType:
    """Show a cause, with its reason in at most `letters` letters; 0: without the reason."""
    cwd = session.environment.cwd
    mark = fmt.framed("", number or None, ". ")
    head, indent = Text.assemble((mark, "bold"), (fmt.one_line(each.title, 150), "bold")), len(mark)
    where = fmt.short_place(each.file, each.line, cwd, _PLACE) if each.file else ""
    function = fmt.framed(" in ", fmt.one_line(each.function or "", 40))
    lines: list[RenderableType] = [_hanging(head, indent)]
    place = f"{where}{function}{_also_from(each, session)}".strip()
    facts = fmt.joined(" · ", place, symptoms(each), cost(each))
    lines.append(indented(Text(fmt.one_line(facts, 300), style="dim"), indent))
    if letters and (inside := _inside(each, session)):
        lines.append(indented(Text(fmt.one_line(inside, 300), style="dim"), indent))
    why = fmt.joined(". ", _compared(each, session), each.why)
    if why and letters:
        lines.append(indented(Text(_with_torchs_words(why, letters)), indent))
    if each.detail and letters:
        lines.append(indented(Text(fmt.one_line(each.detail, _DETAIL), style="dim"), indent))
    return Group(*lines)


def _also_from(each: RootCause, session: Session) -> str:
    """Name the other lines of the user that lead to a break that several of them share, such as one in a library."""
    breaks = (session.breaks[symptom.index] for symptom in each.symptoms if symptom.what is Finding.BREAK)
    shared = (at.user_lines for at in breaks if len(at.user_lines) > 1)
    places = dict.fromkeys((line.at.file, line.at.line) for lines in shared for line in lines)
    others = (place for place in places if place != (each.file, each.line))
    shown = [fmt.short_place(file, line, session.environment.cwd, _PLACE) for file, line in others]
    return fmt.framed(", also from ", fmt.listed(shown, 3))


def _inside(each: RootCause, session: Session) -> str:
    """Say which lines of libraries a cause's breaks are at; empty if all are at the user's own lines."""
    breaks = [session.breaks[symptom.index] for symptom in each.symptoms if symptom.what is Finding.BREAK]
    places = [
        fmt.short_place(at.inside.file, at.inside.line, session.environment.cwd, _PLACE) for at in breaks if at.inside
    ]
    return fmt.framed("inside: ", fmt.listed(dict.fromkeys(places), 3))


def _compared(each: RootCause, session: Session) -> str:
    """Say how results differ, and with what ctrace compared them; empty for any other cause than a wrong result."""
    dangers = [session.dangers[symptom.index] for symptom in each.symptoms if symptom.what is Finding.DANGER]
    if not dangers:
        return ""
    return fmt.joined("; ", fmt.one_line(dangers[0].difference, 120), basis(dangers[0].comparison))


_TORCHS_WORDS = "Torch says: "


def _with_torchs_words(why: str, letters: int) -> str:
    """Bound a reason, but keep torch's own words at its end, which say what this case is about."""
    ours, found, words = fmt.one_line(why).partition(_TORCHS_WORDS)
    if not found or fmt.width(why) <= letters:
        return _bounded(why, letters)
    kept = fmt.cut(f"{found}{words}", max(letters, _TORCHS_LETTERS))
    left = letters - fmt.width(kept)
    if _SENTENCE_END.search(ours[: max(left, 0)]):
        return f"{_bounded(ours, left)} {kept}"
    return kept


def _bounded(text: str, letters: int) -> str:
    """Keep the whole sentences that fit; cut the first one only if it does not fit.

    A sentence in parentheses or in code, such as the message of an exception, ends no sentence of ours.
    """
    line = fmt.one_line(text)
    if fmt.width(line) <= letters:
        return line
    starts = [line[: at.end()] for at in _SENTENCE_END.finditer(line)]
    whole = [each for each in starts if each.count("(") <= each.count(")") and each.count("`") % 2 == 0]
    ends = [len(each) for each in whole if fmt.width(each) <= letters]
    if ends:
        return line[: ends[-1]].rstrip()
    return fmt.cut(line, letters)


def _expected(found: list[RootCause], *, has_advice: bool) -> Iterator[RenderableType]:
    """List what needs no change, one line for each title."""
    kinds = {symptom.what for each in found for symptom in each.symptoms}
    what = "Expected recompilations" if kinds == {Finding.RECOMPILE} else "Expected"
    yield section(what if has_advice else f"{what}, nothing to change")
    titles = grouped(found, lambda each: each.title)
    for title, same in list(titles.items())[:2]:
        counted = replace(same[0], symptoms=tuple(symptom for each in same for symptom in each.symptoms))
        yield item(Text(fmt.one_line(f"{title} ({symptoms(counted)})", 150), style="dim"))
    if len(titles) > 2:
        views = "ctrace recompiles" if kinds == {Finding.RECOMPILE} else "ctrace breaks, recompiles"
        yield Text(f" and {len(titles) - 2} more: see {views}", style="dim")


def gradients_note(session: Session) -> str:
    """Say that a model in eval mode ran with gradients on; empty otherwise."""
    chosen = [each for each in session.scenarios if each.kind is not ScenarioKind.PROVOKED]
    if any(each.unused_grad and each.training is False for each in chosen):
        return "called in eval mode with gradients on (torch.no_grad() turns them off)"
    return ""


_GRAPH_NUMBERS = 26
"""How many columns the table of graphs needs for all but the function."""


def generated(session: Session, width: int) -> Iterator[RenderableType]:
    """Show graphs and where they end, attention that was not fused, and kernels."""
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
    if summary := in_one_line(session):
        yield item(Text(fmt.one_line(f"{summary}: see ctrace kernels", 300), style="dim"))
    for _, note in stuck(session):
        yield hanging(note.text)
    yield from in_short(session)


def _graphs(session: Session, width: int) -> RenderableType:
    fates = {graph.id: happened(session, graph) for graph in session.graphs[:MOST]}
    rows = table("graph", "function", "ops", "guards", *(["what happened"] if any(fates.values()) else []))
    by_id = {compilation.id: compilation for compilation in session.compilations}
    for graph in session.graphs[:MOST]:
        compilation = by_id.get(graph.id)
        where = f"  {fmt.file_name(graph.file)}:{graph.line}"
        function = Text.assemble(fmt.one_line(graph.function), (where, "dim"))
        function.truncate(width - _GRAPH_NUMBERS - max(map(len, fates.values())), overflow="ellipsis")
        guards = fmt.known(compilation and compilation.guards)
        rows.add_row(graph.id, function, str(graph.ops), guards, fates[graph.id])
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
    found = kinds(each for each in unfused(session) if each.state is not AttentionState.WRONG)
    for each in found[:MOST]:
        where = f"{fmt.listed(each.graphs, 3)}, {places(each.lines, session.environment.cwd)}"
        title, times = fmt.framed(" (", each.title, ")"), fmt.repeated(each.times, " ", " times")
        yield item(Text(fmt.one_line(f"{where}: {each.sentence}{title}{times}", 300), style="yellow"))
    yield from more(len(found), "attention")


# Chosen: names of provoked scenarios are short, and the answer beside them needs the room.
_NAME = 24
# Chosen, as are the next ones: the short screen of `explain` is one page, with the causes first.
_REASONS = 2
_WHY = 120
_PROVOKED = 10
_MOST = 4
_BILLION, _MILLION = 10**9, 10**6


def not_compared_lines(session: Session) -> Iterator[RenderableType]:
    """Say which scenarios were not compared with eager, and why."""
    reasons = not_compared(session)
    for why, names in list(reasons.items())[:_REASONS]:
        shown = fmt.listed((fmt.one_line(name, 60) for name in names), 4)
        yield item(Text(f"\nNot compared with eager in {shown}: {fmt.one_line(why, 200)}.", style="yellow"))
    yield from more(len(reasons), "reason", most=_REASONS)
    explained = list(rounded(session))
    for sentence in explained[:_REASONS]:
        yield item(Text(f"\n{fmt.one_line(sentence, 240)}", style="dim"))
    yield from more(len(explained), "comparison", most=_REASONS)


def provoked_findings(session: Session) -> Iterator[RenderableType]:
    """Show each provoked scenario and its outcome, one line each."""
    tried = provoked(session)
    if not tried:
        return
    yield section("Provoked")
    rows = Table.grid(padding=(0, GAP, 0, 0))
    for each in tried[:_PROVOKED]:
        style = "red" if each.scenario.outcome is Outcome.COMPILE_FAILED else ""
        rows.add_row(fmt.one_line(each.scenario.name, _NAME), Text(fmt.one_line(each.answer, 120), style=style))
    yield item(rows)
    yield from more(len(tried), "scenario", most=_PROVOKED)


_PROBLEMS = 2
"""Problems on the short screen; the verbose one shows more."""


def explain_screen(
    session: Session, width: int, *, verbose: bool = False, run: str | None = ""
) -> Iterator[RenderableType]:
    """Show a run: verdict, what to do, causes, and the rest in a few lines; with `verbose`, graphs and kernels too.

    `run` is what other commands take for the run: nothing for the last one; None: it is not saved.
    """
    found = diagnose(session)
    yield headline(session)
    for sentence in violations(session):
        yield item(Text(fmt.one_line(sentence, 900), style="red"))
    if environment := _environment(session):
        yield environment
    if session.environment.fast:
        yield Text(fast_sentence(), style="yellow")
    yield from (
        Text(fmt.one_line(line, 300), style="yellow") for line in fake_lines(session, has_steps=not found.advice)
    )
    yield from compile_only_note(session)
    yield from what_to_do(found, whole=verbose) if found.advice else _healthy(session, run)
    yield from causes(found, session)
    yield from _beside_causes(session)
    if verbose:
        # Imported late, with its tables: most users read a run without them.

        yield from generated(session, width)
    yield from _endings(session, run, verbose=verbose)


def _environment(session: Session) -> Text:
    return Text(fmt.one_line(" · ".join(part for part in _setup(session) if part), 400), style="dim")


def _setup(session: Session) -> Iterator[str]:
    environment = session.environment
    if environment.torch:
        yield f"torch {environment.torch}"
    elif session.compilations:
        yield "torch unknown"
    if environment.python:
        yield f"python {environment.python}"
    yield environment.device
    if environment.backend:
        yield f"backend {environment.backend}"
    if "inductor" in environment.backend:
        yield "kernels built" if environment.built else _generated(session)
    if len(session.scenarios) > 1:
        yield fmt.count(len(session.scenarios), "scenario")
    yield gradients_note(session)


def _generated(session: Session) -> str:
    gpu = target_of(session)
    if gpu:
        return f"kernels generated for {gpu.target}, not run"
    return "kernels generated, not built"


def _healthy(session: Session, run: str | None) -> Iterator[RenderableType]:
    """Show the next steps of a run without advice; in Python, options are arguments."""
    steps = [step.replace("--build", "build=True") if run is None else step for step in next_steps(session)]
    if steps and is_nothing(steps[0]):
        yield Text("\n" + "\n".join(map(fmt.one_line, steps)))
    elif steps:
        yield section("What to do")
        yield from (item(Text(fmt.one_line(step))) for step in steps)


def _beside_causes(session: Session) -> Iterator[RenderableType]:
    """Show what is not part of a cause: functions without a graph, the limit, comparisons, provoked scenarios."""
    cwd = session.environment.cwd
    if silent := never_compiled(session):
        names = fmt.listed((f"{each.name} ({fmt.place(each.file, each.line, cwd)})" for each in silent), 4)
        yield item(Text(fmt.plain(f"\nNot compiled, Dynamo captured no graph: {names}"), style="bold red"))
    if session.limit.hit:
        full = [use.function for use in session.limit.functions if use.refused]
        which = fmt.framed(" by ", fmt.listed(full, 3))
        yield item(Text(f"\nRecompile limit hit{which}: calls that match no graph run eagerly.", style="red"))
    if later := later_calls(session):
        yield item(Text(f"\n{later}", style="red"))
    yield from not_compared_lines(session)
    yield from provoked_findings(session)


def _endings(session: Session, run: str | None, *, verbose: bool) -> Iterator[RenderableType]:
    yield Text()
    grid = Table.grid(padding=(0, 2))
    for name, value in _facts(session, run, verbose=verbose):
        grid.add_row(Text(name, style="bold"), Text(value))
    yield grid
    if problems := other_problems(session):
        yield section("Problems")
        most, letters = (MOST, 300) if verbose else (_PROBLEMS, 150)
        for problem in problems[:most]:
            where = fmt.framed("trace.log:", problem.line, ": ")
            yield item(Text(f"! {where}{fmt.one_line(problem.what, letters)}", style="yellow"))
        yield from more(len(problems), "problem", most=most)
    if verbose and session.records:
        counted = Counter(each.name for each in session.records)
        yield section("Other records of torch")
        for name, number in counted.most_common(MOST):
            yield item(Text(fmt.one_line(f"{name} ({number}): {RECORDS.get(name, '')}", 200)))
        yield from more(len(counted), "kind", most=MOST)
        yield item(Text("--json has their texts.", style="dim"))
    if verbose and session.not_shown:
        yield section("Records that no view shows")
        for name, number in Counter(session.not_shown).most_common(MOST):
            yield item(Text(fmt.one_line(f"{name} ({number})", 200)))
        if len(session.not_shown) > MOST:
            yield Text(f"  {len(session.not_shown)} kinds in all: see not_shown in --json", style="dim")
    if session.unknown:
        names = fmt.listed((f"{fmt.one_line(name, 60)} ({number})" for name, number in session.unknown.items()), 4)
        yield Text(f"Log entries unknown to this version: {names}", style="dim")


def _facts(session: Session, run: str | None, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield the totals, with the commands that show more."""
    if session.compilations or session.failure is None:
        guards = guard_count(session)
        yield "Ops in graphs", _coverage(session)
        guard_text = fmt.known(guards, lambda number: fmt.count(number, "guard"), "guards not measured")
        if session.graphs:
            kernels = fmt.some(len(session.kernels), "kernel")
            made = fmt.joined(", ", fmt.count(len(session.graphs), "graph"), guard_text, kernels)
            yield "Generated", made if verbose else f"{made}: see {_see(session, run)}"
    if loops := _unrolled(session):
        yield "Unrolled", fmt.one_line(loops, 300)
    if graphs := cuda_graphs(session):
        see = "session.cuda_graphs" if run is None else f"ctrace cudagraphs {run}".rstrip()
        yield "CUDA graphs", f"{graphs}; see {see}"
    if session.speed is not None:
        untimed = "; with the advice: not measured, trials build no kernels" if session.trials else ""
        yield "Speed", fmt.one_line(f"{speed(session.speed)}{untimed}", 300)
    if session.accuracy is not None:
        see = "" if run is None else " (ctrace accuracy shows more)" * bool(session.accuracy.culprits)
        yield "Numbers", fmt.one_line(f"{answer(session.accuracy, session.environment.cwd)}{see}", 400)
    if not session.environment.ctrace and not verbose and (session.records or session.not_shown):
        yield "Not shown", _not_shown(session)
    yield "Time", _time(session)


# Chosen: the loops with most passes; one line of the totals.
_LOOPS = 2
_FEW_PASSES, _MANY_PASSES = 4, 8
"""Loops that ran less often than the first are only in --json; below the second, unless they made half of the ops."""


def _unrolled(session: Session) -> str:
    """Say which Python loops made many ops of a graph; empty if none did."""
    ops = {each.id: each.ops for each in session.graphs}
    looped = [each for each in session.unrolled if each.times >= _FEW_PASSES]
    many = [each for each in looped if each.times >= _MANY_PASSES or 2 * each.ops >= ops.get(each.graph, 0)]
    shown = [
        f"{fmt.place(each.file, each.line, session.environment.cwd)}, {fmt.count(each.times, 'time')} "
        f"({each.ops} of {fmt.count(ops.get(each.graph, 0), 'op')} of graph {each.graph})"
        for each in many[:_LOOPS]
    ]
    return fmt.joined("; ", *shown, fmt.some(max(len(many) - _LOOPS, 0), "more loop"))


def _not_shown(session: Session) -> str:
    """Count the records that torch wrote and no screen shows."""
    kinds = len({each.name for each in session.records}) + len(session.not_shown)
    number = len(session.records) + sum(session.not_shown.values())
    return f"{fmt.count(number, 'record')} of {fmt.count(kinds, 'kind')}: see explain -v"


def _see(session: Session, run: str | None) -> str:
    """Name where the rest of a run is: in views, or, if it is not saved, in the Session."""
    if run is None:
        fields = [f"session.{name}" for name in ("graphs", "guards", "kernels", "fusions") if getattr(session, name)]
        return f"{', '.join(fields)}; or ctrace.text(session, verbose=True)"
    views = ["ctrace graphs", "guards"]
    if session.kernels:
        views.append("kernels")
    if session.fusions:
        views.append("fusion")
    return f"{', '.join(views)}; or explain -v{fmt.framed(', each with ', run)}"


def _coverage(session: Session) -> str:
    """Write the share of ops in graphs, also for each scenario unless all scenarios agree."""
    if why := why_no_coverage(session):
        return fmt.one_line(f"not measured: {why}", _WHY)
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
    beside = {"codegen": " in parallel"}
    phases = ", ".join(
        f"{name} {fmt.seconds(value)}{beside.get(name, '')}" for name, value in session.time.phases.items()
    )
    total = fmt.framed("", fmt.known(session.time.total, fmt.seconds, ""), " total")
    advice = fmt.seconds(sum(each.seconds for each in session.trials))
    tried = f"and {advice} for checking advice" if session.trials else ""
    return fmt.joined("; ", total, phases, tried)


def speed(found: Speed) -> str:
    """Say whether compiled is faster than eager, with the range of the ratio."""
    if found.ratio is None or found.low is None or found.high is None:
        return f"not measured, because {found.why or 'no round was measured'}"
    each = " a step" if found.part == "step" else ""
    both = f"{duration(found.compiled)} against {duration(found.eager)}{each}"
    rounds = fmt.count(found.rounds, "round")
    if found.verdict == "faster":
        span = f"{times(found.low)} to {times(found.high)} over {rounds}"
        return f"compiled is {times(found.ratio)} faster than eager ({both}; {span})"
    if found.verdict == "slower" and min(found.low, found.ratio, found.high) > 0:
        span = f"{times(1 / found.high)} to {times(1 / found.low)} over {rounds}"
        return f"compiled is {times(1 / found.ratio)} slower than eager ({both}; {span})"
    span = f"{times(found.low)} to {times(found.high)} over {rounds}"
    if found.verdict == "no_difference":
        return f"no measurable difference to eager ({both}; {span})"
    return f"undecided, the times vary too much ({both}; {span})"


def fake_lines(session: Session, *, has_steps: bool) -> Iterator[str]:
    """Say what the model lacks: values, layers; and what the run assumed instead of values.

    `has_steps`: whether the steps to do next say how a stopped call goes on.
    """
    model = session.model
    if model is None:
        return
    if model.fake:
        yield f"fake: {_size(model.parameters, model.parameter_bytes)}, no storage"
    if model.layers_cut:
        cut = fmt.count(model.layers_cut, "layer")
        yield f"layers cut: {cut} left out, {model.layers} kept of each list (--layers)"
    if session.stopped is not None and not has_steps:
        yield session.stopped.todo
    for each in session.assumed[:_MOST]:
        yield f"assumed: {_assumption(each, session.environment.cwd)}"
    if (left := len(session.assumed) - _MOST) > 0:
        yield f"assumed: {left} more, in --json"


def _size(parameters: int | None, size: int | None) -> str:
    if parameters is None or size is None:
        return "parameters not counted"
    return f"{_short(parameters)} parameters, {_decimal(size)}"


def _short(number: int) -> str:
    if number >= _BILLION:
        return f"{number / _BILLION:.2f} B"
    if number >= _MILLION:
        return f"{number / _MILLION:.1f} M"
    return f"{number:,}"


def _decimal(size: int) -> str:
    """Write bytes in decimal units, as the sizes of models are given."""
    if size >= _BILLION:
        return f"{size / _BILLION:.1f} GB"
    if size >= _MILLION:
        return f"{size / _MILLION:.1f} MB"
    return f"{size / 1000:.1f} kB"


def _assumption(each: Assumed, cwd: str) -> str:
    place = fmt.place(each.file, each.line, cwd)
    if each.origin is AssumedFrom.SYMBOL:
        return f"{place} `{each.expression}` has no value; torch carries the symbol {each.value}"
    origin = "small()" if each.origin is AssumedFrom.SMALL_RUN else "--assume"
    return f"{place} `{each.expression}` is {each.value} ({origin})"
