"""What one addition after the other rounds follows from the partial sums."""

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.features.accuracy.child.kernel_judge import rounding_of  # noqa: E402

X = torch.tensor([[1.0, 2.0, 3.0], [1.0, -1.0, 0.0]])


def test_partial_sums_count() -> None:
    found = rounding_of("sum", (X, [1]), X.sum(1))
    assert torch.allclose(found, torch.tensor([46.0, 1.0], dtype=torch.float64).sqrt())


@pytest.mark.parametrize("args", [(X,), (X, None), (X, []), (X, [0, 1]), (X, [-1, 0], True)])
def test_all_dimensions(args: tuple[object, ...]) -> None:
    result = X.sum(keepdim=True, dim=(0, 1)) if len(args) == 3 else X.sum()
    found = rounding_of("sum", args, result)
    assert found.shape == result.shape
    assert float(found) == pytest.approx(sum(each**2 for each in (1, 3, 6, 7, 6, 6)) ** 0.5)


def test_mean_cumsum_and_a_single_number() -> None:
    assert torch.allclose(rounding_of("mean", (X, [1]), X.sum(1)) * 3, rounding_of("sum", (X, [1]), X.sum(1)))
    assert torch.allclose(rounding_of("cumsum", (X, 1), X)[:, -1], rounding_of("sum", (X, [1]), X.sum(1)))
    assert float(rounding_of("sum", (torch.tensor(2.0),), torch.tensor(2.0))) == 2.0
