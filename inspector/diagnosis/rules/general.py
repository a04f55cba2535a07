"""Offer the advice tables' advice for the kind of a finding, without a trial, and a last resort for breaks."""

import re
from collections.abc import Iterator

from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.diagnosis.rules.sizes import marking_was_refuted
from ctrace.inspector.diagnosis.scene import Candidate, Scene
from ctrace.inspector.graphs.attention import answer_of
from ctrace.inspector.model.diagnosis import Finding, RootCause, RootKind
from ctrace.inspector.model.findings import Break, Owner
from ctrace.inspector.recompiles.view import telling

_TO_TORCH = ("report an issue", "file an issue", "please report", "open an issue", "raise an issue")
"""Hints that torch writes for its own developers."""
_INTERNAL = re.compile(r"__(?!main__\.)")
"""How torch's names for values passed across a break begin: `___stack0`, `__resume_frame_values[1]`."""


def known_fixes(scene: Scene) -> Iterator[Candidate]:
    """Yield the advice tables' fix for each cause that is not expected."""
    for cause in scene.causes:
        if cause.expected or cause.kind is RootKind.DISABLED:
            continue
        text = _known(scene, cause)
        if text and not ("mark_dynamic(" in text and marking_was_refuted(scene)):
            place = at(cause)
            has_place = not place or text.startswith((place, "Nothing"))
            prefix = "" if has_place else f"{place}: "
            yield Candidate(f"{prefix}{text}", (cause.id,), general=not _is_about_this(scene, cause))


def _known(scene: Scene, cause: RootCause) -> str:
    for each in scene.breaks(cause):
        if each.fix and not each.torch_hint and each.owner is Owner.USER:
            return each.fix
    for skip in scene.skips(cause):
        if skip.fix and skip.break_index is None:
            return skip.fix
    guards = [each for each in scene.guards(cause) if each.fix and str(each.kind) == cause.kind]
    named = [each for each in guards if not _INTERNAL.match(each.subject)]
    leading = [each for each in named if cause.title.startswith(f"{each.subject} changed")] or named
    if leading:
        return telling([each for each in leading if each.subject == leading[0].subject]).fix
    for symptom in cause.symptoms:
        if symptom.what is Finding.ATTENTION:
            answer = answer_of(scene.session.attention[symptom.index])
            return answer.fix if answer.can_be_fixed else ""
    return ""


def _is_about_this(scene: Scene, cause: RootCause) -> bool:
    """Whether the fix names the user's expression."""
    breaks = scene.breaks(cause)
    return not breaks or any(each.expression and each.expression in each.fix for each in breaks)


def last_resort(scene: Scene) -> Iterator[Candidate]:
    """Offer general advice for any break."""
    for cause in scene.causes:
        breaks = scene.breaks(cause)
        if breaks and not cause.expected and cause.kind is not RootKind.DISABLED:
            yield Candidate(_for_break(cause, breaks[0]), (cause.id,), general=True)


def _for_break(cause: RootCause, each: Break) -> str:
    hint = each.fix if each.torch_hint and not any(part in each.fix.lower() for part in _TO_TORCH) else ""
    place = f"{at(cause)}: " if at(cause) else ""
    what = f"`{each.expression}`" if each.expression else "this"
    if each.owner is Owner.LIBRARY:
        return f"{place}Dynamo cannot trace the library code behind {what}; move the call out of the compiled region."
    return f"{place}{hint}" if hint else f"{place}Move {what} out of the compiled region; Dynamo cannot trace it."
