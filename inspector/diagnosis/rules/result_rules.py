"""Advice on results that differ between compiled code and eager."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.findings.graphs.attention_view import wrong


def wrong_results(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer how to fix wrong results, with priority over everything that is only slow."""
    for cause in scene.causes:
        fixes = [each.fix for each in scene.dangers(cause) if each.fix]
        if fixes:
            yield Candidate(fixes[0], (cause.id,), worth=100)
    for answer in wrong(scene.session):
        ids = tuple(cause.id for cause in scene.causes if cause.why == answer.why)
        yield Candidate(answer.fix, ids, worth=100)
