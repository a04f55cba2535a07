"""The lines of a kernel's source behind each line of compiled code."""

import pytest

from ctrace.inspector.findings.kernels.at_line import source_lines

SOURCE = """\
import triton

@triton.jit
def exp_kernel(x, y):
    a = load(x)
    b = helpers.exp(a)
    store(y, b)"""
"""Triton compiled it with a line break in front, so its lines are one higher there."""

PTX = """\
.version 8.7
.visible .entry exp_kernel(
	.param .u64 exp_kernel_param_0
)
.reqntid 64
{
	.reg .b32 	%r<72>;
	.loc	1 5 0                          // k.py:5:0
$L__func_begin0:
	.loc	1 5 0
	ld.param.b64 	%rd6, [exp_kernel_param_0];
	.loc	1 6 28                         // k.py:6:28
	// begin inline asm
	ld.global.b32 	%r1, [%rd6];
	.loc	2 182 29                       // helpers.py:182:29 @[ k.py:7:9 ]
	ex2.approx.f32 	%r2, %r1;
	.loc	2 169 15                       // helpers.py:169:15 @[ helpers.py:182:29 @[ k.py:7:9 ] ]
	mul.f32 	%r3, %r2, %r2;
	.loc	3 9 9                          // generate.py:9:9
	nop;
	.loc	1 8 4
	st.global.b32 	[%rd6], %r3;
	ret;
}
	.file	1 "/tmp/k.py"
"""
TTIR = """\
#loc = loc("/tmp/k.py":5:0)
#loc4 = loc(unknown)
module {
  tt.func public @exp_kernel(%x: !tt.ptr<f32> loc("x"(#loc))) attributes {} {
    %a = tt.load %x : !tt.ptr<f32> loc(#loc7)
    %b = math.exp %a : f32 loc(#loc8)
    %c = math.exp %a : f32 loc(#loc9)
    %d = math.exp %a : f32 loc(#loc4)
    tt.return loc(#loc3)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("/tmp/k.py":6:28)
#loc2 = loc("/tmp/k.py":7:9)
#loc3 = loc("/tmp/k.py":8:4)
#loc5 = loc("/tmp/helpers.py":182:29)
#loc7 = loc("a"(#loc1))
#loc8 = loc(callsite(#loc5 at #loc2))
#loc9 = loc(fused[#loc3, #loc1])
"""
LLIR = """\
define ptx_kernel void @exp_kernel(ptr addrspace(1) %0) !dbg !5 {
  %1 = load float, ptr addrspace(1) %0, !dbg !8
  %2 = fmul float %1, %1, !dbg !9
  ret void
}
!5 = distinct !DISubprogram(name: "exp_kernel", file: !1, line: 5, type: !6)
!8 = !DILocation(line: 6, column: 28, scope: !5)
!9 = !DILocation(line: 169, column: 15, scope: !7, inlinedAt: !10)
!10 = !DILocation(line: 7, column: 9, scope: !5)
"""


@pytest.mark.parametrize(
    ("stage", "code", "expected"),
    [
        ("ptx", PTX, ((11, 4), (14, 5), (16, 6), (18, 6), (22, 7), (23, 7))),
        ("ttir", TTIR, ((5, 5), (6, 6), (7, 7), (9, 7))),
        ("ttgir", TTIR, ((5, 5), (6, 6), (7, 7), (9, 7))),
        ("llir", LLIR, ((2, 5), (3, 6))),
        ("sass", PTX, ()),
    ],
)
def test_lines(stage: str, code: str, expected: tuple[tuple[int, int], ...]):
    assert tuple(pair for pair in source_lines(stage, code, SOURCE) if pair[1] != 4 or stage == "ptx") == expected


def test_no_lines_for_another_function():
    assert source_lines("ptx", PTX, SOURCE.replace("exp_kernel", "other")) == ()


def test_lines_outside_of_the_source_are_left_out():
    assert max(line for _, line in source_lines("ptx", PTX.replace("1 8 4", "1 800 4"), SOURCE)) == 6


@pytest.mark.parametrize("stage", ["ptx", "ttir", "llir"])
@pytest.mark.parametrize(
    "code",
    [
        "",
        "\0",
        ".loc 1 2",
        "#loc = loc(#loc)\ntt.func loc(#loc)",
        "!1 = !DILocation(line: 1, inlinedAt: !1)\n x !dbg !1",
    ],
)
def test_damaged_code_has_no_lines(stage: str, code: str):
    assert source_lines(stage, code, SOURCE) == ()
