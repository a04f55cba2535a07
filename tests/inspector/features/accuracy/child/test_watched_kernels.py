"""Lines are inserted after each marked call, and nowhere else."""

from ctrace.inspector.features.accuracy.child.watched_kernels import instrumented

CODE = """\
def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    buf0 = empty_strided_cpu((8, 1), (1, 8), torch.float32)
    # [Provenance debug handles] extern_kernels.mm:ctrace0
    buf1 = empty_strided_cpu((8, 8), (8, 1), torch.float32)
    # Topologically Sorted Source Nodes: [mm], Original ATen: [aten.mm]
    extern_kernels.mm(arg0_1, arg1_1, out=buf1)
    del arg0_1
    buf2 = buf1; del buf1  # reuse
    # [Provenance debug handles] cpp_fused_relu_0:ctrace1
    cpp_fused_relu_0(buf2)
    with torch.cuda._DeviceGuard(0):
        # [Provenance debug handles] torch.ops.aten.sort.default:ctrace2
        buf3 = torch.ops.aten.sort.default(buf2)
        buf4 = buf3[0]
    return (buf4, )
"""

TRITON = """\
def call(args):
    arg0_1, = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        # [Provenance debug handles] triton_poi_fused_relu_0:ctrace0
        buf0 = empty_strided_cuda((s0, 8), (8, 1), torch.float32)
        workspace_0 = empty_strided_cuda((64, ), (1, ), torch.uint8)
        workspace_0.zero_()
        triton_poi_fused_relu_0_xnumel = 8*s0
        raw_stream0 = get_raw_stream(0)
        triton_poi_fused_relu_0.run(arg0_1, buf0, s0, stream=raw_stream0)
        # [Provenance debug handles] extern_kernels.mm:ctrace1
        buf1 = empty_strided_cuda((8, 8), (8, 1), torch.float32)
        extern_kernels.mm(buf0, arg0_1, out=buf1)
    return (buf1, )
"""


def test_each_call_tells_directly_after_it() -> None:
    lines = instrumented(CODE, 7).splitlines()
    watching = [at for at, line in enumerate(lines) if line.strip().startswith("_called(")]
    assert [lines[at].strip() for at in watching] == [f"_called(7, {number}, locals())" for number in range(3)]
    before = [lines[at - 1].strip() for at in watching]
    assert [each.partition("(")[0] for each in before] == [
        "extern_kernels.mm", "cpp_fused_relu_0", "buf3 = torch.ops.aten.sort.default",
    ]  # fmt: skip
    assert lines[watching[2]].startswith("        _called")


def test_a_kernel_of_triton_tells_after_its_launch_and_not_after_its_stream() -> None:
    lines = [each.strip() for each in instrumented(TRITON, 7).splitlines()]
    assert [lines[at - 1] for at, line in enumerate(lines) if line.startswith("_called(")] == [
        "triton_poi_fused_relu_0.run(arg0_1, buf0, s0, stream=raw_stream0)",
        "extern_kernels.mm(buf0, arg0_1, out=buf1)",
    ]


def test_arguments_are_watching_under_the_names_of_the_graph() -> None:
    assert "    _entered(7, [arg0_1, arg1_1], locals())" in instrumented(CODE, 7).splitlines()


def test_a_graph_without_inputs_is_entered_too() -> None:
    code = CODE.replace("    arg0_1, arg1_1 = args\n    args.clear()\n", "")
    lines = [each.strip() for each in instrumented(code, 7).splitlines()]
    assert lines[:5] == [
        "def call(args):",
        "[] = args",
        "args.clear()",
        "from ctrace.inspector.features.accuracy.child.watched_kernels import entered as _entered, called as _called",
        "_entered(7, [], locals())",
    ]


def test_code_without_marks_stays_as_it_is() -> None:
    plain = "def call(self, args):\n    return args\n"
    assert instrumented(plain, 0) == plain


def test_a_call_that_only_renames_a_result_tells_before_the_next_one_and_before_the_return() -> None:
    taken = "    # [Provenance debug handles] MultiOutput:ctrace{0}\n    buf{0} = buf3\n"
    relu = "    # [Provenance debug handles] cpp_fused_relu_1:ctrace5\n    cpp_fused_relu_1(buf4)\n"
    code = CODE.replace("        buf4 = buf3[0]\n", taken.format(4) + relu + taken.format(6))
    lines = [each.strip() for each in instrumented(code + "\n\ndef get_args():\n    return []\n", 7).splitlines()]
    assert lines[lines.index("# [Provenance debug handles] cpp_fused_relu_1:ctrace5") - 1] == "_called(7, 4, locals())"
    assert lines[lines.index("cpp_fused_relu_1(buf4)") + 1] == "_called(7, 5, locals())"
    assert lines[lines.index("return (buf4, )") - 1] == "_called(7, 6, locals())"
