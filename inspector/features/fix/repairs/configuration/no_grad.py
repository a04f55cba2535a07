"""Call the model without gradients."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting, advised

_KINDS = (RootKind.GRAD_MODE, RootKind.REQUIRES_GRAD, RootKind.DISPATCH_KEYS, RootKind.BACKEND, RootKind.FAILURE)
"""Kinds of causes that gradients may explain."""


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in advised(scene):
        ids = tuple(cause.id for cause in scene.causes if cause.id in each.causes and _is_of_gradients(scene, cause))
        if each.trial is not None and each.trial.grad == "off" and ids:
            yield Setting(
                "Call the model under torch.no_grad().",
                ids,
                trial=each.trial,
                how="with torch.no_grad(): around the call",
                question="Does nothing need gradients of these calls?",
                drops_gradients=True,
            )


def _is_of_gradients(scene: DiagnosisScene, cause: RootCause) -> bool:
    return cause.kind in _KINDS or any(each.function == "backward" for each in scene.breaks(cause))


REPAIR = ConfigurationRepair("no_grad", "Call the model without gradients", _find)
