"""Advice on a model in evaluation mode that is called with gradients on, although nothing runs backward."""

from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind
from ctrace.inspector.facts.trial import Trial

_FROM_GRADIENTS = (RootKind.BACKEND, RootKind.REQUIRES_GRAD, RootKind.GRAD_MODE, RootKind.DISPATCH_KEYS)
"""Kinds of causes that usually disappear without gradients; for other kinds, a trial decides."""
_MAY_BE = frozenset((Finding.BREAK, Finding.SKIP, Finding.RECOMPILE))


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
