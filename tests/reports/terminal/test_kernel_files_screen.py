"""Complete dumps of code that torch 2.11 generated for an H100, and of handmade runs."""

import ast
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import DumpError
from ctrace.inspector.facts.graph_facts import Graphs, GraphStage, Printed
from ctrace.inspector.facts.kernel_facts import Argument, Kernel, Launch, OutputCode, Stage
from ctrace.inspector.facts.session import Compilation, Environment, Session, Target
from ctrace.reports.dump.dumped import Dumped, NotDumped
from ctrace.reports.dump.dumping import dump
from ctrace.reports.terminal.kernel_detail import dump_screen
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.places import DATA

CODE = DATA / "code"
SAMPLES = sorted(each.stem for each in CODE.glob("*.txt"))
HOSTILE = "a'''\nimport os\n\x1b[31m\u202e\"\"\"|`<b>"

SMALL = '''\
import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels
aten = torch.ops.aten
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
async_compile = AsyncCompile()
cpp_fused_gather_0 = async_compile.cpp_pybinding(['const int64_t*', 'const float*', 'float*'], r"""
extern "C"  void  kernel(const int64_t* in_ptr0,
                       const float* in_ptr1,
                       float* out_ptr0)
{
    auto tmp0 = in_ptr0[x0];
    auto tmp1 = 10L;
    auto tmp2 = c10::convert<int64_t>(tmp1);
    auto tmp3 = int64_t(tmp0 + tmp2);
    auto tmp4 = tmp0 < 0;
    auto tmp5 = tmp4 ? tmp3 : tmp0;
    auto tmp6 = in_ptr1[x1 + 4L*tmp5];
    out_ptr0[x0] = tmp6;
}
""")
other_1 = async_compile.metal('other_1', 'source')
async_compile.wait(globals())
del async_compile
def call(args):
    arg0_1, arg1_1, arg2_1 = args
    args.clear()
    s0 = arg2_1
    buf0 = empty_strided_cpu((s0, 4), (4, 1), torch.float32)
    cpp_fused_gather_0(arg0_1, arg1_1, buf0)
    buf1 = empty_strided_cpu((4, 4), (4, 1), torch.float32)
    extern_kernels.mm(reinterpret_tensor(buf0, (4, s0), (1, 4), 0), buf0, out=buf1)
    buf2 = torch.ops.mine.make.default(buf1)
    buf3 = buf2[0]
    other_1(buf3)
    extern_kernels.mm(buf3, buf1, out=buf1)
    return (buf1, )
def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((6, ), (1, ), device='cpu', dtype=torch.int64)
    arg1_1 = rand_strided((10, 4), (4, 1), device='cpu', dtype=torch.float32)
    arg2_1 = 6
    return [arg0_1, arg1_1, arg2_1]
'''
GRAPH = """\
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "i64[6]", arg1_1: "f32[10, 4]", arg2_1: "Sym(s0)"):
        index: "f32[6, 4]" = torch.ops.aten.index.Tensor(arg1_1, [arg0_1]);  arg1_1 = None
        rand: "f32[4]" = torch.ops.aten.rand.default([4]);
        mm: "f32[4, 4]" = torch.ops.aten.mm.default(index, index)
        add: "f32[4, 4]" = torch.ops.aten.add.Tensor(mm, rand);  mm = rand = None
        copy_: "i64[6]" = torch.ops.aten.copy_.default(arg0_1, arg0_1)
        return (index, add)
"""


def session(code: str, *kernels: Kernel, graph: str = "") -> Session:
    printed = (
        {"0/0": Graphs((Printed(GraphStage.INFERENCE, graph), Printed(GraphStage.POST_GRAD, graph)))} if graph else {}
    )
    return Session(
        environment=Environment(torch="2.11.0", device="cpu"),
        target=Target(path="model.py"),
        compilations=(Compilation("0/0", "f", "model.py", 1),),
        code=(OutputCode("0/0", Stage.INFERENCE, code),),
        kernels=kernels,
        printed=printed,
    )


@pytest.fixture
def small(tmp_path: Path) -> Dumped:
    kernels = (
        Kernel(
            "0/0", Stage.INFERENCE, "cpp_fused_gather_0", "cpp", ("aten.index",), ("/p/model.py:3",),
            launches=(Launch(("op0",), ("aten.index",), ("/p/model.py:3",), read=160, written=96, flops=0),),
        ),
        Kernel(
            "0/0", Stage.INFERENCE, "extern_kernels.mm", "external", ("aten.mm",), (HOSTILE,), calls=2,
            launches=(Launch(ops=(HOSTILE,), arguments=(Argument("buf3", tensor=True),), flops=192), Launch()),
        ),
    )  # fmt: skip
    return dump(session(SMALL, *kernels, graph=GRAPH), tmp_path / "d")


def read(dumped: Dumped, name: str) -> str:
    return (dumped.folder / dumped.parts[0].folder / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_file_is_python(tmp_path: Path, sample: str):
    dumped = dump(session((CODE / f"{sample}.txt").read_text()), tmp_path / "d")
    files = [path for path in dumped.files if path.suffix == ".py"]
    assert dumped.left_out == ()
    assert len(files) == len(dumped.parts[0].kernels) + 1
    for path in files:
        compile(path.read_text(), str(path), "exec")
    assert sorted(dumped.files) == sorted(path for path in (tmp_path / "d").rglob("*") if path.is_file())


@pytest.mark.parametrize("sample", SAMPLES)
def test_kernels_equal_the_emitted_ones(tmp_path: Path, sample: str):
    code = (CODE / f"{sample}.txt").read_text()
    dumped = dump(session(code), tmp_path / "d")
    for kernel in dumped.parts[0].kernels:
        if kernel.language == "triton":
            body = code.split(f"def {kernel.name}(", 1)[1].split("''', device_str", 1)[0]
            assert body in (dumped.folder / kernel.file).read_text()


def test_indices_stay_in_bounds(tmp_path: Path):
    dumped = dump(session((CODE / "embedding_training.txt").read_text()), tmp_path / "d")
    text = read(dumped, "triton_poi_fused_embedding_native_dropout_0.py")
    limits = dict(re.findall(r'"below": (\d+)}, +# (\w+)', text))
    assert limits == {"5000": "primals_2"}
    assert "load_seed_offset" in text
    wrapper = read(dumped, "wrapper.py")
    assert re.findall(r'"below": (\d+)}, +# (\w+)', wrapper) == [("5000", "primals_2"), ("5000", "primals_5")]
    assert "'random numbers', ('buf2', 'buf3')" in wrapper
    assert "'an earlier kernel used random numbers', ('buf4',)" in wrapper


def test_sizes_come_from_the_call(tmp_path: Path):
    dumped = dump(session((CODE / "dynamic.txt").read_text()), tmp_path / "d")
    text = read(dumped, "triton_red_fused__softmax_amax_mul_sub_0.py")
    assert '"shape": (33, 77), "stride": (77, 1)' in text
    assert "    77,  # s27\n    33,  # s77\n" in text
    assert ".run(arg2_1, buf2, s27, s77, s27, stream=stream0)" in text


def test_the_wrapper_contains_no_kernel_source(small: Dumped):
    wrapper = read(small, "wrapper.py")
    assert "in_ptr0" not in wrapper
    assert "_load('cpp_fused_gather_0.py')" in wrapper
    tree = ast.parse(wrapper)
    lines = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAUNCHES"
    )
    text = wrapper.splitlines()
    assert "cpp_fused_gather_0(arg0_1" in text[min(lines) - 1]
    assert [entry[0][0] for entry in lines.values()] == [
        "cpp_fused_gather_0", "mm", "torch.ops.mine.make.default", "other_1", "mm",
    ]  # fmt: skip


def test_files_and_left_out_kernels(small: Dumped):
    names = {each.name: each for each in small.parts[0].kernels if each.file}
    assert list(names) == ["cpp_fused_gather_0", "mm", "mine.make.default"]
    assert (names["cpp_fused_gather_0"].bytes, names["cpp_fused_gather_0"].flops) == (256, 0)
    assert [(each.name, each.why) for each in small.left_out] == [
        ("other_1", "ctrace cannot dump kernels of this kind"),
        ("mm", "its argument buf3 is not known"),
    ]
    text = read(small, "cpp_fused_gather_0.py")
    assert '"below": 10},  # arg0_1' in text
    assert "BYTES = 256\nFLOPS = 0\n" in text


def test_the_graph_marks_random_outputs(small: Dumped):
    text = read(small, "graph.py")
    values = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
    }
    assert values["NOT_COMPARABLE"] == {1: "random numbers of torch.ops.aten.rand.default"}
    assert values["CHANGED_INPUTS"] == [0]
    assert values["PLACEHOLDERS"] == ["arg0_1", "arg1_1", "arg2_1"]
    line = next(number for number, names in values["ASSIGNED"].items() if names == ["index"])
    assert text.splitlines()[line - 1].strip().startswith("index:")


@pytest.mark.parametrize(
    "graph", ["no graph", "class GraphModule(torch.nn.Module):\n    def forward(self):\n        return (\n", GRAPH * 2]
)
def test_a_graph_that_cannot_run(tmp_path: Path, graph: str):
    dumped = dump(session(SMALL, graph=graph), tmp_path / "d")
    assert dumped.parts[0].compared == "torch's text of the graph is not a Python module with one graph"
    assert not (dumped.folder / dumped.parts[0].folder / "graph.py").exists()


def test_a_graph_with_a_higher_order_op(tmp_path: Path):
    graph = GRAPH.replace("torch.ops.aten.rand.default(", "torch.ops.higher_order.cond(")
    why = dump(session(SMALL, graph=graph), tmp_path / "d").parts[0].compared
    assert why == "the graph calls torch.ops.higher_order.cond, which needs more than its text"


@pytest.mark.parametrize("code", ["", "def f(", "#include <x>\nvoid f();", "x = 1", "def call(args):\n    pass\n" * 2])
def test_code_of_another_kind(tmp_path: Path, code: str):
    dumped = dump(session(code), tmp_path / "d")
    assert dumped.parts[0].wrapper or dumped.left_out


def test_a_kernel_cannot_reuse_a_name_of_the_file(tmp_path: Path):
    code = SMALL.replace(
        "async_compile.metal('other_1', 'source')", "async_compile.triton('other_1', 'def run(): pass')"
    )
    dumped = dump(session(code.replace("other_1(buf3)", "other_1.run(buf1)")), tmp_path / "d")
    why = "its source defines run, a name that the dumped file also defines"
    assert NotDumped("other_1", why) in dumped.left_out
    compile(read(dumped, "wrapper.py"), "wrapper.py", "exec")


def test_no_code(tmp_path: Path):
    with pytest.raises(DumpError, match="no code"):
        dump(Session(), tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_readme_and_index(small: Dumped):
    assert_golden("dump-readme.md", (small.folder / "README.md").read_text(encoding="utf-8"))
    index = json.loads((small.folder / "index.json").read_text())
    part = index["parts"][0]
    assert (part["graph"], part["stage"], part["wrapper"]) == ("0/0", "inference", "0_0-inference/wrapper.py")
    assert part["kernels"][0] == {
        "name": "cpp_fused_gather_0", "language": "cpp", "file": "0_0-inference/cpp_fused_gather_0.py", "left_out": None,
        "ops": ["aten.index"], "lines": ["/p/model.py:3"], "launches": 1, "bytes": 256, "flops": 0,
        "basis": "emitted", "bases": {"bytes": "computed", "flops": "computed"}, "built": [], "code": [],
    }  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_screen(small: Dumped, width: int):
    shown = replace(small, folder=Path("kernels"))
    assert_golden(f"dump-{width}.txt", drawn(dump_screen(shown), width))


def test_torchs_own_benchmark_is_left_out(tmp_path: Path):
    body = "def other_1(x): pass\n\nif __name__ == '__main__':\n    raise SystemExit(3)\n"
    code = SMALL.replace("async_compile.metal('other_1', 'source')", f"async_compile.triton('other_1', {body!r})")
    dumped = dump(session(code.replace("other_1(buf3)", "other_1.run(buf1)")), tmp_path / "d")
    text = read(dumped, "other_1.py")
    assert "def other_1(x): pass" in text
    assert "SystemExit(3)" not in text
