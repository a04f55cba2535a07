"""A cross-entropy in parts is the same loss, with the same gradient."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from ctrace.inspector.features.memory.child.tried_options import VOCABULARY, chunked, chunked_cross_entropy

ROWS = 19


def _both(classes: int = VOCABULARY, **options: Any) -> tuple[list[int], list[torch.Tensor]]:
    torch.manual_seed(0)
    target = torch.randint(0, classes, (ROWS,))
    target[3] = -100
    used: list[int] = []
    found = []
    logits = torch.randn(ROWS, classes, dtype=torch.float64)
    for function in (functional.cross_entropy, chunked(functional.cross_entropy, used)):
        given = logits.clone().requires_grad_()
        loss = function(given, target, **options)
        (gradient,) = torch.autograd.grad(loss.sum(), given)
        found += [loss.detach(), gradient]
    return used, found


@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"label_smoothing": 0.1}])
def test_the_loss_and_its_gradient_are_the_same(options: dict[str, Any]) -> None:
    used, (loss, gradient, in_parts, gradient_in_parts) = _both(**options)
    assert used
    torch.testing.assert_close(in_parts, loss)
    torch.testing.assert_close(gradient_in_parts, gradient)


@pytest.mark.parametrize(
    ("classes", "options"),
    [(100, {}), (VOCABULARY, {"reduction": "none"}), (100, {"weight": torch.ones(100).double()})],
)
def test_another_loss_stays_whole(classes: int, options: dict[str, Any]) -> None:
    used, (loss, _, other, _) = _both(classes, **options)
    assert not used
    torch.testing.assert_close(other, loss)


def test_the_loss_of_torch_is_restored() -> None:
    before = functional.cross_entropy
    with chunked_cross_entropy([]):
        assert functional.cross_entropy is not before
    assert functional.cross_entropy is before
