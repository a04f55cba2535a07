"""A session with one generated kernel, as a capture for a GPU records it."""

from typing import Any

from ctrace.inspector.facts.graph_facts import Graphs, GraphStage, Printed
from ctrace.inspector.facts.kernel_facts import Kernel, KernelBuffer, KernelCall, Pointer, Stage
from ctrace.inspector.facts.session import Compilation, Session

SOURCE = """
import triton
import triton.language as tl

@triton_heuristics.pointwise(
    size_hints={'x': 16384},
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'}},
    inductor_meta={'grid_type': 'Grid1D'},
)
@triton.jit
def triton_poi_fused_exp_mul_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 16384
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None)
    tmp1 = tl.full([1], 0.5, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = tl_math.exp(tmp2)
    tmp4 = tmp3 * tmp0
    tl.store(out_ptr0 + (x0), tmp4, None)
"""
GRAPH = """class GraphModule(torch.nn.Module):
    def forward(self, a: "f32[32, 64][64, 1]cuda:0", b: "f32[64, 512][512, 1]cuda:0"):
        # File: /home/me/model.py:7 in forward, code: h = a @ b
        mm: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.mm.default(a, b);  a = b = None

        # File: /home/me/model.py:8 in forward, code: return torch.exp(h * 0.5) * h
        mul: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.mul.Tensor(mm, 0.5)
        exp: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.exp.default(mul);  mul = None
        mul_1: "f32[32, 512][512, 1]cuda:0" = torch.ops.aten.mul.Tensor(exp, mm);  exp = mm = None
        return (mul_1,)
"""
NAME = "triton_poi_fused_exp_mul_0"


def session(
    *,
    graph: str = GRAPH,
    language: str = "triton",
    user: bool = False,
    workspaces: int = 0,
    stride: tuple[str, str] = ("512", "1"),
    node: str = "mul_1",
    calls: Any = None,
) -> Session:
    """Make a session; the arguments change one fact each."""
    kernel = Kernel(
        "0/0",
        Stage.INFERENCE,
        NAME,
        language,
        ops=("aten.exp", "aten.mul"),
        lines=("/home/me/model.py:8",),
        user=user,
        source=SOURCE,
    )
    shape = ("32", "512")
    call = KernelCall(
        Stage.INFERENCE,
        NAME,
        pointers=(Pointer("in_ptr0", "buf0", ""), Pointer("out_ptr0", "", "buf1")),
        sizes=(),
        numels=(("xnumel", "16384"), ("r0_numel", "1")),
        buffers=(
            KernelBuffer("buf0", "buffer", "mm", "float32", shape, stride, "cuda:0", ""),
            KernelBuffer("buf1", "buffer", node, "float32", shape, stride, "cuda:0", ""),
        ),
        symbols={},
        workspaces=workspaces,
        graph="0/0",
    )
    printed = (Printed(GraphStage.INFERENCE, graph), Printed(GraphStage.POST_GRAD, graph))
    return Session(
        compilations=(Compilation("0/0", "forward", "/home/me/model.py", 6),),
        kernels=(kernel,),
        kernel_calls=(call,) if calls is None else calls,
        printed={"0/0": Graphs(printed)} if graph else {},
    )
