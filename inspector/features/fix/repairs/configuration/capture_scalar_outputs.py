"""Keep `.item()` and similar calls in the graph: `torch._dynamo.config.capture_scalar_outputs`."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.rules.value_rules import scalar_questions
from ctrace.inspector.edits.torch_options import option_line
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting, with_settings

_NAME = "capture_scalar_outputs"


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in with_settings(scene, frozenset((_NAME,))):
        yield Setting(
            f"Keep numbers of tensors in the graph: set {_NAME}.",
            each.causes,
            option_line(_NAME),
            question=" ".join(scalar_questions(scene)),
        )


REPAIR = ConfigurationRepair(_NAME, "Keep `.item()` in the graph", _find)
