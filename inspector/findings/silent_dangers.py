"""List the silent dangers of a run: one for each state that changed, with advice on it."""

import re

from msgspec.structs import replace

from ctrace.inspector.facts.accuracy_facts import Accuracy, Culprit
from ctrace.inspector.facts.findings import Danger
from ctrace.inspector.findings.culprits import culprit_of, culprit_sentence, remedied
from ctrace.inspector.knowledge.advice import entries
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.source_names import user_name

UNEXPLAINED = "unexplained"
"""The kind of a danger that no changed state explains."""
_HOOK = re.compile(r"^(.*)\._(?:global_)?(\w+?)_hooks\[\d+\]$")


def dangers_of(raw: CollectedLog) -> tuple[Danger, ...]:
    """Merge the calls that showed the same danger."""
    found: dict[tuple[str, str], Danger] = {}
    for danger in map(_named, raw.dangers):
        # Unexplained results are one danger, even if they differ in another way in each call.
        subject = danger.subject if danger.proven else ""
        key = danger.kind, subject
        if known := found.get(key):
            found[key] = replace(known, calls=known.calls + 1)
        else:
            found[key] = _advised(danger)
    return tuple(found.values())


def _named(danger: Danger) -> Danger:
    """Use the user's names for what changed: `model.fc (forward)` for a hook, `model.scale` for an attribute."""
    if not danger.proven:
        return danger
    name = user_name(danger.subject)
    hook = None
    if danger.kind == "hook":
        hook = _HOOK.match(name)
    if hook is not None:
        where = "all modules"
        # Hooks on all modules lie in torch.nn.modules.module, which is no name of the user's.
        if not hook[1].startswith("torch."):
            where = hook[1]
        name = f"{where} ({hook[2].replace('_', ' ')})"
    return replace(danger, subject=name)


def _advised(danger: Danger) -> Danger:
    known = entries("dangers")
    entry = known.get(danger.kind, known[UNEXPLAINED])
    entry = entry.about(danger.subject)
    values = {"{was}": danger.was or "not known", "{now}": danger.now or "not known"}
    why = entry.why
    for name, value in values.items():
        why = why.replace(name, value)
    return replace(danger, why=why, fix=entry.fix)


def blamed(dangers: tuple[Danger, ...], accuracy: Accuracy | None) -> tuple[Danger, ...]:
    """Name the line of the worst culprit at a wrong result that no changed state explains."""
    return tuple(_blamed(each, culprit_of(each.scenario, accuracy)) for each in dangers)


def _blamed(danger: Danger, worst: Culprit | None) -> Danger:
    if worst is None or danger.kind != UNEXPLAINED:
        return danger
    why = f"{culprit_sentence(worst)} (ctrace accuracy compared each kernel on its real inputs)."
    return replace(danger, file=worst.file, line=worst.line, why=why, fix=remedied(worst))
