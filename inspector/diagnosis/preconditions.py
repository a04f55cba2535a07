"""Drop advice that contradicts what the run itself shows: a setting that is on already, a change that was refuted."""

import re
from pathlib import PurePath

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.number_uses import ASKS_FOR_TENSOR, number_use

_SETTING = re.compile(r"(?:torch\._dynamo\.config\.| and )(?P<name>[a-z]\w+) = (?P<value>True|False)")
ALL_DYNAMIC = "assume_static_by_default"
"""The setting that torch.compile(dynamic=True) turns off while it compiles (_dynamo/eval_frame.py, 2.13)."""


def contradiction(candidate: Candidate, scene: DiagnosisScene) -> str:
    """Return which fact of the run a candidate contradicts; empty if none."""
    settings, text, trial = scene.session.environment.settings, candidate.text, candidate.trial
    asked = {match["name"]: match["value"] == "True" for match in _SETTING.finditer(text)}
    if trial is not None:
        asked |= dict(trial.settings)
    # Of several settings, one that is not set yet may be the one that helps.
    if asked and all(settings.get(name) == value for name, value in asked.items()):
        return f"{', '.join(asked)}: set already"
    is_dynamic = settings.get(ALL_DYNAMIC) is False
    if is_dynamic and ("dynamic=True" in text or (trial is not None and trial.dynamic)):
        return "dynamic=True: set already"
    if ASKS_FOR_TENSOR.search(text) and any(
        number_use(scene, cause) for cause in scene.causes if cause.id in candidate.causes
    ):
        return "torch takes no tensor there"
    # Where all sizes are dynamic, a mark makes no other one so.
    if "mark_dynamic(" in text and (is_dynamic or marking_was_refuted(scene)):
        return "marks do not help"
    if candidate.is_no_change and _is_cut_short(candidate, scene):
        return "the limit was hit"
    return ""


def is_edit_of_library(candidate: Candidate, scene: DiagnosisScene) -> bool:
    """Whether a candidate asks for another text of a library's line, which its user cannot change at the call site."""
    if candidate.rule in _AT_CALL_SITE or (candidate.trial is not None and not candidate.trial.edits):
        return False
    match = _PLACE.match(candidate.text)
    if match is None:
        return False
    files = {each.file for each in scene.causes if each.id in candidate.causes}
    files |= {each.file for each in scene.session.breaks}
    return any(file and not scene.is_users(file) and PurePath(file).name == match["file"] for file in files)


_PLACE = re.compile(r"(?P<file>[^\s:/]+\.py):\d+\b")
_AT_CALL_SITE = frozenset(
    ("experts_of_transformers", "failures", "generation", "whole_steps", "torchs_own", "other_places", "last_resort")
)
"""Rules whose advice is for the caller, although it begins with the place of the finding."""


def marking_was_refuted(scene: DiagnosisScene) -> bool:
    """Whether a trial marked sizes as dynamic and saved nothing."""
    graphs = len(scene.session.graphs)
    tried = [each for each in scene.session.trials if each.trial.marked]
    return any(each.counts is None or each.counts.graphs >= graphs for each in tried)


def _is_cut_short(candidate: Candidate, scene: DiagnosisScene) -> bool:
    """Whether the functions that recompile for a candidate's causes hit the limit, so that calls run eagerly."""
    refused = {use.frame for use in scene.session.limit.functions if use.refused}
    mine = [each for cause in scene.causes if cause.id in candidate.causes for each in scene.recompiles(cause)]
    return any(each.compilation.partition("/")[0] in refused for each in mine)
