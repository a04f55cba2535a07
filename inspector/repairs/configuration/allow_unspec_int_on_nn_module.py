"""Do not specialize on integers that a module keeps: `allow_unspec_int_on_nn_module`."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.scene import Scene
from ctrace.inspector.repairs.setting import ConfigurationRepair, Setting, dynamo_line, with_settings

_NAME = "allow_unspec_int_on_nn_module"


def _find(scene: Scene) -> Iterator[Setting]:
    for each in with_settings(scene, frozenset((_NAME,))):
        yield Setting(f"Do not specialize on integers of modules: set {_NAME}.", each.causes, dynamo_line(_NAME))


REPAIR = ConfigurationRepair(_NAME, "Make integers of modules dynamic", _find)
