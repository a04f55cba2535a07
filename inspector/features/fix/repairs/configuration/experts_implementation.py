"""Choose another implementation of a library's experts, where the library offers one."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.edits.torch_options import called_line
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting, advised


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in advised(scene):
        if each.trial is not None and each.trial.calls:
            calls = "; ".join(called_line(*call) for call in each.trial.calls)
            yield Setting(
                f"Choose another implementation: {calls}.",
                each.causes,
                trial=each.trial,
                how=f"{calls} before the first call",
                # Another implementation sums the products of the experts in another order.
                changes_arithmetic=True,
            )


REPAIR = ConfigurationRepair("experts_implementation", "Choose another implementation of experts", _find)
