"""Keep `.item()` and similar calls in the graph: `torch._dynamo.config.capture_scalar_outputs`."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.rules.value_rules import is_asserted
from ctrace.inspector.features.fix.repairs.setting import ConfigurationRepair, Setting, dynamo_line, with_settings

_NAME = "capture_scalar_outputs"
_QUESTION = "May an assertion that fails raise RuntimeError instead of AssertionError when compiled?"


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in with_settings(scene, frozenset((_NAME,))):
        causes = [cause for cause in scene.causes if cause.id in each.causes]
        asserts = any(is_asserted(scene, broken) for cause in causes for broken in scene.breaks(cause))
        yield Setting(
            f"Keep numbers of tensors in the graph: set {_NAME}.",
            each.causes,
            dynamo_line(_NAME),
            question=_QUESTION if asserts else "",
        )


REPAIR = ConfigurationRepair(_NAME, "Keep `.item()` in the graph", _find)
