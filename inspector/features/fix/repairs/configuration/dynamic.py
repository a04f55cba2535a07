"""Compile with `dynamic=True`: every size is dynamic from the first call."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.facts.diagnosis import RootKind
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting

_KINDS = (RootKind.SIZE, RootKind.DUCK_SHAPE, RootKind.STRIDE, RootKind.ARGUMENT_VALUE, RootKind.LENGTH)


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    ids = tuple(cause.id for cause in scene.causes if cause.kind in _KINDS and not cause.expected)
    if ids:
        argument = "dynamic=True"
        yield Setting(
            f"Compile with {argument}.",
            ids,
            trial=Trial(dynamic=True),
            how=f"torch.compile(model, {argument})",
            compile_argument=argument,
        )


REPAIR = ConfigurationRepair("dynamic", "Make every size dynamic", _find)
