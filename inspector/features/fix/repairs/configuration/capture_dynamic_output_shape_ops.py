"""Keep operators with a data-dependent shape in the graph: `capture_dynamic_output_shape_ops`."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.rules.shape_rules import shape_questions
from ctrace.inspector.edits.torch_options import option_line
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting, with_settings

_NAME = "capture_dynamic_output_shape_ops"
_SCALARS = "capture_scalar_outputs"


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in with_settings(scene, frozenset((_NAME, _SCALARS))):
        line = f"{option_line(_NAME)}\n{option_line(_SCALARS)}"
        summary = f"Keep data-dependent shapes in the graph: set {_NAME} and {_SCALARS}."
        yield Setting(summary, each.causes, line, question=" ".join(shape_questions(scene)))


REPAIR = ConfigurationRepair(_NAME, "Keep data-dependent shapes in the graph", _find)
