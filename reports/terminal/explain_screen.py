"""Screen of `ctrace explain`: the verdict first, then what to do, the causes, scenario results and totals.

Show what `ctrace explain -v` adds to the screen: the graphs and the generated kernels.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.diagnosis.explain_document import ExplainDocument, TimeOfRun
from ctrace.inspector.facts.compile_time import Speed
from ctrace.inspector.facts.diagnosis import Diagnosis, Finding, RootCause
from ctrace.inspector.facts.fake_facts import Assumed, AssumedFrom
from ctrace.inspector.facts.scenario_facts import Outcome, ScenarioKind
from ctrace.inspector.findings.graphs.cuts import Cut, cut_off
from ctrace.inspector.findings.scenario_view import Provoked
from ctrace.inspector.findings.target_gpu_view import TargetDevice
from ctrace.inspector.grouping import grouped
from ctrace.inspector.log.dispatch import RECORDS
from ctrace.inspector.session.summary import fast_sentence, other_problems
from ctrace.reports import format as fmt
from ctrace.reports.format import duration, times
from ctrace.reports.terminal.fusion_screen import fusion_lines, fusion_title
from ctrace.reports.terminal.kernel_tables import most_moving
from ctrace.reports.terminal.node_screen import places
from ctrace.reports.terminal.target_gpu_screen import questions_section
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
from ctrace.reports.wording.kernels_wording import kernel_facts, languages_text

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


def causes(document: ExplainDocument) -> Iterator[RenderableType]:
    """Show the costliest causes, each with its line, why, and how many findings it explains."""
    found = document.diagnosis
    # The headline states a failure, and expected causes have a list of their own below.
    shown = [each for each in found.causes if not each.expected and not is_failure_alone(each)]
    if shown:
        yield section(f"Cause{'s, costliest first' if len(shown) > 1 else ''}")
        for number, each in enumerate(shown[:MOST_CAUSES], 1):
            letters = (
                _REASON_LETTERS[min(len(shown), MOST_CAUSES)]
                if number <= _EXPLAINED or len(shown) <= _EXPLAINED + 1
                else 0
            )
            yield item(_cause(number if len(shown) > 1 else 0, each, document, letters))
        yield from more(len(shown), "cause", "ctrace explain --json", most=MOST_CAUSES, before=" ")
    if expected := [each for each in found.causes if each.expected]:
        # Advice may be about an expected cause, too: "nothing to change" would contradict it.
        advised = {id_ for advice in found.advice for id_ in advice.causes}
        yield from _expected(expected, has_advice=any(each.id in advised for each in expected))


def _cause(number: int, each: RootCause, document: ExplainDocument, letters: int) -> RenderableType:
    """Show a cause, with its reason in at most `letters` letters; 0: without the reason."""
    cwd = document.cwd
    mark = fmt.framed("", number or None, ". ")
    head, indent = Text.assemble((mark, "bold"), (fmt.one_line(each.title, 150), "bold")), len(mark)
    where = fmt.short_place(each.file, each.line, cwd, _PLACE) if each.file else ""
    function = fmt.framed(" in ", fmt.one_line(each.function or "", 40))
    lines: list[RenderableType] = [_hanging(head, indent)]
    place = f"{where}{function}{_also_from(each, document)}".strip()
    facts = fmt.joined(" · ", place, symptoms(each), cost(each))
    lines.append(indented(Text(fmt.one_line(facts, 300), style="dim"), indent))
    if letters and (inside := _inside(each, document)):
        lines.append(indented(Text(fmt.one_line(inside, 300), style="dim"), indent))
    why = fmt.joined(". ", _compared(each, document), each.why)
    if why and letters:
        lines.append(indented(Text(_with_torchs_words(why, letters)), indent))
    if each.detail and letters:
        lines.append(indented(Text(fmt.one_line(each.detail, _DETAIL), style="dim"), indent))
    return Group(*lines)


def _also_from(each: RootCause, document: ExplainDocument) -> str:
    """Name the other lines of the user that lead to a break that several of them share, such as one in a library."""
    breaks = (document.breaks[symptom.index] for symptom in each.symptoms if symptom.what is Finding.BREAK)
    shared = (at.user_lines for at in breaks if len(at.user_lines) > 1)
    places = dict.fromkeys((line.at.file, line.at.line) for lines in shared for line in lines)
    others = (place for place in places if place != (each.file, each.line))
    shown = [fmt.short_place(file, line, document.cwd, _PLACE) for file, line in others]
    return fmt.framed(", also from ", fmt.listed(shown, 3))


def _inside(each: RootCause, document: ExplainDocument) -> str:
    """Say which lines of libraries a cause's breaks are at; empty if all are at the user's own lines."""
    breaks = [document.breaks[symptom.index] for symptom in each.symptoms if symptom.what is Finding.BREAK]
    places = [fmt.short_place(at.inside.file, at.inside.line, document.cwd, _PLACE) for at in breaks if at.inside]
    return fmt.framed("inside: ", fmt.listed(dict.fromkeys(places), 3))


def _compared(each: RootCause, document: ExplainDocument) -> str:
    """Say how results differ, and with what ctrace compared them; empty for any other cause than a wrong result."""
    dangers = [document.dangers[symptom.index] for symptom in each.symptoms if symptom.what is Finding.DANGER]
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
    # Half a sentence of ours would say less than torch's words alone.
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
        # `symptoms` counts those of one cause, so the causes of a title become one.
        counted = replace(same[0], symptoms=tuple(symptom for each in same for symptom in each.symptoms))
        yield item(Text(fmt.one_line(f"{title} ({symptoms(counted)})", 150), style="dim"))
    if len(titles) > 2:
        views = "ctrace recompiles" if kinds == {Finding.RECOMPILE} else "ctrace breaks, recompiles"
        yield Text(f" and {len(titles) - 2} more: see {views}", style="dim")


def gradients_note(document: ExplainDocument) -> str:
    """Say that a model in eval mode ran with gradients on; empty otherwise."""
    # ctrace chooses the grad mode of provoked calls, so theirs is no mistake of the user.
    chosen = [each.of for each in document.scenarios if each.of.kind is not ScenarioKind.PROVOKED]
    if any(each.unused_grad and each.training is False for each in chosen):
        return "called in eval mode with gradients on (torch.no_grad() turns them off)"
    return ""


_GRAPH_NUMBERS = 26
"""How many columns the table of graphs needs for all but the function."""


def generated(document: ExplainDocument, width: int) -> Iterator[RenderableType]:
    """Show graphs and where they end, attention that was not fused, and kernels."""
    if document.graphs:
        yield section("Graphs")
        yield _graphs(document, width)
        yield from _cuts(document)
        yield from _attention(document)
    if document.kernels:
        totals = document.totals
        yield section(f"Kernels: {languages_text(totals)}{fusion_title(totals.fusion)}")
        yield from fusion_lines(totals.fusion, totals.graphs)
        yield from (item(Text(line, style="dim")) for line in kernel_facts(document.setup.target_gpu, totals))
        yield most_moving(document.kernels, width)
    if document.user_kernels:
        yield item(Text(fmt.one_line(f"{document.user_kernels}: see ctrace kernels", 300), style="dim"))
    for note in document.notes_on_user_kernels:
        yield hanging(note)
    if document.totals.left_open:
        yield section("Decided on the device, by autotuning")
        yield item(Text(fmt.one_line(f"{document.totals.left_open}: see ctrace kernels --all", 400)))
    yield from questions_section(document.asked)


def _graphs(document: ExplainDocument, width: int) -> RenderableType:
    shown = document.graphs[:MOST]
    fates = {each.of.id: each.fate for each in shown}
    rows = table("graph", "function", "ops", "guards", *(["what happened"] if any(fates.values()) else []))
    by_id = {compilation.id: compilation for compilation in document.compilations}
    for graph in (each.of for each in shown):
        compilation = by_id.get(graph.id)
        where = f"  {fmt.file_name(graph.file)}:{graph.line}"
        function = Text.assemble(fmt.one_line(graph.function), (where, "dim"))
        function.truncate(width - _GRAPH_NUMBERS - max(map(len, fates.values())), overflow="ellipsis")
        guards = fmt.known(compilation and compilation.guards)
        rows.add_row(graph.id, function, str(graph.ops), guards, fates[graph.id])
    return Group(rows, *more(len(document.graphs), "graph"))


def _cuts(document: ExplainDocument) -> Iterator[RenderableType]:
    found = [cut for graph in document.graphs for cut in graph.cut_by]
    for cut in found[:MOST]:
        yield item(Text(fmt.one_line(cut_off(document.breaks, cut, _breaks_of(document, cut)), 300), style="dim"))
    yield from more(len(found), "cut")


def _breaks_of(document: ExplainDocument, cut: Cut) -> list[str]:
    return [
        f"{fmt.place(at.file, at.line, document.cwd)} {fmt.one_line(at.expression or at.source, 60)}".strip()
        for at in (document.breaks[index] for index in cut.breaks)
    ]


def _attention(document: ExplainDocument) -> Iterator[RenderableType]:
    found = document.slow_attention
    for each in found[:MOST]:
        where = f"{fmt.listed(each.graphs, 3)}, {places(each.lines, document.cwd)}"
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


def not_compared_lines(document: ExplainDocument) -> Iterator[RenderableType]:
    """Say which scenarios were not compared with eager, and why."""
    reasons = document.not_compared
    for why, names in list(reasons.items())[:_REASONS]:
        shown = fmt.listed((fmt.one_line(name, 60) for name in names), 4)
        yield item(Text(f"\nNot compared with eager in {shown}: {fmt.one_line(why, 200)}.", style="yellow"))
    yield from more(len(reasons), "reason", most=_REASONS)
    explained = list(rounded(document))
    for sentence in explained[:_REASONS]:
        yield item(Text(f"\n{fmt.one_line(sentence, 240)}", style="dim"))
    yield from more(len(explained), "comparison", most=_REASONS)


def provoked_findings(tried: Sequence[Provoked]) -> Iterator[RenderableType]:
    """Show each provoked scenario and its outcome, one line each."""
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
    document: ExplainDocument, width: int, *, verbose: bool = False, run: str | None = ""
) -> Iterator[RenderableType]:
    """Show a run: verdict, what to do, causes, and the rest in a few lines; with `verbose`, graphs and kernels too.

    `run` is what other commands take for the run: nothing for the last one; None: it is not saved.
    """
    found, environment = document.diagnosis, document.run.environment
    yield headline(document.answer)
    for sentence in document.violations:
        yield item(Text(fmt.one_line(sentence, 900), style="red"))
    if setup := " · ".join(part for part in _setup(document) if part):
        yield Text(fmt.one_line(setup, 400), style="dim")
    if environment.fast:
        yield Text(fast_sentence(), style="yellow")
    yield from (Text(fmt.one_line(line, 300), style="yellow") for line in fake_lines(document))
    yield from compile_only_note(document.caches)
    yield from what_to_do(found, whole=verbose) if found.advice else _healthy(document, run)
    yield from causes(document)
    yield from _beside_causes(document)
    if verbose:
        yield from generated(document, width)
    yield from _endings(document, run, verbose=verbose)


def _setup(document: ExplainDocument) -> Iterator[str]:
    environment = document.run.environment
    if environment.torch:
        yield f"torch {environment.torch}"
    elif document.compilations:
        yield "torch unknown"
    if environment.python:
        yield f"python {environment.python}"
    yield environment.device
    if environment.backend:
        yield f"backend {environment.backend}"
    # Other backends leave no kernels in the log that could be built.
    if "inductor" in environment.backend:
        yield "kernels built" if environment.built else _generated(document.setup.target_gpu)
    if len(document.scenarios) > 1:
        yield fmt.count(len(document.scenarios), "scenario")
    yield gradients_note(document)


def _generated(device: TargetDevice | None) -> str:
    if device:
        return f"kernels generated for {device.gpu.target}, not run"
    return "kernels generated, not built"


def _healthy(document: ExplainDocument, run: str | None) -> Iterator[RenderableType]:
    """Show the next steps of a run without advice; in Python, options are arguments."""
    # None: the Session is in Python, where an option is an argument of `ctrace.explain`.
    steps = [step.replace("--build", "build=True") if run is None else step for step in document.next_steps]
    if steps and is_nothing(steps[0]):
        yield Text("\n" + "\n".join(map(fmt.one_line, steps)))
    elif steps:
        yield section("What to do")
        yield from (item(Text(fmt.one_line(step))) for step in steps)


def _beside_causes(document: ExplainDocument) -> Iterator[RenderableType]:
    """Show what is not part of a cause: functions without a graph, the limit, comparisons, provoked scenarios."""
    if silent := document.never_compiled:
        names = fmt.listed((f"{each.name} ({fmt.place(each.file, each.line, document.cwd)})" for each in silent), 4)
        yield item(Text(fmt.plain(f"\nNot compiled, Dynamo captured no graph: {names}"), style="bold red"))
    if document.limit.hit:
        full = [use.function for use in document.limit.functions if use.refused]
        which = fmt.framed(" by ", fmt.listed(full, 3))
        yield item(Text(f"\nRecompile limit hit{which}: calls that match no graph run eagerly.", style="red"))
    if later := later_calls(document):
        yield item(Text(f"\n{later}", style="red"))
    yield from not_compared_lines(document)
    yield from provoked_findings(document.provoked)


def _endings(document: ExplainDocument, run: str | None, *, verbose: bool) -> Iterator[RenderableType]:
    yield Text()
    grid = Table.grid(padding=(0, 2))
    for name, value in _facts(document, run, verbose=verbose):
        grid.add_row(Text(name, style="bold"), Text(value))
    yield grid
    if problems := other_problems(document.run):
        yield section("Problems")
        most, letters = (MOST, 300) if verbose else (_PROBLEMS, 150)
        for problem in problems[:most]:
            where = fmt.framed("trace.log:", problem.line, ": ")
            yield item(Text(f"! {where}{fmt.one_line(problem.what, letters)}", style="yellow"))
        yield from more(len(problems), "problem", most=most)
    if verbose and document.records:
        counted = Counter(each.name for each in document.records)
        yield section("Other records of torch")
        for name, number in counted.most_common(MOST):
            yield item(Text(fmt.one_line(f"{name} ({number}): {RECORDS.get(name, '')}", 200)))
        yield from more(len(counted), "kind", most=MOST)
        yield item(Text("--json has their texts.", style="dim"))
    if verbose and document.not_shown:
        yield section("Records that no view shows")
        for name, number in Counter(document.not_shown).most_common(MOST):
            yield item(Text(fmt.one_line(f"{name} ({number})", 200)))
        if len(document.not_shown) > MOST:
            yield Text(f"  {len(document.not_shown)} kinds in all: see not_shown in --json", style="dim")
    if document.unknown:
        names = fmt.listed((f"{fmt.one_line(name, 60)} ({number})" for name, number in document.unknown.items()), 4)
        yield Text(f"Log entries unknown to this version: {names}", style="dim")


def _facts(document: ExplainDocument, run: str | None, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield the totals, with the commands that show more."""
    totals = document.totals
    # A run that failed before torch compiled anything has no ops to count.
    if document.compilations or document.answer.failure is None:
        yield "Ops in graphs", _coverage(document)
        guard_text = fmt.known(document.guards, lambda number: fmt.count(number, "guard"), "guards not measured")
        if document.graphs:
            kernels = fmt.some(sum(totals.languages.values()), "kernel")
            made = fmt.joined(", ", fmt.count(totals.graphs, "graph"), guard_text, kernels)
            yield "Generated", made if verbose else f"{made}: see {_see(document.contents, run)}"
    if loops := _unrolled(document):
        yield "Unrolled", fmt.one_line(loops, 300)
    if document.cuda_graphs:
        see = "session.cuda_graphs" if run is None else f"ctrace cudagraphs {run}".rstrip()
        yield "CUDA graphs", f"{document.cuda_graphs}; see {see}"
    if document.speed is not None:
        tried = document.time.advice is not None
        # With tried advice above it, the speed could be taken for that with the advice.
        untimed = fmt.when(tried, "; with the advice: not measured, trials build no kernels")
        yield "Speed", fmt.one_line(f"{speed(document.speed)}{untimed}", 300)
    if document.accuracy is not None:
        see = "" if run is None else " (ctrace accuracy shows more)" * bool(document.accuracy.culprits)
        yield "Numbers", fmt.one_line(f"{answer(document.accuracy, document.cwd)}{see}", 400)
    if not document.run.environment.ctrace and not verbose and (document.records or document.not_shown):
        yield "Not shown", _not_shown(document)
    yield "Time", _time(document.time)


# Chosen: the loops with most passes; one line of the totals.
_LOOPS = 2
_FEW_PASSES, _MANY_PASSES = 4, 8
"""Loops that ran less often than the first are only in --json; below the second, unless they made half of the ops."""


def _unrolled(document: ExplainDocument) -> str:
    """Say which Python loops made many ops of a graph; empty if none did."""
    ops = {each.of.id: each.of.ops for each in document.graphs}
    looped = [each for each in document.unrolled if each.times >= _FEW_PASSES]
    many = [each for each in looped if each.times >= _MANY_PASSES or 2 * each.ops >= ops.get(each.graph, 0)]
    shown = [
        f"{fmt.place(each.file, each.line, document.cwd)}, {fmt.count(each.times, 'time')} "
        f"({each.ops} of {fmt.count(ops.get(each.graph, 0), 'op')} of graph {each.graph})"
        for each in many[:_LOOPS]
    ]
    return fmt.joined("; ", *shown, fmt.some(max(len(many) - _LOOPS, 0), "more loop"))


def _not_shown(document: ExplainDocument) -> str:
    """Count the records that torch wrote and no screen shows."""
    kinds = len({each.name for each in document.records}) + len(document.not_shown)
    number = len(document.records) + sum(document.not_shown.values())
    return f"{fmt.count(number, 'record')} of {fmt.count(kinds, 'kind')}: see explain -v"


def _see(contents: Sequence[str], run: str | None) -> str:
    """Name where the rest of a run is: in views, or, if it is not saved, in the Session."""
    if run is None:
        return f"{', '.join(f'session.{name}' for name in contents)}; or ctrace.text(session, verbose=True)"
    views = ["ctrace graphs", "guards"]
    if "kernels" in contents:
        views.append("kernels")
    if "fusions" in contents:
        views.append("fusion")
    return f"{', '.join(views)}; or explain -v{fmt.framed(', each with ', run)}"


def _coverage(document: ExplainDocument) -> str:
    """Write the share of ops in graphs, also for each scenario unless all scenarios agree."""
    if document.why_no_coverage:
        return fmt.one_line(f"not measured: {document.why_no_coverage}", _WHY)
    whole = fmt.share(document.coverage.compiled, document.coverage.ops)
    coverages = [each.coverage for each in document.scenarios]
    shares = {each.of.name: fmt.share(each.coverage.compiled, each.coverage.ops) for each in document.scenarios}
    all_of_it = all(each.ops is not None and each.compiled == each.ops for each in coverages)
    # As texts: shares that round to the same percentage tell a reader nothing new.
    if all_of_it or len(set(shares.values())) < 2:
        return whole
    return f"{whole}; {fmt.listed((f'{fmt.one_line(name, 30)} {share}' for name, share in shares.items()), 6)}"


def _time(time: TimeOfRun) -> str:
    if time.of.total is None and not time.of.phases:
        return "not measured"
    # Phases add up to the total but for this one, which runs in other processes.
    beside = {"codegen": " in parallel"}
    phases = ", ".join(f"{name} {fmt.seconds(value)}{beside.get(name, '')}" for name, value in time.of.phases.items())
    total = fmt.framed("", fmt.known(time.of.total, fmt.seconds, ""), " total")
    tried = fmt.framed("and ", fmt.known(time.advice, fmt.seconds, ""), " for checking advice")
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
    # A damaged log may have zeros, and the range is inverted here.
    if found.verdict == "slower" and min(found.low, found.ratio, found.high) > 0:
        span = f"{times(1 / found.high)} to {times(1 / found.low)} over {rounds}"
        return f"compiled is {times(1 / found.ratio)} slower than eager ({both}; {span})"
    span = f"{times(found.low)} to {times(found.high)} over {rounds}"
    if found.verdict == "no_difference":
        return f"no measurable difference to eager ({both}; {span})"
    return f"undecided, the times vary too much ({both}; {span})"


def fake_lines(document: ExplainDocument) -> Iterator[str]:
    """Say what the model lacks: values, layers; and what the run assumed instead of values."""
    model = document.model
    if model is None:
        return
    if model.fake:
        yield f"fake: {_size(model.parameters, model.parameter_bytes)}, no storage"
    if model.layers_cut:
        cut = fmt.count(model.layers_cut, "layer")
        yield f"layers cut: {cut} left out, {model.layers} kept of each list (--layers)"
    # Without advice, the steps to do next say how a stopped call goes on.
    if document.stopped is not None and document.diagnosis.advice:
        yield document.stopped.todo
    for each in document.assumed[:_MOST]:
        yield f"assumed: {_assumption(each, document.cwd)}"
    if (left := len(document.assumed) - _MOST) > 0:
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
