"""Screen of `ctrace fix`: what is proved and what it saves, the patch, then what is not proved, and why."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.diagnosis.sentences import advice_lines
from ctrace.inspector.facts.diagnosis import Diagnosis, Effect, RootCause, Suggestion, Symptom
from ctrace.inspector.features.fix.repairs.repair_result import Combined, Fixes, How, ProofOutcome, TriedRepair, chosen
from ctrace.inspector.knowledge.counting import named
from ctrace.inspector.runs.trial_runner import CALLS
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import diff_style, indented, item, more, section
from ctrace.reports.wording.diagnosis_wording import checked, effect

# Chosen: about one page; `--diff` prints all of it.
_PATCH_LINES = 60
# Chosen, as are the next two: one page for what is proved, with whole sentences.
_MOST = 6
_SUMMARY = 300
_WHY = 300
_LONGEST = 600
"""Advice has its trial behind it in the same line."""


def fix_screen(
    fixes: Fixes, _width: int, *, target: str, options: str = "", applies: bool = False
) -> Iterator[RenderableType]:
    """Show the answer, the repairs that are proved together, and the others.

    With `applies`, the caller writes the files next.
    """
    session = fixes.session
    name = fmt.one(session.target.path or session.target.name or "this run")
    word, style = first_words(fixes, applies=applies)
    yield Text.assemble((word, style), "  ", (name, "bold"), "\n", fmt.one_line(answer(fixes, applies=applies), 500))
    if fixes.proved_at is not None:
        yield Text(earlier(fixes.proved_at), style="dim")
    if fixes.unstable:
        yield Text(f"Nothing can be proved: {fmt.one_line(fixes.unstable, 400)}", style="yellow")
    found = fixes.combined
    if found is not None:
        yield from _combined(found, fixes)
    yield from _questions(fixes)
    yield from _others(fixes)
    yield from _unproved(fixes)
    yield from _untouched(fixes)
    for problem in fixes.problems[:_MOST]:
        yield Text(f"! {fmt.one_line(problem, 300)}", style="yellow")
    yield from more(len(fixes.problems), "problem", most=_MOST)
    commands = next_commands(fixes, fmt.one_line(target), options=fmt.one_line(options), applies=applies)
    if commands:
        yield section("Next")
        for command, does in commands:
            yield item(Text.assemble((command, "bold"), f"   {does}"))


def _combined(found: Combined, fixes: Fixes) -> Iterator[RenderableType]:
    proved = found.outcome.proved
    yield section("Proved repairs" if proved else "Proved one by one, but not together")
    if not proved:
        yield item(Text(fmt.one_line(f"unproved, because {found.outcome.why}", _WHY), style="yellow"))
    # Each step is proved on top of those before it, so that its own effect is the difference to the last one.
    before = found.outcome.effect.before if found.outcome.effect is not None else None
    for number, step in enumerate(found.steps, 1):
        head = fmt.when(len(found.steps) > 1, f"{number}. ")
        lines: list[RenderableType] = [Text(f"{head}{fmt.one_line(step.summary, _SUMMARY)}", style="green")]
        saved = effect(Effect(before, step.counts)) if before is not None else ""
        # Two calls may show no difference where ten calls recompile less often.
        if not saved and len(found.steps) == 1:
            saved = saving(found.outcome)
        detail = fmt.joined(": ", step.name, saved)
        lines.append(indented(Text(fmt.one_line(detail, 200), style="dim"), len(head)))
        before = step.counts
        yield item(Group(*lines))
    if found.outcome.note:
        passed = sum(each.passed for each in found.outcome.checks)
        note = f"{passed} of {len(found.outcome.checks)} checks passed; {found.outcome.note}"
        yield item(Text(fmt.one_line(note, 200), style="dim"))
    if closed := closing(found.outcome):
        yield item(Text(closed, style="dim"))
    for how in found.how:
        yield item(Text(f"Write: {fmt.one_line(how, 300)}"))
    if found.patch:
        yield section("Patch")
        yield from _patch(found.patch)


def _patch(patch: str) -> Iterator[RenderableType]:
    lines = patch.splitlines()
    for line in lines[:_PATCH_LINES]:
        yield item(Text(fmt.plain(line), style=diff_style(line), no_wrap=True, overflow="ellipsis"))
    yield from more(len(lines), "line", "--diff", most=_PATCH_LINES, before=" ")


def _questions(fixes: Fixes) -> Iterator[RenderableType]:
    """Show the repairs that only the author can decide on."""
    asked = [each for each in fixes.repairs if each.proved and each.question]
    if not asked:
        return
    yield section("Your choice")
    for each in asked[:_MOST]:
        yield item(Text(fmt.one_line(f"{_place(each, fixes)}{each.summary}", _SUMMARY), style="green"))
        yield _below(f"{each.question} If yes: --accept {each.name}")
        if saved := saving(each.outcome):
            yield _below(f"{each.name}: {saved}", "dim")
    yield from more(len(asked), "repair", most=_MOST)


def _others(fixes: Fixes) -> Iterator[RenderableType]:
    """Show proved repairs that are not part of the combination."""
    found = fixes.combined
    # A name is that of a kind of repair: only with its summary does it stand for one edit.
    taken = {(step.name, step.summary) for step in found.steps} if found is not None else set()
    others = [each for each in fixes.repairs if each.is_free and (each.name, each.summary) not in taken]
    if not others:
        return
    yield section("Also proved" if taken else "Proved")
    for each in others[:_MOST]:
        yield item(Text(fmt.one_line(f"{_place(each, fixes)}{each.summary}", _SUMMARY), style="green"))
        saved = saving(each.outcome)
        yield _below(fmt.joined(": ", each.name, saved), "dim")
        if each.library:
            yield _below(f"in {each.library}: not changed; --report prints the text of an issue")
        if each.how:
            yield _below(f"Write: {each.how}")
    yield from more(len(others), "repair", most=_MOST)


def _unproved(fixes: Fixes) -> Iterator[RenderableType]:
    """Show, for each finding without a proved repair, what was tried and why it is unproved."""
    open_ = [each for each in fixes.findings if not each.expected and not fixes.proved_for(each.id)]
    tried = [(cause, mine) for cause in open_ if (mine := [each for each in fixes.repairs if each.finding == cause.id])]
    if not tried:
        return
    advice = advice_lines(Diagnosis(fixes.findings, fixes.advice))
    yield section("Unproved")
    for cause, mine in tried[:_MOST]:
        yield item(Text(fmt.one_line(_titled(cause, fixes), 200), style="bold"))
        advised = _advised(cause, advice)
        yield from _arrow(advised)
        for each in mine[:3]:
            # Advice and a repair may be the same edit: its words stand there once.
            is_said = each.summary.rstrip(".").lower() in advised.lower()
            yield _below(each.name if is_said else f"{each.name}: {each.summary}")
            yield _below(f"  unproved, because {each.outcome.why}", "yellow")
        yield from more(len(mine), "candidate", most=3, before="   ")
    yield from more(len(tried), "finding", most=_MOST)


def _untouched(fixes: Fixes) -> Iterator[RenderableType]:
    # A repair is made for one finding, and may remove others with it.
    tried = {id_ for each in fixes.repairs for id_ in (each.finding, *each.findings)}
    untouched = [each for each in fixes.findings if not each.expected and each.id not in tried]
    not_asked = [each for each in untouched if each.id in fixes.not_asked]
    left = [each for each in untouched if each.id not in fixes.not_asked]
    advice = advice_lines(Diagnosis(fixes.findings, fixes.advice))
    advised: dict[str, Suggestion] = {}
    for suggestion in filter(lambda each: each.checked, fixes.advice):
        for id_ in suggestion.causes:
            advised.setdefault(id_, suggestion)
    known = [each for each in left if each.id in advised]
    left = [each for each in left if each.id not in advised]
    if known:
        yield section("No patch that can be proved; explain has advice")
        for each in known[:_MOST]:
            yield item(Text(fmt.one_line(_titled(each, fixes), 200), style="bold"))
            yield _below(advised[each.id].text)
            yield _below(checked(advised[each.id]), "dim")
        yield from more(len(known), "finding", most=_MOST)
    for head, causes in ((_why_left(fixes), left), ("Not tried: --only and --finding leave them out", not_asked)):
        if causes:
            yield section(head)
            for each in causes[:_MOST]:
                yield item(Text(fmt.one_line(_titled(each, fixes), 200)))
                yield from _arrow(_advised(each, advice))
            yield from more(len(causes), "finding", most=_MOST)


def _advised(cause: RootCause, advice: Mapping[Symptom, str]) -> str:
    """Return what `explain` advises on a cause; empty: nothing."""
    return next((advice[each] for each in cause.symptoms if each in advice), "")


def _arrow(advised: str) -> Iterator[RenderableType]:
    if advised:
        yield _below(f"→ {advised}", "green", most=_LONGEST)


def _titled(cause: RootCause, fixes: Fixes) -> str:
    where = fmt.place(cause.file, cause.line, fixes.session.environment.cwd)
    return f"{cause.title}{fmt.framed(' (', where, ')')}"


def _place(each: TriedRepair, fixes: Fixes) -> str:
    cause = next((cause for cause in fixes.findings if cause.id == each.finding), None)
    if cause is None or not cause.file or each.summary.startswith(fmt.file_name(cause.file)):
        return ""
    return f"{fmt.place(cause.file, cause.line, fixes.session.environment.cwd)}: "


def _below(text: str, style: str = "", *, most: int = _WHY) -> RenderableType:
    return indented(Text(fmt.one_line(text, most), style=style), 3)


def first_words(fixes: Fixes, *, applies: bool = False) -> tuple[str, str]:
    """Return the verdict in one or two words, and its style; only files that are written next are repaired."""
    # Before the rest: what was not reached yet is not known to be nothing.
    if fixes.interrupted:
        return "INTERRUPTED", "yellow"
    if not any(not each.expected for each in fixes.findings):
        return "NOTHING TO REPAIR", "green"
    if chosen(fixes) is not None:
        return ("REPAIRED" if applies else "REPAIRABLE"), "green"
    if fixes.unstable:
        return ("UNSTABLE", "red")
    return ("NOT REPAIRED", "red")


def answer(fixes: Fixes, *, applies: bool = False) -> str:
    """Say how many findings have a proved repair, and what all repairs together save."""
    open_ = [each for each in fixes.findings if not each.expected]
    if not open_:
        if fixes.interrupted:
            return "Nothing on disk has changed."
        return "There is no finding that needs a change."
    found = chosen(fixes)
    together = set(found.findings) if found is not None else set()
    repaired = sum(each.id in together for each in open_)
    left = [each for each in open_ if each.id not in together and fixes.is_fixed(each.id)]
    # "1 of 3 findings has" and "0 of 1 finding has".
    verb = "has" if 1 in (repaired, len(open_)) else "have"
    parts = [f"{repaired} of {fmt.count(len(open_), 'finding')} {verb} a proved repair"]
    # A finding may have several breaks, of which a repair removes some.
    if found is not None and not repaired:
        parts = ["No finding is repaired completely, but what is proved saves something"]
    if found is not None and (saved := saving(found.outcome)):
        parts[0] += f": {saved}"
    parts += _elsewhere(fixes, left, is_more=bool(repaired))
    way = _way(fixes)
    kept = fmt.when(not applies, " Nothing on disk has changed.")
    sentence = f"{'; '.join(parts)}.{way}{kept}"
    return f"{sentence} {_spent(fixes)}".rstrip()


def _spent(fixes: Fixes) -> str:
    """Say that the time for the search was spent, and what was not done; empty: it was enough."""
    if not fixes.budget_spent:
        return ""
    untried = fmt.framed("", fmt.some(fixes.untried, "repair"), " not tried")
    what = fmt.joined("; ", untried, *fixes.left_out) or "no repair was tried"
    budget = fmt.framed(" of ", fmt.known(fixes.budget, fmt.seconds, ""))
    return f"The budget{budget} was spent: {what}."


def _why_left(fixes: Fixes) -> str:
    """Return the heading of the findings without a proved repair."""
    if fixes.unstable or fixes.interrupted:
        return "Not tried"
    if fixes.budget_spent:
        return "Not tried: no time was left"
    return "No repair known"


def _elsewhere(fixes: Fixes, left: list[RootCause], *, is_more: bool) -> list[str]:
    """Count the findings that the patch leaves and a proved repair removes, by why that repair is not in the patch."""
    numbers = Counter(_why_apart(fixes, each.id) for each in left)
    if is_more:
        return [f"{number} more {why}" for why, number in numbers.items()]
    return [f"{fmt.count(number, 'finding')} {why}" for why, number in numbers.items()]


def _why_apart(fixes: Fixes, finding: str) -> str:
    repairs = [each for each in fixes.proved_for(finding) if finding in each.findings]
    # The library comes first: no answer to a question would change its files.
    if all(each.library for each in repairs):
        return "in a library"
    if any(each.question for each in repairs):
        return "if you answer a question"
    return "by a repair that is not in this patch"


def earlier(proved_at: float) -> str:
    """Say that an earlier proof is used."""
    then, now = time.localtime(proved_at), time.localtime()
    is_today = then[:3] == now[:3]
    at = time.strftime("%H:%M" if is_today else "%d %b %H:%M", then)
    return f"Uses the proof of {at}: nothing that it depends on has changed since."


def saving(outcome: ProofOutcome) -> str:
    """Say what a repair saves; empty: nothing is known."""
    if outcome.later is not None:
        return f"recompilations in {CALLS} calls {outcome.later[0]} → {outcome.later[1]}"
    if outcome.effect is not None:
        return effect(outcome.effect)
    return ""


def closing(outcome: ProofOutcome) -> str:
    """Say what closed the obligations of a proof; empty: there are none, or one is open."""
    if not outcome.obligations or not all(each.closed for each in outcome.obligations):
        return ""
    parts = []
    for how, words in ((How.READING, "by reading"), (How.TRYING, "by trying"), (How.QUESTION, "by your answer")):
        names = [each.name.replace("_", " ") for each in outcome.obligations if each.how is how]
        parts.append(fmt.framed(f"{words}: ", ", ".join(names)))
    return f"Closed {fmt.joined('; ', *parts)}."


def _way(fixes: Fixes) -> str:
    found = chosen(fixes)
    if found is None or len(found.steps) < 2 or found.outcome.effect is None:
        return ""
    graphs = [found.outcome.effect.before.graphs, *(step.counts.graphs for step in found.steps)]
    return f" Graphs: {' → '.join(map(str, graphs))}."


def _asked(fixes: Fixes) -> list[str]:
    """Return the names of proved repairs with a question about a finding that the patch does not remove."""
    found = chosen(fixes)
    fixed = set(found.findings) if found is not None else set()
    asked = [each for each in fixes.repairs if each.proved and each.question and not {*each.findings} <= fixed]
    # Repairs that are tried together have both names, `a+b` (`fixing.py`: TOGETHER).
    return list(dict.fromkeys(name for each in asked for name in each.name.split("+")))


def next_commands(fixes: Fixes, target: str, *, options: str = "", applies: bool = False) -> list[tuple[str, str]]:
    """Return the commands to type next, each with its effect; `options` are those that led to these repairs."""
    again = f"ctrace fix {target}{options and f' {options}'}"
    found = chosen(fixes)
    commands = []
    asked = _asked(fixes)
    if asked:
        answers = " ".join(f"--accept {name}" for name in asked)
        commands.append(
            (f"{again} {answers}", f"answer yes to the {named(len(asked), 'question')}, and show the patch")
        )
    if found is not None and found.files and not applies:
        commands.append((f"{again} --apply", "write this patch"))
        # A patch that removes no finding only saves graphs; what the questions are about removes some.
        if found.findings:
            commands.reverse()
    if any(each.library for each in fixes.repairs):
        commands.append((f"{again} --report", "print the text of an issue for the library"))
    return commands
