"""The answer of `ctrace fix` in words."""

import time
from collections import Counter

from ctrace.inspector.facts.diagnosis import RootCause
from ctrace.inspector.features.fix.repairs.repair_result import Fixes, How, ProofOutcome, chosen
from ctrace.inspector.runs.trial_runner import CALLS
from ctrace.reports import format as fmt
from ctrace.reports.wording.diagnosis_wording import effect


def first_words(fixes: Fixes, *, applies: bool = False) -> tuple[str, str]:
    """Return the verdict in one or two words, and its style; only files that are written next are repaired."""
    if fixes.interrupted:
        return "INTERRUPTED", "yellow"
    if not any(not each.expected for each in fixes.findings):
        return "NOTHING TO REPAIR", "green"
    if chosen(fixes) is not None:
        return ("REPAIRED" if applies else "REPAIRABLE"), "green"
    return ("UNSTABLE", "red") if fixes.unstable else ("NOT REPAIRED", "red")


def answer(fixes: Fixes, *, applies: bool = False) -> str:
    """Say how many findings have a proved repair, and what all repairs together save."""
    open_ = [each for each in fixes.findings if not each.expected]
    if not open_:
        return "Nothing on disk has changed." if fixes.interrupted else "There is no finding that needs a change."
    found = chosen(fixes)
    together = set(found.findings) if found is not None else set()
    repaired = sum(each.id in together for each in open_)
    left = [each for each in open_ if each.id not in together and fixes.is_fixed(each.id)]
    verb = "has" if 1 in (repaired, len(open_)) else "have"
    parts = [f"{repaired} of {fmt.count(len(open_), 'finding')} {verb} a proved repair"]
    if found is not None and not repaired:
        parts = ["No finding is repaired completely, but what is proved saves something"]
    if found is not None and (saved := saving(found.outcome)):
        parts[0] += f": {saved}"
    parts += _elsewhere(fixes, left, is_more=bool(repaired))
    way = _way(fixes)
    kept = "" if applies else " Nothing on disk has changed."
    sentence = f"{'; '.join(parts)}.{way}{kept}"
    return f"{sentence} {_spent(fixes)}".rstrip()


def _spent(fixes: Fixes) -> str:
    """Say that the time for the search was spent, and what was not done; empty: it was enough."""
    if not fixes.budget_spent:
        return ""
    parts = [f"{fmt.count(fixes.untried, 'repair')} not tried"] if fixes.untried else []
    what = "; ".join((*parts, *fixes.left_out)) or "no repair was tried"
    budget = f" of {fmt.seconds(fixes.budget)}" if fixes.budget is not None else ""
    return f"The budget{budget} was spent: {what}."


def _elsewhere(fixes: Fixes, left: list[RootCause], *, is_more: bool) -> list[str]:
    """Count the findings that the patch leaves and a proved repair removes, by why that repair is not in the patch."""
    numbers = Counter(_why_apart(fixes, each.id) for each in left)
    return [f"{f'{number} more' if is_more else fmt.count(number, 'finding')} {why}" for why, number in numbers.items()]


def _why_apart(fixes: Fixes, finding: str) -> str:
    repairs = [each for each in fixes.proved_for(finding) if finding in each.findings]
    if all(each.library for each in repairs):
        return "in a library"
    return (
        "if you answer a question"
        if any(each.question for each in repairs)
        else "by a repair that is not in this patch"
    )


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
    return effect(outcome.effect) if outcome.effect is not None else ""


def closing(outcome: ProofOutcome) -> str:
    """Say what closed the obligations of a proof; empty: there are none, or one is open."""
    if not outcome.obligations or not all(each.closed for each in outcome.obligations):
        return ""
    parts = []
    for how, words in ((How.READING, "by reading"), (How.TRYING, "by trying"), (How.QUESTION, "by your answer")):
        names = [each.name.replace("_", " ") for each in outcome.obligations if each.how is how]
        parts += [f"{words}: {', '.join(names)}"] if names else []
    return f"Closed {'; '.join(parts)}."


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
    return list(dict.fromkeys(name for each in asked for name in each.name.split("+")))


def next_commands(fixes: Fixes, target: str, *, options: str = "", applies: bool = False) -> list[tuple[str, str]]:
    """Return the commands to type next, each with its effect; `options` are those that led to these repairs."""
    again = f"ctrace fix {target}{options and f' {options}'}"
    found = chosen(fixes)
    commands = []
    asked = _asked(fixes)
    if asked:
        answers = " ".join(f"--accept {name}" for name in asked)
        commands.append((f"{again} {answers}", f"answer yes to the {'question' if len(asked) == 1 else 'questions'}"))
    if found is not None and found.files and not applies:
        commands.append((f"{again} --apply", "write this patch"))
        # A patch that removes no finding only saves graphs; what the questions are about removes some.
        if found.findings:
            commands.reverse()
    if any(each.library for each in fixes.repairs):
        commands.append((f"{again} --report", "print the text of an issue for the library"))
    return commands
