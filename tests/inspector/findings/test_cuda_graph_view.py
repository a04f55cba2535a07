"""The summary of CUDA graphs, and the explanation of repeated recordings."""

import pytest

from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphReason, CudaGraphStatus
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.cuda_graph_view import outlook, sentence

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


WARNS = {"cudagraph_dynamic_shape_warn_limit": 8}
STOPS = {"cudagraph_dynamic_shape_rerecord_limit": 4}
COPIES = {"cudagraph_managed_input_rerecord_limit": 5}
STATIC = (CudaGraphReason("static input data pointer changed: primals_2"),)
MANAGED = (CudaGraphReason("cudagraph managed tensor data pointer changed: x"),)


@pytest.mark.parametrize(
    ("recordings", "sizes", "again", "limits", "answer"),
    [
        (1, 1, (), WARNS, ""),
        (2, 2, (), {}, "recorded once for each of 2 sets of input sizes"),
        (2, 2, (), WARNS, "recorded once for each of 2 sets of input sizes; torch warns from 9 on"),
        (9, 9, (), WARNS, "recorded once for each of 9 sets of input sizes; torch warns of so many"),
        (
            4, 4, (), STOPS,
            "recorded once for each of 4 sets of input sizes; after 4, it runs other sizes without a CUDA graph "
            "(cudagraph_dynamic_shape_rerecord_limit)",
        ),
        (3, 1, (), {}, "recorded again with the same sizes: an input or a parameter moved in memory"),
        (3, 1, STATIC, COPIES, "recorded again with the same sizes"),
        (3, 2, (), {}, "recorded 3 times for 2 sets of input sizes"),
        (
            3, 1, MANAGED, COPIES,
            "recorded again with the same sizes; after 5 moves of an input, torch copies it instead "
            "(cudagraph_managed_input_rerecord_limit)",
        ),
    ],
)  # fmt: skip
def test_outlook(recordings: int, sizes: int, again: tuple[CudaGraphReason, ...], limits: dict[str, int], answer: str):
    each = CudaGraph(
        "0/0",
        Stage.INFERENCE,
        CudaGraphStatus.RECORDED,
        recordings=recordings,
        inputs=tuple(f"[{size}]" for size in range(sizes)),
        again=again,
        limits=limits,
    )
    assert outlook(each) == answer
