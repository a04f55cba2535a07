"""Split only the function that breaks, not its callers: `nested_graph_breaks`, in torch versions that have it."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.edits.torch_options import option_line
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair, Setting

_NAME = "nested_graph_breaks"


def _is_nested(scene: DiagnosisScene, path: tuple[Frame, ...]) -> bool:
    """Whether one of the user's functions calls another one that breaks."""
    return len({(frame.file, frame.function) for frame in path if scene.is_users(frame.file)}) > 1


def _find(scene: DiagnosisScene) -> Iterator[Setting]:
    nested = tuple(
        cause.id
        for cause in scene.causes
        if not cause.expected and any(_is_nested(scene, path) for each in scene.breaks(cause) for path in each.paths)
    )
    if nested:
        summary = f"Compile the callers of a function that breaks as usual: set {_NAME}."
        # The break stays. By default, Dynamo breaks each frame of the stack above it, too (_dynamo/config.py, 2.13).
        yield Setting(summary, nested, option_line(_NAME), removes=False)


REPAIR = ConfigurationRepair(_NAME, "Split only the function that breaks", _find)
