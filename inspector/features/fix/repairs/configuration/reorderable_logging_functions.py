"""Move prints and warnings behind the graph: `reorderable_logging_functions`."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.naming import break_kind
from ctrace.inspector.facts.diagnosis import RootKind
from ctrace.inspector.features.fix.repairs.setting import ConfigurationRepair, Setting

_NAME = "reorderable_logging_functions"
_FUNCTIONS = {"print": ("print", ()), "warnings.warn": ("warnings.warn", ("warnings",))}


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    for name, (function, needs) in _FUNCTIONS.items():
        ids = tuple(
            cause.id
            for cause in scene.causes
            if any(break_kind(each) is RootKind.OUTPUT and f"{name}(" in each.source for each in scene.breaks(cause))
        )
        if ids:
            line = f"torch._dynamo.config.{_NAME}.add({function})"
            yield Setting(f"Let compiled code call {function}() after the graph: {_NAME}.", ids, line, needs)


REPAIR = ConfigurationRepair(_NAME, "Print after the graph", _find)
