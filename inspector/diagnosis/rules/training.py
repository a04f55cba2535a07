"""Advice on training, and on gradients that nothing needs.

A whole training step that is compiled, settings of an optimizer, and a model in evaluation mode that is called with
gradients on, although nothing runs backward.
"""

import re
from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind
from ctrace.inspector.facts.trial import Trial

_SETTING = re.compile(r"(?:.*\.)?param_groups\[(?:\d+|key \d+)\]\['(?P<name>\w+)'\]")
_FROM_GRADIENTS = (RootKind.BACKEND, RootKind.REQUIRES_GRAD, RootKind.GRAD_MODE, RootKind.DISPATCH_KEYS)
"""Kinds of causes that usually disappear without gradients; for other kinds, a trial decides."""
_MAY_BE = frozenset((Finding.BREAK, Finding.SKIP, Finding.RECOMPILE))


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


def unused_gradients(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer torch.no_grad() where it may remove breaks or recompilations; a trial decides."""
    unused = [each for each in scene.session.scenarios if each.unused_grad and each.training is False]
    found = [cause for cause in scene.causes if _may_be(cause)]
    if not unused or not found:
        return
    text = "Call the model under torch.no_grad(): it is in evaluation mode, and nothing uses the gradients."
    likely = [cause for cause in found if cause.kind in _FROM_GRADIENTS]
    in_backward = [cause for cause in found if any(each.function == "backward" for each in scene.breaks(cause))]
    needs_backend = any(cause.kind is RootKind.BACKEND for cause in likely)
    ids = tuple(cause.id for cause in [*in_backward, *likely] or found)
    worth = 90 if likely or in_backward else 55
    yield Candidate(text, ids, Trial(grad="off"), worth=worth, only_checked=True, needs_backend=needs_backend)


def _may_be(cause: RootCause) -> bool:
    """Whether gradients may have produced a cause; they never produce a print."""
    return cause.kind is not RootKind.OUTPUT and bool({each.what for each in cause.symptoms} & _MAY_BE)
