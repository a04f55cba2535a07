"""Mark the dimensions that change as dynamic, before the first call."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.edits.torch_options import marked_line
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting, advised


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for each in advised(scene):
        if each.trial is not None and each.trial.marked:
            lines = [marked_line(mark.argument, mark.dim) for mark in each.trial.marked]
            shown = "; ".join(lines[:3])
            if len(lines) > 3:
                shown += " ..."
            text = f"Mark what changes as dynamic: {shown}."
            yield Setting(text, each.causes, trial=each.trial, how=f"before the first call: {'; '.join(lines)}")


REPAIR = ConfigurationRepair("mark_dynamic", "Mark sizes as dynamic", _find)
