"""Handmade runs of Inductor's scheduler."""

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
    Score,
)
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from tests.support.sessions import ENVIRONMENT, HEALTHY, MODEL

MIB = 1024 * 1024
SIZE = 4 * MIB
"""Bytes of a tensor of 1024 x 1024 in float32."""


def buffer(
    name: str, role: BufferRole = BufferRole.INNER, shape: tuple[str, ...] = ("1024", "1024"), size: int = SIZE
) -> Buffer:
    return Buffer(name, role, "float32", shape, ("1024", "1")[: len(shape)], "cpu", size)


def node(
    name: str,
    kind: NodeKind = NodeKind.POINTWISE,
    loops: str = "1048576",
    ops: str = "",
    line: int = 0,
    read: dict[str, int] | None = None,
    written: dict[str, int] | None = None,
) -> Node:
    accesses = [Access(buffer, size, 0) for buffer, size in (read or {}).items()]
    accesses += [Access(buffer, 0, size) for buffer, size in (written or {}).items()]
    lines = (f"{MODEL}:{line}",) if line else ()
    return Node(name, kind, tuple(name.split("_")), loops, tuple(ops.split()), lines, tuple(accesses))


def fused(first: Node, second: Node, accesses: tuple[Access, ...], loops: str = "") -> Node:
    """Join two nodes."""
    return Node(
        f"{first.name}_{second.name}",
        max(first.kind, second.kind),
        first.operations + second.operations,
        loops or first.loops,
        first.ops + second.ops,
        tuple(dict.fromkeys(first.lines + second.lines)),
        accesses,
    )


PRODUCT = node(
    "op0", NodeKind.EXTERNAL, "", "aten.mm", 8, {"arg0_1": SIZE, "arg1_1": SIZE}, {"buf0": SIZE}
)  # y = x @ w
ROW = 4096
EXP = node("op1", loops="1048576", ops="aten.exp", line=9, read={"buf0": SIZE}, written={"buf1": SIZE})
SUM = node("op2", NodeKind.REDUCTION, "1024 | 1024", "aten.sum", 10, {"buf1": SIZE}, {"buf2": ROW})  # of each row
DIV = node("op3", loops="1048576", ops="aten.div", line=11, read={"buf1": SIZE, "buf2": ROW}, written={"buf3": SIZE})
BIAS = node("op4", loops="1024, 1024", ops="aten.add aten.mul", line=12, read={"arg0_1": SIZE}, written={"buf4": SIZE})
EXP_SUM = fused(EXP, SUM, (Access("buf0", SIZE, 0), Access("buf1", 0, SIZE), Access("buf2", 0, ROW)), "1024 | 1024")

SOFTMAX = Fusion(
    "0/0",
    Stage.FORWARD,
    5,
    4,
    rounds=(
        FusionRound(
            5,
            4,
            fused=(("op1", "op2"),),
            tried=4,
            candidates=(
                FusionCandidate("op1", "op2", Score(2, 0, SIZE, 0, -1)),
                FusionCandidate("op1", "op3", Score(2, 0, ROW, 0, -2)),
            ),
            refused=(Refusal("op2", "op3", "memory deps did not match"), Refusal("op1", "op4", "no shared data")),
        ),
        FusionRound(
            4,
            4,
            tried=2,
            refused=(Refusal("op1_op2", "op3", "numel/rnumel mismatch (reduce) (1024, 1048576), (1024, 1)"),),
        ),
        FusionRound(4, 4, reorder=True, tried=2, refused=(Refusal("op1_op2", "op3", "memory deps did not match"),)),
    ),
    refused=4,
    nodes=(PRODUCT, EXP, SUM, DIV, BIAS),
    result=(PRODUCT, EXP_SUM, DIV, BIAS),
    buffers=(
        buffer("arg0_1", BufferRole.INPUT),
        buffer("arg1_1", BufferRole.INPUT),
        buffer("buf0"),
        buffer("buf1"),
        buffer("buf2", shape=("1024",), size=ROW),
        buffer("buf3", BufferRole.OUTPUT),
        buffer("buf4", BufferRole.OUTPUT),
    ),
    outputs=("buf3", "buf4"),
)
OLD = Fusion("0/1", Stage.BACKWARD, 7, 6, (FusionRound(7, 6, (("op0", "op1"),)), FusionRound(6, 6)), refused=2)
"""As in a log of an older ctrace."""


def layers(number: int) -> Fusion:
    """The same two missed pairs in many layers, and a matmul of each layer's input."""
    nodes, buffers = [], [buffer("arg0_1", BufferRole.INPUT)]
    for each in range(number):
        before = f"buf{2 * each - 1}" if each else "arg0_1"
        nodes.append(
            node(f"op{2 * each}", NodeKind.EXTERNAL, "", "aten.mm", 8, {before: SIZE}, {f"buf{2 * each}": SIZE})
        )
        nodes.append(
            node(
                f"op{2 * each + 1}",
                ops="aten.relu",
                line=9,
                read={f"buf{2 * each}": SIZE},
                written={f"buf{2 * each + 1}": SIZE},
            )
        )
        buffers += [buffer(f"buf{2 * each}"), buffer(f"buf{2 * each + 1}")]
    last = buffers[-1].name
    buffers[-1] = replace(buffers[-1], role=BufferRole.OUTPUT)
    rounds = (FusionRound(2 * number, 2 * number, tried=0),)
    return Fusion(
        "1/0", Stage.INFERENCE, 2 * number, 2 * number, rounds, 0, tuple(nodes), tuple(nodes), tuple(buffers), (last,)
    )


FUSED = replace(HEALTHY, fusions=(SOFTMAX,))
SEVERAL = replace(HEALTHY, fusions=(SOFTMAX, OLD, layers(12)))
EAGER = Session(
    environment=replace(ENVIRONMENT, backend="eager"), graphs=HEALTHY.graphs, compilations=HEALTHY.compilations
)
_EVIL = "\x1b[31m\u202e\x07`[bold]"
HOSTILE = replace(
    HEALTHY,
    fusions=(
        replace(
            SOFTMAX,
            graph="0/0",
            rounds=tuple(
                replace(each, refused=tuple(replace(one, reason=_EVIL * 20) for one in each.refused))
                for each in SOFTMAX.rounds
            ),
            result=tuple(
                replace(
                    each,
                    name=f"{each.name}{_EVIL * 9}",
                    loops=_EVIL * 20,
                    ops=(_EVIL * 9, _EVIL),
                    lines=(f"/{_EVIL * 9}.py:3",),
                )
                for each in SOFTMAX.result
            ),
        ),
    ),
)
