"""Handmade sessions with kernels: their bytes, fused nodes and code."""

from msgspec.structs import replace

from ctrace.inspector.facts.fusion_facts import Access, Buffer, BufferRole, Fusion, FusionRound, Node, NodeKind
from ctrace.inspector.facts.kernel_facts import Argument, Kernel, Launch, OutputCode, Stage, Statement
from ctrace.inspector.facts.session import Environment, Graph, Session, Target
from tests.support.sessions import CWD, ENVIRONMENT, HOSTILE_FILE, HOSTILE_TEXT, MODEL, PARTIAL

SOURCE = """\
import torch


def attend(q, k, v, bias):
    scores = q @ k.transpose(-2, -1) + bias
    largest = scores.amax(dim=-1, keepdim=True)
    exponentials = torch.exp(scores - largest)
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    flat = weights.view(-1, 64)
    return scaled(weights @ v, "a\\n")


def slow(x):
    for row in x:
        print(row)
"""
TRITON = """\
@triton.jit
def triton_per_fused_add_amax_div_exp_sub_sum_0(in_out_ptr0, in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 64
    tmp0 = tl.load(in_out_ptr0 + (r0_1 + 64*x0), xmask, other=0.0)
    tmp1 = tl.load(in_ptr0 + (r0_1), None, eviction_policy='evict_last')
    tmp2 = tmp0 + tmp1
    tmp6 = triton_helpers.max2(tmp5, 1)[:, None].to(tl.float32)
    tmp7 = tmp2 - tmp6
    tmp8 = libdevice.exp(tmp7)
    tl.store(out_ptr2 + (r0_1 + 64*x0), tmp12, xmask)
"""
CPP = """\
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0)
{
    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(64L); x0+=static_cast<int64_t>(16L))
    {
        auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
        auto tmp1 = tmp0.sin();
        tmp1.store(out_ptr0 + static_cast<int64_t>(x0));
    }
}
"""
WRAPPER = """\
async_compile.wait(globals())

class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def call(self, args):
        arg0_1, arg1_1 = args
        buf0 = empty_strided_cuda((64, 64), (64, 1), torch.float32)

        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        return (buf0, )

runner = Runner(partitions=[])
call = runner.call
"""


def at(*lines: int) -> tuple[str, ...]:
    """Places in the model's file."""
    return tuple(f"{MODEL}:{line}" for line in lines)


def _buffer(name: str, role: BufferRole, *shape: int, dtype: str = "float32") -> Buffer:
    size = 4
    for each in shape:
        size *= each
    return Buffer(name, role, dtype, tuple(map(str, shape)), (), "cuda:0", size)


def _tensor(name: str, *shape: int) -> Argument:
    return Argument(name, True, "float32", shape, (shape[-1], 1), 0, "cuda:0")


_NODES = (
    Node("op0", NodeKind.EXTERNAL, ("op0",), "", ("aten.mm",), at(5), (Access("buf0", 0, 16384),), 524288),
    Node("op1", NodeKind.REDUCTION, ("op1",), "64 | 64", ("aten.add", "aten.amax"), at(5, 6), ()),
    Node("op2", NodeKind.POINTWISE, ("op2",), "64, 64", ("aten.sub", "aten.exp"), at(7), ()),
    Node("op3", NodeKind.REDUCTION, ("op3",), "64 | 64", ("aten.sum",), at(8), ()),
    Node("op4", NodeKind.POINTWISE, ("op4",), "64, 64", ("aten.div",), at(8), ()),
    Node("op5", NodeKind.EXTERNAL, ("op5",), "", ("aten.mm",), at(10), (Access("buf5", 0, 8192),), 262144),
    Node("op6", NodeKind.USER, ("op6",), "", (), at(10), ()),
)
_FUSED = Node(
    "op1_op2_op3_op4",
    NodeKind.REDUCTION,
    ("op1", "op2", "op3", "op4"),
    "64 | 64",
    ("aten.add", "aten.amax", "aten.sub", "aten.exp", "aten.sum", "aten.div"),
    at(5, 6, 7, 8),
    (Access("buf0", 16384, 0), Access("arg3_1", 256, 0), Access("buf4", 0, 16384)),
    20480,
)
FUSION = Fusion(
    "0/0",
    Stage.FORWARD,
    7,
    4,
    (FusionRound(7, 4), FusionRound(4, 4)),
    nodes=_NODES,
    result=(_NODES[0], _FUSED, _NODES[5], _NODES[6]),
    buffers=(
        _buffer("arg3_1", BufferRole.INPUT, 64),
        _buffer("buf0", BufferRole.INNER, 64, 64),
        _buffer("buf4", BufferRole.OUTPUT, 64, 64),
        _buffer("buf5", BufferRole.OUTPUT, 64, 32),
    ),
    outputs=("buf4", "buf5"),
)
PER = Kernel(
    "0/0",
    Stage.FORWARD,
    "triton_per_fused_add_amax_div_exp_sub_sum_0",
    "triton",
    ("aten.add", "aten.amax", "aten.sub", "aten.exp", "aten.sum", "aten.div"),
    at(5, 6, 8, 7),
    1,
    (
        Launch(
            ("op1", "op2", "op3", "op4"),
            (),
            at(5, 6, 7, 8),
            (
                _tensor("buf0", 64, 64),
                _tensor("arg3_1", 64),
                _tensor("buf4", 64, 64),
                Argument("64", False, value="64", keyword="xnumel"),
            ),
            call="triton_per_fused_add_amax_div_exp_sub_sum_0.run(buf0, arg3_1, buf4, xnumel=64, stream=stream0)",
            read=16640,
            written=16384,
            flops=20480,
        ),
    ),
    source=TRITON,
    statements=(
        Statement(5, at(5)),
        Statement(6, at(5)),
        Statement(7, at(6)),
        Statement(8, at(7)),
        Statement(9, at(7)),
    ),
)
MM = Kernel(
    "0/0",
    Stage.FORWARD,
    "extern_kernels.mm",
    "external",
    ("aten.mm",),
    at(5, 10),
    2,
    (
        Launch(
            ("op0",),
            ("aten.mm",),
            at(5),
            (_tensor("q", 64, 64), _tensor("k", 64, 64)),
            read=32768,
            written=16384,
            flops=524288,
        ),
        Launch(("op5",), ("aten.mm",), at(10), None, read=24576, written=8192, flops=262144),
    ),
)
USERS = Kernel(
    "0/0", Stage.FORWARD, "scale_kernel_0", "triton", (), at(10), 1, (Launch(("op6",), (), at(10)),), user=True
)
BACKWARD = Kernel(
    "0/0",
    Stage.BACKWARD,
    "triton_poi_fused_mul_0",
    "triton",
    ("aten.mul",),
    (),
    1,
    (Launch(("op0",), read=2048, written=1024, flops=256),),
    source="@triton.jit\ndef triton_poi_fused_mul_0():\n    pass\n",
)
SIN = Kernel(
    "1/0",
    Stage.INFERENCE,
    "cpp_fused_sin_0",
    "cpp",
    ("aten.sin",),
    at(10),
    1,
    (Launch(("op0",), read=256, written=256, flops=64),),
    source=CPP,
    statements=(Statement(7, at(10)), Statement(8, at(10)), Statement(6, ())),
)
KERNELS = Session(
    environment=replace(ENVIRONMENT, device="cuda"),
    target=Target("model.py", "model"),
    graphs=(Graph("0/0", "attend", MODEL, 4, 9), Graph("1/0", "attend", MODEL, 10, 1)),
    breaks=tuple(replace(each, line=15, source="print(row)") for each in PARTIAL.breaks[:1]),
    skips=tuple(replace(each, line=13) for each in PARTIAL.skips[:1]),
    fusions=(FUSION,),
    kernels=(MM, PER, USERS, BACKWARD, SIN),
    code=(OutputCode("0/0", Stage.FORWARD, WRAPPER), OutputCode("1/0", Stage.INFERENCE, "extern void call();\n")),
    listings={MODEL: SOURCE},
)
KNOWN = replace(KERNELS, kernels=(PER, MM, SIN))
OLD = replace(
    KERNELS,
    kernels=tuple(replace(each, launches=(), source="", statements=()) for each in KERNELS.kernels),
    fusions=(replace(FUSION, nodes=(), result=(), buffers=(), outputs=()),),
    code=(),
)
"""As in a log of an older ctrace or of torch alone."""
HOSTILE = Session(
    environment=Environment(cwd=CWD),
    target=Target(HOSTILE_TEXT),
    graphs=(Graph("0/0", HOSTILE_TEXT, HOSTILE_FILE, 1, 1),),
    fusions=(
        replace(
            FUSION,
            nodes=(
                replace(
                    _NODES[1],
                    operations=("op1",),
                    loops=HOSTILE_TEXT,
                    ops=(HOSTILE_TEXT,),
                    lines=(f"{HOSTILE_FILE}:1",),
                ),
            ),
            result=(replace(_NODES[1], accesses=(Access("b", 8, 8),)),),
            buffers=(Buffer("b", BufferRole.OUTPUT, HOSTILE_TEXT, (HOSTILE_TEXT,), (), HOSTILE_TEXT, 8),),
        ),
    ),
    kernels=(
        Kernel(
            "0/0",
            Stage.FORWARD,
            HOSTILE_TEXT,
            HOSTILE_TEXT,
            (HOSTILE_TEXT,),
            (f"{HOSTILE_FILE}:1",),
            1,
            (
                Launch(
                    ("op1",),
                    (HOSTILE_TEXT,),
                    (f"{HOSTILE_FILE}:1",),
                    (Argument(HOSTILE_TEXT, True, HOSTILE_TEXT, (8,)), Argument("", False, value=HOSTILE_TEXT)),
                    call=HOSTILE_TEXT,
                    read=8,
                    written=8,
                    flops=8,
                ),
            ),
            source=f"def f():\n    {HOSTILE_TEXT}\n",
            statements=(Statement(2, (f"{HOSTILE_FILE}:1",)),),
        ),
    ),
    code=(OutputCode(HOSTILE_TEXT, Stage.FORWARD, f"def call(args):\n    {HOSTILE_TEXT}\n"),),
    listings={HOSTILE_FILE: f"{HOSTILE_TEXT}\n"},
)
