"""Silent dangers of a run, one for each thing that changed, with what to do about it."""

from dataclasses import replace

from ctrace.inspector.advice import entries
from ctrace.inspector.model import Danger
from ctrace.inspector.names import user_name
from ctrace.inspector.raw import Raw


def dangers_of(raw: Raw) -> tuple[Danger, ...]:
    """Gather the calls that showed the same danger."""
    found: dict[tuple[str, str], Danger] = {}
    for danger in raw.dangers:
        # Results that nothing explains are one danger, however they differ from call to call.
        key = danger.kind, danger.subject if danger.proven else ""
        known = found.get(key)
        found[key] = replace(known, calls=known.calls + 1) if known else _advised(danger)
    return tuple(found.values())


def _advised(danger: Danger) -> Danger:
    known = entries("dangers")
    subject = user_name(danger.subject) if danger.proven else danger.subject
    entry = known.get(danger.kind, known["unexplained"]).about(subject)
    values = {"{was}": danger.was or "not known", "{now}": danger.now or "not known"}
    why = entry.why
    for name, value in values.items():
        why = why.replace(name, value)
    return replace(danger, subject=subject, why=why, fix=entry.fix)
