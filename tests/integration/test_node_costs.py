"""Bytes and FLOPs of nodes match a count by hand; tests/scripts/counted.py has the graphs.

All values are float32 (4 bytes), except the ids of gathers (8 bytes).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from ctrace.inspector.facts.fusion_facts import Fusion, Node, NodeKind
from ctrace.inspector.log.reader import LogEntry, read
from ctrace.inspector.session.build import build
from tests.integration.conftest import Command
from tests.support.places import ROOT
from tests.support.warm import WarmServer

COUNTED = ROOT / "tests" / "scripts" / "counted.py"


@pytest.fixture(scope="module")
def fusions(tmp_path_factory: pytest.TempPathFactory, warm_server: WarmServer | None) -> dict[str, Fusion]:
    """Return each function's fusion."""
    ctrace = Command(tmp_path_factory.mktemp("counted"), warm_server)
    result = ctrace("run", str(COUNTED))
    assert result.code == 0, result.err
    (log,) = ctrace.folder.glob(".ctrace/*/trace.log")
    session = build(read(log))
    assert session.problems == ()
    functions = {graph.id: graph.function for graph in session.graphs}
    return {functions[fusion.graph]: fusion for fusion in session.fusions}


def only(fusion: Fusion, kind: NodeKind) -> Node:
    """Return the only node of a kind after fusion."""
    (node,) = (node for node in fusion.result if node.kind is kind)
    return node


def moved(node: Node) -> list[tuple[int, int]]:
    """Return the bytes read and written for each buffer, sorted by name."""
    return [(each.read, each.written) for each in sorted(node.accesses, key=lambda each: each.buffer)]


@pytest.mark.long
def test_a_broadcast_bias_is_read_once(fusions: dict[str, Fusion]) -> None:
    node = only(fusions["broadcast"], NodeKind.POINTWISE)
    # x has 64 * 128 * 4 bytes, the bias 128 * 4 (not 64 times that), and the result as many as x.
    assert moved(node) == [(32768, 0), (512, 0), (0, 32768)]
    # For each of 8192 elements: add, multiply, sigmoid.
    assert node.flops == 3 * 8192
    assert node.loops == "64, 128"
    assert [line.rpartition("/")[2] for line in node.lines] == ["counted.py:8"]


def test_softmax(fusions: dict[str, Fusion]) -> None:
    fusion = fusions["softmax"]
    largest, exponential, total, quotient = fusion.nodes
    # Unfused: the maximum reads x and writes one number per row, 32 * 4 bytes. A comparison is not a FLOP.
    assert (moved(largest), largest.flops) == ([(32768, 0), (0, 128)], 0)
    assert (moved(exponential), exponential.flops) == ([(32768, 0), (128, 0), (0, 32768)], 2 * 8192)
    assert (moved(total), total.flops) == ([(32768, 0), (0, 128)], 8192)
    assert (moved(quotient), quotient.flops) == ([(32768, 0), (128, 0), (0, 32768)], 8192)
    # Fused: x in, the result out; intermediate values stay in the node. Subtract, exp, add to the sum, divide.
    (node,) = fusion.result
    assert node.kind is NodeKind.REDUCTION
    assert node.loops == "32 | 256"
    assert (moved(node), node.flops) == ([(32768, 0), (0, 32768)], 4 * 8192)


def test_layer_norm(fusions: dict[str, Fusion]) -> None:
    (node,) = fusions["layer_norm"].result
    # x, weight and bias (256 * 4 bytes each) in, the result out; mean and variance stay inside.
    assert moved(node) == [(32768, 0), (1024, 0), (1024, 0), (0, 32768)]
    # Sum: 1 for each of 8192; the mean: a division for each of 32 rows. Variance: subtract, square, add. Then, for each
    # element of its loops: divide, add epsilon, rsqrt; subtract, two multiplications and an addition. The same
    # subtraction of the mean is in both, in the same loops, and counts once.
    two_steps = 8192 + 32 + 3 * 8192 + (3 + 4) * 8192 - 8192
    # Torch 2.11 uses Welford's algorithm for both: 6 for each element, and no subtraction to share.
    welford = 6 * 8192 + (3 + 4) * 8192
    assert node.flops in (two_steps, welford)


def test_a_linear_layer_is_an_external_call(fusions: dict[str, Fusion]) -> None:
    node = only(fusions["linear"], NodeKind.EXTERNAL)
    # x is 64 * 128, the weight 256 * 128, the bias 256, the result 64 * 256.
    assert moved(node) == [(64 * 128 * 4, 0), (256 * 128 * 4, 0), (1024, 0), (0, 64 * 256 * 4)]
    # A product of 64 x 128 and 128 x 256: a multiplication and an addition each. Torch leaves the bias out.
    assert node.flops == 2 * 64 * 128 * 256
    assert node.ops == ("aten.addmm",)


def test_a_product_of_two_slices_of_one_buffer_reads_those(fusions: dict[str, Fusion]) -> None:
    node = only(fusions["sliced"], NodeKind.EXTERNAL)
    # Of 4 * 16 * 192 elements, two slices of 4 * 16 * 64; out come 4 * 16 * 16.
    assert moved(node) == [(2 * 4 * 16 * 64 * 4, 0), (0, 4 * 16 * 16 * 4)]
    assert node.flops == 2 * 4 * 16 * 16 * 64


def test_a_gather_reads_at_most_the_requested_rows_or_all_rows(fusions: dict[str, Fusion]) -> None:
    node = only(fusions["gathered"], NodeKind.POINTWISE)
    # 128 ids; 128 rows of 64 from a table of 1000, at most 10 rows from a table of 10; 128 rows out for each table.
    assert moved(node) == [(128 * 8, 0), (128 * 64 * 4, 0), (10 * 64 * 4, 0), (0, 128 * 64 * 4), (0, 128 * 64 * 4)]
    assert node.flops == 0


def test_a_convolution(fusions: dict[str, Fusion]) -> None:
    node = only(fusions["convolved"], NodeKind.EXTERNAL)
    # Bias 4, x 2 * 3 * 8 * 8, weight 4 * 3 * 3 * 3, result 2 * 4 * 8 * 8; Inductor has reordered x and weight.
    assert sorted(moved(node)) == [(0, 2 * 4 * 64 * 4), (4 * 4, 0), (4 * 3 * 9 * 4, 0), (2 * 3 * 64 * 4, 0)]
    # For each of 2 * 4 * 64 results, 3 * 9 products and additions, also in the padding.
    assert node.flops == 2 * (2 * 4 * 64) * (3 * 9)


def test_windows_that_overlap_are_read_once(fusions: dict[str, Fusion]) -> None:
    (node,) = fusions["pooled"].result
    # 4 x 4 windows of 3 x 3 with stride 2 are 144 loads, of all the 9 * 9 elements.
    assert moved(node) == [(81 * 4, 0), (0, 16 * 4)]
    # 8 additions and a multiplication for each of 16.
    assert node.flops == 16 * 9


@pytest.mark.long
def test_a_buffer_changed_in_place_is_read_and_written(fusions: dict[str, Fusion]) -> None:
    fusion = fusions["in_place"]
    (node,) = fusion.result
    # Three nodes: (x + 1)^2, x + 1, and its copy into x. Fused, the copy takes x + 1 from a register.
    assert [moved(each) for each in fusion.nodes] == [[(400, 0), (0, 400)], [(400, 0), (0, 400)], [(0, 400), (400, 0)]]
    assert moved(node) == [(400, 400), (0, 400)]
    # x + 1 is in two nodes, and computed once.
    assert [each.flops for each in fusion.nodes] == [200, 100, 0]
    assert node.flops == 200
    changed = next(each.name for each in fusion.buffers if each.role == "input")
    assert changed in fusion.outputs


def test_a_buffer_changed_by_a_call_is_read_and_written(fusions: dict[str, Fusion]) -> None:
    fusion = fusions["changed_by_a_call"]
    node = only(fusion, NodeKind.EXTERNAL)
    # x in and out of the same buffer, y in. The FLOPs of a custom op are not known.
    assert (moved(node), node.flops) == ([(400, 400), (400, 0)], None)


def test_parts_of_a_concatenation_are_written_in_place(fusions: dict[str, Fusion]) -> None:
    fusion = fusions["joined"]
    first, second = (node for node in fusion.result if node.kind is NodeKind.POINTWISE)
    # Each writes 32 * 64 elements of the concatenated buffer, which the matmul reads; the concatenation moves nothing.
    assert moved(first) == moved(second) == [(8192, 0), (0, 8192)]
    assert moved(only(fusion, NodeKind.NOTHING)) == []
    whole = next(each.buffer for each in first.accesses if each.written)
    assert whole in {each.buffer for each in second.accesses if each.written}
    assert next(each.read for each in only(fusion, NodeKind.EXTERNAL).accesses if each.buffer == whole) == 16384


def test_an_accumulated_buffer_is_read_and_written(fusions: dict[str, Fusion]) -> None:
    copy, added = fusions["scattered"].result
    assert moved(copy) == [(3200, 0), (0, 3200)]
    # 20 ids, 20 * 8 values, added to 20 * 8 elements: each is read, added to, and written.
    assert moved(added) == [(160, 0), (640, 0), (640, 640)]
    assert added.flops == 160


def test_flops_of_an_external_call_without_a_formula_are_unknown_unless_it_only_copies(
    fusions: dict[str, Fusion],
) -> None:
    flops = {node.ops: node.flops for node in fusions["sorted_sums"].result if node.kind is NodeKind.EXTERNAL}
    assert flops == {("aten.sort",): 0, ("aten.cumsum",): None}


WITHOUT = """
import sys
from contextlib import nullcontext
from pathlib import Path
import torch
from ctrace.inspector.capture import capture_hooks
from ctrace.inspector.capture.inprocess import capturing_here

if sys.argv[1] == "without":
    capture_hooks.fusion = lambda recorder, when: nullcontext()
model = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
with capturing_here(Path(sys.argv[2]), build=False):
    torch.compile(model)(torch.rand(2, 8, 32)).sum().backward()
"""


def code(log: Path) -> list[str]:
    return sorted(
        entry.payload for entry in read(log) if isinstance(entry, LogEntry) and entry.kind == "inductor_output_code"
    )


@pytest.mark.slow
def test_the_code_is_the_same_without_our_hook(tmp_path: Path) -> None:
    logs = [tmp_path / "with", tmp_path / "without"]
    for log in logs:
        subprocess.run([sys.executable, "-c", WITHOUT, log.name, str(log)], cwd=ROOT, check=True, timeout=280)
    with_hook, without_hook = map(code, logs)
    assert with_hook == without_hook
    assert len(with_hook) == 2
