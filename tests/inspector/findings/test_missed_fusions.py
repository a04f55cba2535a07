"""Pairs that share data and were not fused: bytes, order and reasons."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.fusion_facts import (
    Access,
    Buffer,
    BufferRole,
    Fusion,
    FusionCandidate,
    FusionRound,
    Node,
    NodeKind,
    Refusal,
)
from ctrace.inspector.findings.missed_fusions import Shared, alike, not_fused, top_missed
from tests.support.fusions import EAGER, FUSED, OLD, ROW, SEVERAL, SIZE, SOFTMAX, buffer, layers, node

HALF = SIZE // 2


def _part(nodes: tuple[Node, ...], buffers: tuple[Buffer, ...], *rounds: FusionRound) -> Fusion:
    outputs = tuple(each.name for each in buffers if each.role is BufferRole.OUTPUT)
    return replace(SOFTMAX, nodes=nodes, result=nodes, buffers=buffers, rounds=rounds, outputs=outputs)


def _pair(first: Node, second: Node, *rounds: FusionRound, device: str = "cpu") -> str:
    """Return the reason's key for two nodes that share a buffer."""
    shared = replace(buffer("shared", BufferRole.INPUT), device=device)
    nodes = tuple(replace(each, accesses=(*each.accesses, Access("shared", SIZE, 0))) for each in (first, second))
    return not_fused(_part(nodes, (shared,), *rounds)).missed[0].reason.key


def test_softmax():
    found = not_fused(SOFTMAX)
    assert [(each.first.name, each.second.name, each.bytes) for each in found.missed] == [
        ("op1_op2", "op3", 2 * SIZE + 2 * ROW),  # both results of the first are for the second alone
        ("op0", "op1_op2", 2 * SIZE),
        ("op0", "op4", SIZE),  # both read x
    ]
    assert found.hidden == 3


def test_an_output_is_written_anyway():
    result = tuple(replace(each, role=BufferRole.OUTPUT) if each.name == "buf0" else each for each in SOFTMAX.buffers)
    found = not_fused(replace(SOFTMAX, buffers=result)).missed
    assert next(each.bytes for each in found if each.second.name == "op1_op2") == SIZE


def test_what_somebody_else_reads_is_written_anyway():
    made = node("op0", written={"buf0": SIZE})
    readers = tuple(node(f"op{each}", read={"buf0": SIZE}) for each in (1, 2))
    found = not_fused(_part((made, *readers), (buffer("buf0"),))).missed
    assert [each.bytes for each in found] == [SIZE, SIZE, SIZE]
    assert [each.shared[0].produced for each in found] == [True, True, False]


@pytest.mark.parametrize(
    ("one", "other", "sure", "perhaps"),
    [
        (SIZE, HALF, HALF, 0),
        (HALF, SIZE, HALF, 0),
        (HALF, HALF, 0, HALF),
        (HALF + 8, HALF, 8, HALF - 8),
    ],
)
def test_two_parts_of_a_tensor_may_be_different_parts(one: int, other: int, sure: int, perhaps: int):
    nodes = node("op0", read={"arg0_1": one}), node("op1", read={"arg0_1": other})
    found = not_fused(_part(nodes, (buffer("arg0_1", BufferRole.INPUT),))).missed
    assert [each.shared for each in found] == [(Shared("arg0_1", sure, perhaps=perhaps),)]


@pytest.mark.parametrize(("parts", "sure"), [((7, 7), HALF), ((7, 8), 0)])
def test_the_same_part_is_known_by_its_number(parts: tuple[int, int], sure: int):
    nodes = tuple(
        replace(node(f"op{each}"), accesses=(Access("arg0_1", HALF, 0, part, part),)) for each, part in enumerate(parts)
    )
    found = not_fused(_part(nodes, (buffer("arg0_1", BufferRole.INPUT),))).missed
    assert [each.bytes for each in found] == [sure]


def test_of_parts_put_together_each_maker_has_its_own():
    makers = tuple(node(f"op{each}", written={"buf2": HALF}) for each in (0, 1))
    reader = node("op2", read={"buf2": SIZE})
    found = not_fused(_part((*makers, reader), (buffer("buf2"),)))
    assert [(each.first.name, each.bytes, each.perhaps) for each in found.missed] == [
        ("op0", HALF, 0),
        ("op1", HALF, 0),
    ]


def test_what_is_overwritten_is_not_read_back():
    first, second = (node(f"op{each}", written={"arg0_1": SIZE}) for each in (0, 1))
    reader = node("op2", read={"arg0_1": SIZE})
    found = not_fused(_part((first, second, reader), (buffer("arg0_1", BufferRole.INPUT),)))
    assert [(each.first.name, each.second.name) for each in found.missed] == [("op1", "op2")]
    assert found.hidden == 2


def test_nodes_without_code_are_not_kernels():
    nothing = node("op1", NodeKind.NOTHING, read={"arg0_1": SIZE})
    found = not_fused(_part((node("op0", read={"arg0_1": SIZE}), nothing), (buffer("arg0_1", BufferRole.INPUT),)))
    assert (found.missed, found.hidden) == ((), 0)


def test_without_nodes_nothing_is_known():
    assert not_fused(OLD).missed == ()


def test_the_same_pair_in_every_layer_is_one_kind():
    kinds = alike(not_fused(layers(12)).missed)
    assert [(kind.example.first.ops, kind.times) for kind in kinds] == [(("aten.mm",), 12), (("aten.relu",), 11)]


def test_the_most_expensive_one_of_a_run():
    found = top_missed(SEVERAL)
    assert found is not None
    assert (found.graph, found.stage, found.first.name) == (SOFTMAX.graph, SOFTMAX.stage, "op1_op2")
    assert top_missed(EAGER) is None
    assert top_missed(replace(FUSED, fusions=(OLD,))) is None


def test_two_calls_of_a_library_are_never_the_most_expensive_one():
    calls = tuple(node(f"op{each}", NodeKind.EXTERNAL, ops="aten.mm", read={"arg0_1": SIZE}) for each in (0, 1))
    part = _part(calls, (buffer("arg0_1", BufferRole.INPUT),))
    assert not_fused(part).missed[0].bytes == SIZE
    assert top_missed(replace(FUSED, fusions=(part,))) is None


MM = node("op0", NodeKind.EXTERNAL, "", "aten.addmm")
SORT = node("op0", NodeKind.EXTERNAL, "", "aten.sort")
ADD = node("op1", ops="aten.add")
OTHER = node("op2", ops="aten.mul")
ROWS = node("op3", NodeKind.REDUCTION, "64 | 128", "aten.sum")


def _refused(first: str, second: str, reason: str) -> FusionRound:
    return FusionRound(2, 2, tried=1, refused=(Refusal(first, second, reason),))


@pytest.mark.parametrize(
    ("first", "second", "rounds", "device", "key"),
    [
        (MM, ADD, (), "cpu", "library_product"),
        (MM, ADD, (), "cuda:0", "library_product_gpu"),
        (MM, ROWS, (), "cuda:0", "library_product"),
        (MM, replace(MM, name="op9"), (), "cpu", "library_products"),
        (MM, replace(SORT, name="op9"), (), "cpu", "library_both"),
        (SORT, ADD, (), "cuda:0", "library"),
        (SORT, ADD, (_refused("op0", "op1", "node1 is extern or nop"),), "cpu", "library"),
        (ADD, OTHER, (_refused("op1", "op2", "memory deps did not match"),), "cpu", "memory_deps"),
        (ADD, OTHER, (_refused("op2", "op1", "memory deps did not match"),), "cpu", "memory_deps"),
        (
            ADD,
            OTHER,
            (_refused("op1", "op2", "will create cycle"), _refused("op1", "op2", "exceeds max fusion")),
            "cpu",
            "size",
        ),
        (ADD, OTHER, (_refused("op1", "op2", "something new"),), "cpu", "unmapped"),
        (ADD, OTHER, (_refused("op1", "op7", "exceeds max fusion"),), "cpu", "unknown"),
        (ADD, ROWS, (_refused("op1", "op3", ""),), "cpu", "loops"),
        (ADD, OTHER, (FusionRound(2, 2, candidates=(FusionCandidate("op1", "op2"),)),), "cpu", "dropped"),
        (ADD, replace(OTHER, kind=NodeKind.USER), (), "cuda:0", "own_kernel"),
    ],
)
def test_reasons(first: Node, second: Node, rounds: tuple[FusionRound, ...], device: str, key: str):
    assert _pair(first, second, *rounds, device=device) == key


@pytest.mark.parametrize(("between", "key"), [(63, "unknown"), (64, "far")])
def test_torch_asks_only_about_the_next_64(between: int, key: str):
    nodes = tuple(node(f"op{each}", read={"arg0_1": SIZE}) for each in range(between + 2))
    found = not_fused(_part(nodes, (buffer("arg0_1", BufferRole.INPUT),))).missed
    ends = next(each for each in found if (each.first, each.second) == (nodes[0], nodes[-1]))
    assert ends.reason.key == key


def test_a_sentence_shows_the_loops_and_a_switch_its_risk():
    loops, tiles = (
        not_fused(_part(nodes, (buffer("arg0_1", BufferRole.INPUT),), _refused("op0", "op1", torch))).missed[0].reason
        for nodes, torch in (
            (_readers("64 | 128", "128"), "numel/rnumel mismatch (reduce) (64, 128), (128, 1)"),
            (_readers("64", "64"), "tiling mismatch ([64], [64], [64])"),
        )
    )
    assert loops.sentence.endswith("only if both loop over the same sizes: `64 | 128` and `128`.")
    assert loops.torch.startswith("numel/rnumel mismatch (reduce)")
    assert tiles.fix.startswith("`torch._inductor.config.triton.tiling_prevents_pointwise_fusion = False` (risk: the ")


def _readers(first: str, second: str) -> tuple[Node, ...]:
    return tuple(node(f"op{each}", loops=loops, read={"arg0_1": SIZE}) for each, loops in enumerate((first, second)))
