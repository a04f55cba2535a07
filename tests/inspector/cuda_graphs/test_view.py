"""The summary of CUDA graphs, and the explanation of repeated recordings."""

import pytest

from ctrace.inspector.cuda_graphs.view import outlook, sentence
from ctrace.inspector.model.cuda_graphs import CudaGraph, CudaGraphStatus
from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.model.session import Session

RECORDED = CudaGraph("0/0", Stage.INFERENCE, CudaGraphStatus.RECORDED, recordings=1, inputs=("[8]",))
SKIPPED = CudaGraph("1/0", Stage.INFERENCE, CudaGraphStatus.SKIPPED)


@pytest.mark.parametrize(
    ("graphs", "answer"),
    [
        ((), ""),
        ((RECORDED,), "1 graph part: 1 recorded"),
        ((RECORDED, SKIPPED), "2 graph parts: 1 recorded, 1 skipped"),
        (
            (CudaGraph("0/0", Stage.INFERENCE, CudaGraphStatus.RECORDED, recordings=3, inputs=("[8]",)),),
            "1 graph part: 1 recorded, 3 recordings",
        ),
    ],
)
def test_sentence(graphs: tuple[CudaGraph, ...], answer: str):
    assert sentence(Session(cuda_graphs=graphs)) == answer


@pytest.mark.parametrize(
    ("recordings", "sizes", "answer"),
    [
        (1, 1, ""),
        (2, 2, "recorded once for each of 2 sets of input sizes; torch warns from 9 on"),
        (9, 9, "recorded once for each of 9 sets of input sizes; torch warns of so many"),
        (3, 1, "recorded again with the same sizes: an input or a parameter moved in memory"),
        (3, 2, "recorded 3 times for 2 sets of input sizes"),
    ],
)
def test_outlook(recordings: int, sizes: int, answer: str):
    inputs = tuple(f"[{size}]" for size in range(sizes))
    each = CudaGraph("0/0", Stage.INFERENCE, CudaGraphStatus.RECORDED, recordings=recordings, inputs=inputs)
    assert outlook(each) == answer
