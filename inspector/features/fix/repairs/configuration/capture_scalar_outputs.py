"""Keep `.item()` and similar calls in the graph: `torch._dynamo.config.capture_scalar_outputs`."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.rules.value_rules import is_asserted, is_divisor
from ctrace.inspector.features.fix.repairs.setting import ConfigurationRepair, Setting, dynamo_line, with_settings

_NAME = "capture_scalar_outputs"
_DIVIDES = "May a division by zero return infinity or NaN instead of raising ZeroDivisionError when compiled?"
_QUESTION = "May an assertion that fails raise RuntimeError instead of AssertionError when compiled?"


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in with_settings(scene, frozenset((_NAME,))):
        causes = [cause for cause in scene.causes if cause.id in each.causes]
        broken = [one for cause in causes for one in scene.breaks(cause)]
        asserts = any(is_asserted(scene, one) for one in broken)
        divides = any(is_divisor(scene, one) for one in broken)
        yield Setting(
            f"Keep numbers of tensors in the graph: set {_NAME}.",
            each.causes,
            dynamo_line(_NAME),
            question=" ".join((*([_QUESTION] if asserts else ()), *([_DIVIDES] if divides else ()))),
        )


REPAIR = ConfigurationRepair(_NAME, "Keep `.item()` in the graph", _find)
