"""What `ctrace kernels wrap` compares."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from ctrace.inspector.features.workshop.child.triton_ops_main import _equal  # noqa: E402

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("one", "other", "passed"),
    [
        ([1.0, NAN], [1.0, NAN], True),
        ([1.0, INF], [1.0, INF], True),
        ([1.0, NAN], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, NAN], False),
        ([1.0, INF], [1.0, -INF], False),
        ([1.0, INF], [1.0, 2.0], False),
        ([], [], True),
    ],
)
def test_nan_and_infinity_count(one: list[float], other: list[float], passed: bool) -> None:
    """The largest of 0 and NaN is 0, so a kernel that returned NaN was called equal."""
    assert _equal("", torch.tensor(one), torch.tensor(other)).passed is passed
