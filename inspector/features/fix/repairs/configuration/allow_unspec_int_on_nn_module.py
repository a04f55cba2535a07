"""Do not specialize on integers that a module keeps: `allow_unspec_int_on_nn_module`."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.rules.counter_rules import open_integer_questions
from ctrace.inspector.edits.torch_options import option_line
from ctrace.inspector.facts.diagnosis import RootCause
from ctrace.inspector.facts.findings import CauseKind
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting

_NAME = "allow_unspec_int_on_nn_module"


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    ids = tuple(cause.id for cause in scene.causes if not cause.expected and _is_integer(scene, cause))
    if ids:
        yield Setting(
            f"Do not specialize on integers of modules: set {_NAME}.",
            ids,
            option_line(_NAME),
            question=" ".join(open_integer_questions(scene, ids)),
        )


def _is_integer(scene: DiagnosisScene, cause: RootCause) -> bool:
    """Whether an integer attribute changes from call to call."""
    # The option is for int members of modules alone (_dynamo/config.py, 2.13): a string that changes
    # recompiles with it, too.
    guards = [each for each in scene.guards(cause) if each.kind is CauseKind.ATTRIBUTE_VALUE]
    values = [value for guard in guards for value in (guard.was, guard.now)]
    return bool(values) and all(value is not None and value.lstrip("-").isdecimal() for value in values)


REPAIR = ConfigurationRepair(_NAME, "Make integers of modules dynamic", _find)
