"""Offer the advice tables' advice for the kind of a finding, without a trial, and a last resort for breaks."""

import re
from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.library import package_of
from ctrace.inspector.diagnosis.naming import at, place_ahead
from ctrace.inspector.diagnosis.rules.counter_rules import counters
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind
from ctrace.inspector.facts.findings import Break, Owner
from ctrace.inspector.findings.graphs.attention_view import answer_of
from ctrace.inspector.findings.recompiles.recompile_view import telling

_TO_TORCH = ("report an issue", "file an issue", "please report", "open an issue", "raise an issue")
"""Hints that torch writes for its own developers."""
_IN_CODE = frozenset(
    (
        RootKind.ATTRIBUTE_VALUE,
        RootKind.CLOSURE_VALUE,
        RootKind.GLOBAL_VALUE,
        RootKind.IDENTITY,
        RootKind.KEY_ORDER,
        RootKind.LENGTH,
        RootKind.TYPE,
    )
)
"""Changes of what the code itself keeps: in a package, no user can do what the tables say."""
_INTERNAL = re.compile(r"__(?!main__\.)")
"""How torch's names for values passed across a break begin: `___stack0`, `__resume_frame_values[1]`."""


def known_fixes(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Yield the advice tables' fix for each cause that is not expected."""
    integers = {cause.id for cause, _ in counters(scene)}  # whose rules have tried what there is to try
    for cause in scene.causes:
        if cause.expected or cause.kind is RootKind.DISABLED or cause.id in integers:
            continue
        text = _known(scene, cause)
        if text:
            place = at(cause)
            has_place = not place or text.startswith((place, "Nothing"))
            prefix = "" if has_place else f"{place}: "
            yield Candidate(f"{prefix}{text}", (cause.id,), general=not _is_about_this(scene, cause))


def _known(scene: DiagnosisScene, cause: RootCause) -> str:
    for each in scene.breaks(cause):
        if each.fix and not each.torch_hint and (each.owner is Owner.USER or _is_on_users_call(each)):
            return each.fix
    for skip in scene.skips(cause):
        if skip.fix and skip.break_index is None:
            return skip.fix
    if cause.kind in _IN_CODE and not scene.is_users(cause.file):
        return ""
    guards = [each for each in scene.guards(cause) if each.fix and str(each.kind) == cause.kind]
    named = [each for each in guards if not _INTERNAL.match(each.subject)]
    leading = [each for each in named if cause.title.startswith(f"{each.subject} changed")] or named
    if leading:
        return telling([each for each in leading if each.subject == leading[0].subject]).fix
    for symptom in cause.symptoms:
        if symptom.what is Finding.ATTENTION:
            answer = answer_of(scene.session.attention[symptom.index])
            if answer.can_be_fixed:
                return answer.fix
            return ""
    return ""


def _is_on_users_call(each: Break) -> bool:
    """Whether the advice is on a call that the user's own line makes, such as copy.deepcopy(x), wherever it breaks."""
    return bool(each.expression) and f"`{each.expression}`" in each.reason


def _is_about_this(scene: DiagnosisScene, cause: RootCause) -> bool:
    """Whether the fix names the user's expression."""
    breaks = scene.breaks(cause)
    return not breaks or any(each.expression and each.expression in each.fix for each in breaks)


def last_resort(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Say about any other finding that nothing is known which would help, with torch's own hint if it has one."""
    for cause in scene.causes:
        found = {each.what for each in cause.symptoms}
        if cause.expected or cause.kind is RootKind.DISABLED or not found & _SLOW:
            continue
        breaks = scene.breaks(cause)
        if breaks:
            yield Candidate(_for_break(cause, breaks[0]), (cause.id,), general=True)
        elif any(each.fix and not _INTERNAL.match(each.subject) for each in scene.guards(cause)):
            yield Candidate(_for_recompile(scene, cause), (cause.id,), general=True)


_SLOW = frozenset((Finding.BREAK, Finding.RECOMPILE))


def _for_break(cause: RootCause, each: Break) -> str:
    hint = each.fix if each.torch_hint and not any(part in each.fix.lower() for part in _TO_TORCH) else ""
    place = place_ahead(cause)
    what = f"`{each.expression}`" if each.expression else "this"
    if each.owner is Owner.USER and hint:
        return f"{place}{hint}"
    why = "cannot trace it" if each.owner is Owner.USER else f"cannot trace the code of {_library(each)} that it runs"
    return f"{place}Not known how to keep {what} in the graph: Dynamo {why}."


def _library(each: Break) -> str:
    """Name the package of a break's innermost frame."""
    return next((name for path in each.paths if path and (name := package_of(path[-1].file))), "a library")


def _for_recompile(scene: DiagnosisScene, cause: RootCause) -> str:
    place = place_ahead(cause)
    package = package_of(cause.file) if cause.file and not scene.is_users(cause.file) else ""
    code = f", in code of {package}" if package else ""
    return f"{place}Not known what to change: {cause.title[:1].lower()}{cause.title[1:]}{code}."
