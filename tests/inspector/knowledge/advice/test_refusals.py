"""Torch's reasons not to fuse two nodes find their texts; tests/integration/ does the same for the installed torch."""

import pytest

from ctrace.inspector.knowledge.advice import advice_on_refusal


@pytest.mark.parametrize(
    ("reason", "key"),
    [
        ("staged reduction plan would be lost", "staged_reduction"),
        ("nested reduction append producer placement mismatch", "staged_reduction"),
        ("sub-parent epilogue planning failed", "staged_reduction"),
        ("invalid sub-parent epilogue fusion", "staged_reduction"),
        ("template fusion does not preserve strict reduction ordering", "strict_order"),
        ("incompatible reduction contracts", "gemm_reductions"),
        ("a consumer depends on another producer sub-node", "foreach_crossed"),
        ("epilogue is not a unary read of the output buffer", "own_reads"),
        ("epilogue's read and write indices differ", "own_layout"),
        ("external read x with size [4] is a non-contiguous compatible reshape of template size [2, 2]", "cutlass_reshape"),
        ("no such reason", "unmapped"),
    ],
)  # fmt: skip
def test_reasons_of_torch_2_15_have_texts(reason: str, key: str):
    assert advice_on_refusal(reason) == key
