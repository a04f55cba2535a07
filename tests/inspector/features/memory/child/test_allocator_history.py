"""What was allocated at a measured peak, from a history as the allocator of a GPU records it."""

from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.features.memory.child import allocator_history
from ctrace.inspector.features.memory.child.allocator_history import (
    AllocatorHistory,
    allocator_peak,
    buffer_at,
)
from ctrace.inspector.features.memory.child.planned_graphs import BufferFact
from ctrace.inspector.features.memory.child.storage_ledger import CodeOrigin, Ledger, TrackedStorage

WRAPPER = """\
def call(args):
    buf0 = empty_strided_cuda((256, 8), (8, 1), torch.float32)
    buf1 = extern_kernels.convolution(buf0, primals_1)
    extern_kernels.mm(buf0, primals_2, out=buf2)
"""
LINE = CodeOrigin("/home/me/model.py", 12, "Net.forward")


def alloc(addr: int, size: int, *frames: tuple[str, int, str]) -> dict[str, Any]:
    """Make an entry in the documented format of `torch.cuda.memory._snapshot`, the innermost frame first."""
    named = [dict(zip(("filename", "line", "name"), each, strict=True)) for each in frames]
    return {"action": "alloc", "addr": addr, "size": size, "stream": 0, "frames": named}


def free(addr: int, size: int) -> list[dict[str, Any]]:
    return [{"action": f"free_{end}", "addr": addr, "size": size, "frames": []} for end in ("requested", "completed")]


def test_the_peak_is_the_most_in_use_in_whole_blocks() -> None:
    trace = [
        *free(8, 1024),  # made before, as a workspace of cuBLAS, which a recording clears
        alloc(1, 1000),
        {"action": "segment_alloc", "addr": 1, "size": 2 << 20, "frames": []},
        alloc(2, 4096),
        *free(2, 4096),
        alloc(2, 512),
        *free(1, 1000),
    ]
    peak = allocator_peak(trace)
    assert peak is not None
    assert peak.released == 1024
    assert [each.bytes for each in peak.alive] == [1024, 4096]


def test_a_history_that_may_have_lost_its_beginning_has_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator_history, "_MOST_ENTRIES", 2)
    assert allocator_peak([alloc(1, 8), alloc(2, 8)]) is None


def test_each_allocation_has_the_line_of_its_buffer_and_workspaces_are_named(tmp_path: Path) -> None:
    file = tmp_path / "cabc.py"
    file.write_text(WRAPPER)
    ledger = Ledger()
    stored = TrackedStorage(8192, "cuda", LINE, "aten.relu.default", (256, 8), "float32", {"saved"}, name="buf0")
    ledger.note(stored, 8192)
    call, users = (str(file), "call"), ("/home/me/model.py", 30, "inputs")
    frames = {line: (call[0], line, call[1]) for line in (2, 3, 4)}
    history = AllocatorHistory()
    history.peak = allocator_peak(
        [
            alloc(1, 8192, ("/torch/_ops.py", 9, "__call__"), frames[2]),
            alloc(2, 4096, frames[3], users),
            alloc(3, 1 << 20, frames[3], users),
            alloc(4, 2048, frames[4]),
            alloc(5, 512, users),
            alloc(6, 512),
            alloc(7, 1536, ("/site/torch/_inductor/cudagraph_trees.py", 1400, "_allocate"), users),
        ]
    )
    history._facts[str(file)] = {"buf0": BufferFact(LINE), "buf1": BufferFact(LINE), "buf2": BufferFact(LINE)}
    before = {TrackedStorage(100, "cuda", LINE, "", (25,), "float32", {"parameter"}): 100}
    found = history.alive(before, ledger, lambda name: name == "/home/me/model.py")
    assert [(each.kind, each.line, each.bytes) for each in found] == [
        ("temporary", 12, (1 << 20) + 4096 + 2048),
        ("saved", 12, 8192),
        ("graph_pool", None, 1536),
        ("temporary", None, 512),
        ("temporary", 30, 512),
        ("parameter", 12, 100),
    ]
    assert found[0].op == "inside of extern_kernels.convolution"
    assert (found[1].shape, found[1].op) == ((256, 8), "aten.relu.default")
    assert found[2].op == "copies of inputs for CUDA graphs"


@pytest.mark.parametrize(
    ("text", "name", "by"),
    [
        ("        buf0 = empty_strided_cuda((8, ), (1, ), torch.float32)", "buf0", "empty_strided_cuda"),
        ("    extern_kernels.mm(buf0, primals_2, out=buf2)", "buf2", "extern_kernels.mm"),
        ("    triton_poi_fused_0.run(buf1, 64, stream=stream0)", "", "triton_poi_fused_0.run"),
        ("    buf3 = torch.ops.aten._scaled_dot_product_flash_attention.default(a)", "buf3",
         "torch.ops.aten._scaled_dot_product_flash_attention.default"),
        ("    del buf1", "", ""),
    ],
)  # fmt: skip
def test_a_line_of_a_wrapper_names_its_buffer(text: str, name: str, by: str) -> None:
    found = buffer_at(text, {})
    assert (found.name, found.by) == (name, by)
