"""Repairs that only help together: several places of one finding, or a repair that uncovers the next finding.

A break in a loop, for example, makes Dynamo skip the whole function, so only its first break is known.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import Condition, NewText, Trial
from ctrace.inspector.features.fix.repairs.candidates import Files, RepairCandidate, candidates, conditions_of
from ctrace.inspector.features.fix.repairs.finding_differences import Key, keys_of, keys_of_cause, scene_of
from ctrace.inspector.features.fix.repairs.mining import writers
from ctrace.inspector.features.fix.repairs.proving import Attempt
from ctrace.inspector.features.fix.repairs.repair_texts import merged_files

TOGETHER = "+"
"""Stands between the names of repairs that are tried together."""
_MOST = 3
"""Second repairs to try for one first repair."""


def uncovers(attempt: Attempt, gone: Counter[Key], before: Session) -> bool:
    """Whether a change fails only because it uncovers breaks; the function may be skipped for these, too."""
    if attempt.session is None:
        return False
    failed = {each.name for each in attempt.outcome.checks if not each.passed}
    was, now = keys_of(before), keys_of(attempt.session)
    left = [key for key in gone if key[0] != "skip" and now[key] > was[key] - gone[key]]
    is_new = any(key[0] == "break" for key in attempt.uncovered)
    return is_new and not left and "nothing_new" in failed and failed <= {"nothing_new", "finding_gone", "coverage"}


def gets_on(attempt: Attempt, gone: Counter[Key], before: Session) -> bool:
    """Whether a change fails only because it removes one of several places of its finding."""
    if attempt.session is None:
        return False
    failed = {each.name for each in attempt.outcome.checks if not each.passed}
    was, now = keys_of(before), keys_of(attempt.session)
    return failed == {"finding_gone"} and any(now[key] < was[key] for key in gone)


def together(parts: Iterable[RepairCandidate], base: Mapping[str, str]) -> RepairCandidate | None:
    """Return repairs of several places as one, each place by the first of its repairs; None: there is one place."""
    members: list[RepairCandidate] = []
    files: tuple[NewText, ...] = ()
    for each in parts:
        both = merged_files(base, files, each.files) if each.files and each.trial == Trial() else None
        if both is not None and (not members or each.library == members[0].library):
            members.append(each)
            files = both
    if len(members) < 2:
        return None
    return replace(
        members[0],
        name=TOGETHER.join(dict.fromkeys(each.name for each in members)),
        summary=" ".join(dict.fromkeys(each.summary for each in members)),
        files=files,
        conditions=tuple(dict.fromkeys(condition for each in members for condition in each.conditions)),
        question=" ".join(dict.fromkeys(each.question for each in members if each.question)),
        changes_arithmetic=any(each.changes_arithmetic for each in members),
        may_drop_output=any(each.may_drop_output for each in members),
        drops_gradients=any(each.drops_gradients for each in members),
        asks=tuple(dict.fromkeys(ask for each in members for ask in each.asks)),
    )


def chained(first: RepairCandidate, attempt: Attempt, files: Files, target: str | None) -> Iterator[RepairCandidate]:
    """Yield the repair together with repairs of what it uncovers.

    Args:
        first: the repair that is not proved.
        attempt: its attempt.
        files: the texts without it.
        target: the target's own file.
    """
    session = attempt.session
    if session is None or first.trial != Trial() or not first.files:
        return
    texts = {each.file: each.text for each in first.files}
    changed = Files({**files.all(), **texts})
    scene = scene_of(session)
    number = 0
    for second in candidates(scene, changed, target):
        if second.trial != Trial() or second.library != first.library or not _repairs(second, scene, attempt):
            continue
        both = _joined(first, second, files, texts)
        if both is not None:
            yield both
            number += 1
        if number >= _MOST:
            return


def _repairs(second: RepairCandidate, scene: DiagnosisScene, attempt: Attempt) -> bool:
    """Whether a candidate is for a finding that the first repair uncovered."""
    causes = [each for each in scene.causes if each.id in (second.finding, *second.findings)]
    return any(key in attempt.uncovered for each in causes for key in keys_of_cause(each, scene.session))


def _joined(
    first: RepairCandidate, second: RepairCandidate, files: Files, texts: Mapping[str, str]
) -> RepairCandidate | None:
    after = {**texts, **{each.file: each.text for each in second.files}}
    before = {file: files.text(file) for file in after}
    conditions: dict[Condition, None] = dict.fromkeys(first.conditions)
    for file, text in after.items():
        old = before[file]
        if old is None:
            return None
        conditions |= dict.fromkeys((*conditions_of(file, old, text), *writers(file, old, text)))
    for each in second.conditions:
        if not each.expression and each.file in after:
            continue  # a line that must run; `conditions_of` names it where it exists before the repairs
        line = _line_before(before.get(each.file) or "", texts.get(each.file), each.line)
        if line is None:
            return None
        conditions[Condition(each.file, line, each.expression)] = None
    return replace(
        first,
        name=f"{first.name}{TOGETHER}{second.name}",
        kind=first.kind if first.kind == second.kind else "source",
        summary=f"{first.summary} {second.summary}",
        files=tuple(NewText(file, text) for file, text in after.items()),
        conditions=tuple(conditions),
        question=" ".join(each for each in (first.question, second.question) if each),
        changes_arithmetic=first.changes_arithmetic or second.changes_arithmetic,
        may_drop_output=first.may_drop_output or second.may_drop_output,
        drops_gradients=first.drops_gradients or second.drops_gradients,
        asks=tuple(dict.fromkeys((*first.asks, *second.asks))),
    )


def _line_before(before: str, between: str | None, line: int) -> int | None:
    """Return where a line of the text with the first repair is without it; None: it is not there."""
    if between is None:
        return line
    old, new = before.splitlines(), between.splitlines()
    for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        if block.b < line <= block.b + block.size:
            return line - block.b + block.a
    return None
