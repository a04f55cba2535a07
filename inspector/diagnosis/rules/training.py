"""Advice on training programs: a whole training step that is compiled, and settings of an optimizer."""

import re
from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.facts.diagnosis import RootKind

_SETTING = re.compile(r"(?:.*\.)?param_groups\[(?:\d+|key \d+)\]\['(?P<name>\w+)'\]")


def whole_steps(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compile the model in place of the step that trains it. Do not offer `model.compile()`: it captures no
    graph of a bare torch.nn.Sequential (torch 2.13).
    """
    for cause in scene.causes:
        if cause.kind is RootKind.TRAINING_STEP and not cause.expected:
            text = (
                f"{at(cause)}: compile the model (and the loss), not the whole training step: torch.compile(model) in "
                f"place of {cause.function or 'the step'}; leave backward() and the optimizer outside."
            )
            yield Candidate(text, (cause.id,), worth=85)


def optimizer_settings(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a tensor for a setting of an optimizer that a scheduler changes, unless it became dynamic."""
    for cause in scene.causes:
        named = [match["name"] for each in scene.guards(cause) if (match := _SETTING.fullmatch(each.subject))]
        if named and not cause.expected:
            guard = next(each for each in scene.guards(cause) if _SETTING.fullmatch(each.subject))
            # A scheduler's value, such as 0.03333333333333333, is not what the user wrote.
            value = guard.was if guard.was and re.fullmatch(r"[\d.e+-]{1,8}", guard.was) else "..."
            text = (
                f"Pass {named[0]}=torch.tensor({value}) when you create the optimizer: torch specializes on "
                "Python numbers, so each change by a scheduler recompiles the step."
            )
            yield Candidate(text, (cause.id,), worth=70)
