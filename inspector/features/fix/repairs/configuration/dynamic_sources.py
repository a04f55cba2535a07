"""Name the inputs whose sizes change: `torch.compiler.config.dynamic_sources`, or TORCH_COMPILE_DYNAMIC_SOURCES."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.facts.diagnosis import RootKind
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting
from ctrace.inspector.findings.shape_view import by_function
from ctrace.inspector.findings.shapes_document import marks

_KINDS = (RootKind.SIZE, RootKind.DUCK_SHAPE, RootKind.STRIDE, RootKind.RANGE, RootKind.ARGUMENT_VALUE)
_VARIABLE = "TORCH_COMPILE_DYNAMIC_SOURCES="


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    ids = tuple(cause.id for cause in scene.causes if cause.kind in _KINDS)
    if ids:
        found = marks(by_function(scene.session), scene.session.environment.torch)
    else:
        found = ()
    for mark in found:
        if mark.line.startswith(_VARIABLE):
            value = mark.line.removeprefix(_VARIABLE).strip('"')
            yield Setting(
                "Name the inputs whose sizes change in torch.compiler.config.dynamic_sources.",
                ids,
                f"torch.compiler.config.dynamic_sources = {value!r}",
            )


REPAIR = ConfigurationRepair("dynamic_sources", "Name the inputs whose sizes change", _find)
