"""Parsing the code that Inductor generates: kernel sources, calls and their arguments."""

from typing import Any

import pytest

from ctrace.inspector.facts.kernel_facts import Argument, Layout, PartGenerated, Stage
from ctrace.inspector.findings.kernels.emitted_code import parse
from ctrace.inspector.findings.kernels.kernel_fold import BufferNames

CODE = """
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()

triton_poi_0 = async_compile.triton('triton_poi_0', '''
import triton
def triton_poi_0(in_ptr0): # a \\\\d
    tmp0 = tl.load(in_ptr0)
''', device_str='cuda')

cpp_1 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
#include <x>
extern "C" void kernel(const float* in_ptr0) { auto a = '\\n'; }
''')

async_compile.wait(globals())

class Runner:
    def call(self, args):
        arg0_1, arg1_1 = args
        s77 = arg0_1
        with torch.cuda._DeviceGuard(0):
            buf0 = empty_strided_cuda((s77, 4), (4, 1), torch.float32)
            triton_poi_0_xnumel = 4*s77
            triton_poi_0.run(arg1_1, buf0, triton_poi_0_xnumel, s77 // 2, -1, stream=stream0)
            buf1 = buf0; del buf0  # reuse
            extern_kernels.addmm(arg1_1, reinterpret_tensor(buf1, (4, s77), (1, 4), 2), alpha=1, beta=0.5, out=buf1)
            cpp_1(arg1_1, buf1)
            triton_poi_0.run(buf1, buf1, 1, 1, -1, stream=stream0)
            buf2 = torch.ops.aten.cat.default([arg1_1, buf1], [0, 1])
            buf3 = buf2[0]
        return (buf3, )
"""
KERNELS = ("triton_poi_0", "cpp_1", "extern_kernels.addmm", "torch.ops.aten.cat.default", "extern_kernels.mm")
LAYOUTS = tuple(Layout(name, "float32", (7, 4), (4, 1), 0, "cuda:0") for name in ("arg1_1", "buf0", "buf1"))
PART = PartGenerated(Stage.FORWARD, 0, 3, LAYOUTS, {"s77": 7}, id="0/0")


def tensor(name: str, **other: Any) -> Argument:
    whole: dict[str, Any] = {"dtype": "float32", "shape": (7, 4), "stride": (4, 1), "device": "cuda:0"}
    return Argument(name, tensor=True, **{**whole, **other})


def number(name: str, value: str, keyword: str = "") -> Argument:
    return Argument(name, tensor=False, value=value, keyword=keyword)


def passed(kernel: str, call: int = 0) -> tuple[Argument, ...]:
    emitted = parse(CODE, KERNELS)
    return BufferNames(PART, emitted.assigned).arguments(emitted.calls[kernel][call])


class TestSources:
    def test_each_kernel_as_it_was_emitted(self):
        sources = parse(CODE, KERNELS).sources
        assert sources == {
            "triton_poi_0": "import triton\ndef triton_poi_0(in_ptr0): # a \\d\n    tmp0 = tl.load(in_ptr0)",
            "cpp_1": "#include <x>\nextern \"C\" void kernel(const float* in_ptr0) { auto a = '\\n'; }",
        }

    @pytest.mark.parametrize(
        "text", ["def", "x = '''", "(" * 5000, "x = " + "-" * 10_000 + "1", "a\0b", "x" * 10 + " y"]
    )
    def test_damaged_text_raises_what_is_caught(self, text: str):
        with pytest.raises((ValueError, SyntaxError, RecursionError, MemoryError)):
            parse(text, KERNELS)


class TestCalls:
    def test_in_order_with_their_lines(self):
        calls = parse(CODE, KERNELS).calls
        assert {name: len(each) for name, each in calls.items()} == {
            "triton_poi_0": 2,
            "extern_kernels.addmm": 1,
            "cpp_1": 1,
            "torch.ops.aten.cat.default": 1,
        }
        assert calls["cpp_1"][0].line == "cpp_1(arg1_1, buf1)"
        assert calls["torch.ops.aten.cat.default"][0].line.startswith("buf2 = torch.ops.aten.cat")

    def test_tensors_and_numbers(self):
        assert passed("triton_poi_0") == (
            tensor("arg1_1"),
            tensor("buf0"),
            number("triton_poi_0_xnumel", "28"),
            number("s77 // 2", "3"),
            number("-1", "-1"),
        )

    def test_views_and_keywords(self):
        assert passed("extern_kernels.addmm") == (
            tensor("arg1_1"),
            tensor("buf1", shape=(4, 7), stride=(1, 4), offset=2),
            number("1", "1", "alpha"),
            number("0.5", "0.5", "beta"),
            tensor("buf1", keyword="out"),
        )

    def test_a_list_of_tensors_counts_as_its_tensors(self):
        assert passed("torch.ops.aten.cat.default") == (tensor("arg1_1"), tensor("buf1"), number("[0, 1]", "[0, 1]"))

    @pytest.mark.parametrize("text", ["u0", "x.item()", "1 // 0", "5 % 0", "2 ** 9", "loop", "+".join(["1"] * 900)])
    def test_what_cannot_be_worked_out_stays_as_it_is_written(self, text: str):
        emitted = parse(f"loop = loop\nk({text})", ["k"])
        (argument,) = BufferNames(PART, emitted.assigned).arguments(emitted.calls["k"][0])
        assert not argument.tensor
        assert argument.value == argument.name
