"""Drop the messages of a logger from compiled code: `ignore_logging_functions`."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.edits.torch_options import ignored_line
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting, advised

_NAME = "ignore_logging_functions"


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in advised(scene):
        if each.trial is None:
            continue
        for function in each.trial.ignored:
            module, _, path = function.partition(":")
            yield Setting(
                f"Leave {path} out of compiled code: {_NAME}.",
                each.causes,
                ignored_line(function),
                (module,),
                question="May compiled calls drop this message? Eager calls keep it.",
                may_drop_output=True,
            )


REPAIR = ConfigurationRepair(_NAME, "Leave logging out of compiled code", _find)
