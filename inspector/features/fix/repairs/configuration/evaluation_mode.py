"""Put the model into evaluation mode."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting, advised


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in advised(scene):
        if each.trial is not None and each.trial.evaluate:
            yield Setting(
                "Call model.eval() before the first call.",
                each.causes,
                trial=each.trial,
                how="model.eval() before the first call",
                question="Is the model only used for inference?",
            )


REPAIR = ConfigurationRepair("evaluation_mode", "Put the model into evaluation mode", _find)
