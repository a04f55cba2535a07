"""Bytes that a graph part moves; all figures are counted by hand."""

from msgspec.structs import replace

from ctrace.inspector.facts.fusion_facts import BufferRole, NodeKind
from ctrace.inspector.findings.fusion_totals import Totals, session_totals, totals
from tests.support.fusions import EAGER, FUSED, OLD, ROW, SEVERAL, SIZE, SOFTMAX, buffer, layers, node


def test_softmax():
    # x @ w: 3 tensors. exp: 2. sum: one and a row. div: 2 and a row. x + bias: 2.
    unfused = 3 * SIZE + 2 * SIZE + (SIZE + ROW) + (2 * SIZE + ROW) + 2 * SIZE
    fused = unfused - SIZE  # exp is not read for the sum
    least = 4 * SIZE  # x, w; the two results
    around = 3 * SIZE + SIZE + SIZE + 2 * SIZE  # the product; its result and x are read, the two results written
    assert totals(SOFTMAX) == Totals(unfused, fused, least, around, 1)


def test_a_log_without_nodes_has_no_bytes():
    assert totals(OLD) is None
    assert session_totals(SEVERAL) is None
    assert session_totals(EAGER) is None


def test_a_session_adds_up():
    part = layers(2)
    both = session_totals(replace(FUSED, fusions=(part, part)))
    one = totals(part)
    assert one is not None
    assert both == Totals(2 * one.unfused, 2 * one.fused, 2 * one.least, 2 * one.least_with_calls, 4)


def test_an_input_counts_as_far_as_it_is_read():
    half = node("op0", read={"arg0_1": SIZE // 2}, written={"buf0": 8})
    third = node("op1", read={"arg0_1": SIZE // 4}, written={"buf1": 8})
    made = replace(
        SOFTMAX,
        nodes=(half, third),
        result=(half, third),
        buffers=(buffer("arg0_1", BufferRole.INPUT), buffer("buf0", BufferRole.OUTPUT, size=8), buffer("buf1", size=8)),
        outputs=("buf0",),
    )
    found = totals(made)
    assert found is not None
    assert found.least == SIZE // 2 + 8  # buf1 is for nobody


def test_an_output_put_together_by_several_nodes_counts_whole():
    one, other = (node(f"op{each}", read={f"arg{each}_1": SIZE // 2}, written={"buf2": SIZE // 2}) for each in (0, 1))
    buffers = (
        buffer("arg0_1", BufferRole.INPUT),
        buffer("arg1_1", BufferRole.INPUT),
        buffer("buf2", BufferRole.OUTPUT),
    )
    made = replace(SOFTMAX, nodes=(one, other), result=(one, other), buffers=buffers, outputs=("buf2",))
    found = totals(made)
    assert found is not None
    assert found.fused == found.least == 2 * SIZE


def test_an_input_that_is_changed_is_written():
    changed = node("op0", read={"arg0_1": SIZE}, written={"arg0_1": SIZE})
    made = replace(
        SOFTMAX, nodes=(changed,), result=(changed,), buffers=(buffer("arg0_1", BufferRole.INPUT),), outputs=()
    )
    found = totals(made)
    assert found is not None
    assert found.least == found.fused == 2 * SIZE


def test_a_kernel_of_the_user_is_kept_as_it_is():
    own = node("op0", NodeKind.USER, read={"arg0_1": SIZE}, written={"buf0": SIZE})
    after = node("op1", read={"buf0": SIZE}, written={"buf1": SIZE})
    buffers = (buffer("arg0_1", BufferRole.INPUT), buffer("buf0"), buffer("buf1", BufferRole.OUTPUT))
    made = replace(SOFTMAX, nodes=(own, after), result=(own, after), buffers=buffers, outputs=("buf1",))
    assert totals(made) == Totals(4 * SIZE, 4 * SIZE, 2 * SIZE, 4 * SIZE, 1)
