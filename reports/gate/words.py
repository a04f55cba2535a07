"""What a check says in words that all its reports share: the verdict, the sentence below it, costs and numbers."""

from collections.abc import Iterable, Mapping

from ctrace.inspector.errors import Exit
from ctrace.inspector.gate.model import SiteKind
from ctrace.inspector.gate.policy.model import Count
from ctrace.inspector.gate.verdict import Checked, Finding, FindingKind, Outcome
from ctrace.reports import format as fmt

VERDICTS = {
    Exit.DONE: "holds",
    Exit.WORSE: "worse",
    Exit.UNTRUSTED: "untrusted",
    Exit.PROGRAM: "failed",
    Exit.USAGE: "wrong",
}
"""Names of the JSON."""
TITLES = {
    Exit.DONE: "HOLDS",
    Exit.WORSE: "WORSE",
    Exit.UNTRUSTED: "NOT TRUSTED",
    Exit.PROGRAM: "FAILED",
    Exit.USAGE: "CANNOT CHECK",
}
GRAVEST_FIRST = (Exit.USAGE, Exit.UNTRUSTED, Exit.PROGRAM, Exit.WORSE, Exit.DONE)
KINDS = {
    FindingKind.NEW_SITE: "a new place that holds the model back",
    FindingKind.MORE_TIMES: "a known place that holds the model back more often",
    FindingKind.MORE: "a count above that of the lock",
    FindingKind.LIMIT: "beyond a limit of the policy",
    FindingKind.NOTHING_COMPILED: "nothing was compiled",
    FindingKind.DOUBT: "the result is in doubt",
    FindingKind.NOT_MEASURED: "the policy limits what was not measured",
    FindingKind.FAILED: "the model fails in eager, or cannot be loaded",
    FindingKind.COMPILE_FAILED: "the model runs in eager, and fails when it is compiled",
    FindingKind.CRASHED: "the process crashed",
    FindingKind.TIMEOUT: "the model ran out of time",
    FindingKind.WRONG: "the policy, the lock or a model is not there or cannot be read",
    FindingKind.VANISHED: "the lock knows a model that the policy names no more",
    FindingKind.NO_SECTION: "the lock does not know this version of torch",
}
_DID = {
    Exit.USAGE: ("cannot be checked", "cannot be checked"),
    Exit.UNTRUSTED: ("cannot be trusted", "cannot be trusted"),
    Exit.PROGRAM: ("failed", "failed"),
    Exit.WORSE: ("got worse", "got worse"),
    Exit.DONE: ("holds", "hold"),
}
_NOT_CHECKED = "Inductor's guards not checked"
_LEFT_IN_EAGER = (SiteKind.BREAK, SiteKind.DISABLED, SiteKind.SKIP)


def title(outcome: Outcome) -> str:
    """Write the verdict as a headline; one that saw less than torch.compile does says so."""
    return _qualified(TITLES[outcome.exit], outcome)


def verdict(outcome: Outcome) -> str:
    """Write the verdict in a sentence; one that saw less than torch.compile does says so."""
    return _qualified(VERDICTS[outcome.exit], outcome)


def _qualified(word: str, outcome: Outcome) -> str:
    return word if outcome.inductor_guards else f"{word} ({_NOT_CHECKED})"


def sentence(outcome: Outcome) -> str:
    """Say how many models of how many do not hold, and how many things are wrong besides."""
    every = [*outcome.findings, *(each for one in outcome.checked for each in one.findings)]
    if every and all(each.by_inductor for each in every):
        return "There is more than in the lock, perhaps only because guards of Inductor's are seen now."
    wrong = len(outcome.findings)
    also = f" {fmt.count(wrong, 'thing')} {'is' if wrong == 1 else 'are'} wrong with the policy or the lock."
    return _models(_models_by_exit(outcome.checked)) + (also if wrong else "")


def _models(by_exit: Mapping[Exit, int]) -> str:
    whole = sum(by_exit.values())
    found = [(code, by_exit[code]) for code in GRAVEST_FIRST if by_exit[code]]
    if not found:
        return "No model was checked."
    if len(found) == 1:
        who = {1: "The model", 2: "Both models"}.get(whole, f"All {whole} models")
        return f"{who} {_DID[found[0][0]][whole > 1]}."
    (code, number), *others = found
    first = f"{number} of {whole} models {_DID[code][number > 1]}"
    return ", ".join([first, *(f"{number} {_DID[code][number > 1]}" for code, number in others)]) + "."


def _models_by_exit(checked: Iterable[Checked]) -> dict[Exit, int]:
    """Count each model once, by the gravest of its jobs."""
    exits: dict[str, Exit] = {}
    for one in checked:
        known = exits.get(one.job.model, Exit.DONE)
        exits[one.job.model] = min(known, one.exit, key=GRAVEST_FIRST.index)
    return {code: list(exits.values()).count(code) for code in GRAVEST_FIRST}


def gravest_first(outcome: Outcome) -> list[Checked]:
    """Sort jobs by what came of them; those alike stay in the policy's order."""
    return sorted(outcome.checked, key=lambda one: GRAVEST_FIRST.index(one.exit))


def cost(finding: Finding, checked: Checked | None) -> str:
    """Write what a break or a skip costs, such as `splits 2 graphs into 3, 14 ops now eager`; else nothing."""
    site = finding.site
    if site is None or site.key.kind not in _LEFT_IN_EAGER:
        return ""
    now = "now " if finding.kind is FindingKind.NEW_SITE else ""
    ops = f"{fmt.count(site.cost.ops, 'op')} {now}eager" if site.cost.ops else ""
    unknown = "ops in eager not measured" if site.cost.ops is None else ""
    return ", ".join(part for part in (_split(finding, checked), ops, unknown) if part)


def _split(finding: Finding, checked: Checked | None) -> str:
    """Say what became of the job's graphs where this break alone can be why; else how many graphs it adds."""
    adds = finding.site.cost.graphs if finding.site else 0
    state = checked.state if checked else None
    if checked is None or state is None or checked.graphs_before is None:
        return f"adds {fmt.count(adds, 'graph')}" if adds else ""
    now = state.counts.get(Count.GRAPHS)
    alone = sum(each.kind is FindingKind.NEW_SITE for each in checked.findings) == 1
    if alone and finding.kind is FindingKind.NEW_SITE and now is not None and now - checked.graphs_before == adds > 0:
        return f"splits {fmt.count(checked.graphs_before, 'graph')} into {now}"
    return f"adds {fmt.count(adds, 'graph')}" if adds else ""


def numbers(finding: Finding) -> str:
    """Write what is let pass, and what there is now; nothing where a finding has no numbers."""
    if finding.now is None or finding.was is None:
        return ""
    was, now = _number(finding.was), _number(finding.now)
    if finding.kind is FindingKind.MORE_TIMES:
        return f"{now} times now, {was} in the lock"
    if finding.kind is FindingKind.MORE:
        return f"{now} now, {was} in the lock"
    if finding.count is None:
        return f"{now} % of the ops are in graphs, and {was} % is the least"
    return f"{now} now, at most {was} {'passes' if was == '1' else 'pass'}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.1f}"
