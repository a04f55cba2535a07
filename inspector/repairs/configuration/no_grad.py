"""Call the model without gradients."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.scene import Scene
from ctrace.inspector.repairs.setting import ConfigurationRepair, Setting, advised


def _find(scene: Scene) -> Iterator[Setting]:
    for each in advised(scene):
        if each.trial is not None and each.trial.grad == "off":
            yield Setting(
                "Call the model under torch.no_grad().",
                each.causes,
                trial=each.trial,
                how="with torch.no_grad(): around the call",
                question="Does nothing need gradients of these calls?",
            )


REPAIR = ConfigurationRepair("no_grad", "Call the model without gradients", _find)
