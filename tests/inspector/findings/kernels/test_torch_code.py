"""Kernels from the code and stack traces that torch itself logs."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Problem, Session
from ctrace.inspector.findings.kernels.emitted_code import with_torchs_kernels
from ctrace.inspector.runs import load as loading
from ctrace.inspector.runs.load import load_log
from tests.support.helpers import Log
from tests.support.places import DATA

CODE = """
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
# Topologically Sorted Source Nodes: [relu], Original ATen: [aten.relu, aten.add]
triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', \'\'\'
@triton.jit
def triton_poi_fused_relu_0(in_ptr0): pass
\'\'\', device_str='cuda')
cpp_fused_sum_1 = async_compile.cpp_pybinding(['float*'], r\'\'\'
extern "C" void kernel(float* out) {}
\'\'\')
def call(args):
    arg0_1, = args
    buf0 = empty_strided_cuda((4, 4), (4, 1), torch.float32)
    # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.mm]
    extern_kernels.mm(arg0_1, arg0_1, out=buf0)
    triton_poi_fused_relu_0.run(buf0, 16, stream=stream0)
    cpp_fused_sum_1(buf0)
    triton_poi_fused_relu_0.run(buf0, 16, stream=stream0)
    return (buf0, )

def benchmark_compiled_module(times=10):
    extern_kernels.bmm(1, 2)
"""
STACK = 'File "/home/user/project/model.py", line 7, in forward\n    return torch.relu(x @ x)\n'
_SPAN = {"name": "compile_fx.<locals>.bw_compiler", "ph": "B", "ts": 1.0}


def session_of(path: Path, *codes: str, backward: bool = False, stacks: bool = True) -> Session:
    log = Log().compiled("0/0")
    if backward:
        log.record("chromium_event", {}, at="0/0", payload=json.dumps(_SPAN))
    for code in codes:
        log.record("inductor_output_code", {"filename": "/tmp/c.py"}, at="0/0", payload=code)
        if stacks:
            found = {"triton_poi_fused_relu_0:1": [STACK], "extern_kernels.mm:2": [STACK]}
            log.artifact("inductor_provenance_tracking_kernel_stack_traces", json.dumps(found), at="0/0")
    path.write_text(log.text, encoding="utf-8")
    return load_log(path)


@pytest.mark.parametrize("least", [1, 1 << 40])
def test_kernels_have_code_calls_ops_and_lines(tmp_path: Path, least: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loading, "_LARGE", least)
    session, problems = with_torchs_kernels(session_of(tmp_path / "a.log", CODE))
    assert problems == ()
    assert [(each.name, each.language, each.calls, each.ops, each.lines) for each in session.kernels] == [
        ("extern_kernels.mm", "external", 1, ("aten.t", "aten.mm"), ("/home/user/project/model.py:7",)),
        ("triton_poi_fused_relu_0", "triton", 2, ("aten.relu", "aten.add"), ("/home/user/project/model.py:7",)),
        ("cpp_fused_sum_1", "cpp", 1, (), ()),
    ]
    assert session.kernels[1].source.startswith("@triton.jit")
    assert session.code[0].text == CODE


@pytest.mark.parametrize("backward", [False, True])
def test_the_open_phase_tells_forward_from_backward(tmp_path: Path, backward: bool):
    session, _ = with_torchs_kernels(session_of(tmp_path / "a.log", CODE, backward=backward))
    assert {each.stage for each in session.kernels} == {Stage.BACKWARD if backward else Stage.FORWARD}


def test_a_backward_that_a_cache_loads_follows_its_forward(tmp_path: Path):
    loading_span = {"name": "AOTAutogradCache.inductor_load", "ph": "B", "ts": 1.0}
    log = Log().compiled("0/0")
    for graph in ("aot_forward_graph", "aot_backward_graph"):
        log.record(graph, {}, at="0/0", payload="")
    for _ in range(2):
        log.record("chromium_event", {}, at="0/0", payload=json.dumps(loading_span))
        log.record("inductor_output_code", {"filename": "/tmp/c.py"}, at="0/0", payload=CODE)
        log.record("chromium_event", {}, at="0/0", payload=json.dumps({**loading_span, "ph": "E", "ts": 2.0}))
    (tmp_path / "a.log").write_text(log.text, encoding="utf-8")
    assert [each.stage for each in load_log(tmp_path / "a.log").torch_code] == [Stage.FORWARD, Stage.BACKWARD]


def test_without_stacks_the_lines_are_not_known(tmp_path: Path):
    session, _ = with_torchs_kernels(session_of(tmp_path / "a.log", CODE, stacks=False))
    assert {each.lines for each in session.kernels} == {()}


def test_code_that_is_damaged_is_a_problem(tmp_path: Path):
    session, problems = with_torchs_kernels(session_of(tmp_path / "a.log", "def call(:", CODE))
    assert len(session.kernels) == 3
    assert problems[0].startswith("the code of graph 0/0 (forward) cannot be parsed (SyntaxError")


@pytest.mark.parametrize("text", ['{"extern_kernels.mm:2": [', "[" * 100_000, '["extern_kernels.mm:2"]'])
def test_stacks_that_cannot_be_read_are_a_problem(tmp_path: Path, text: str):
    plain = session_of(tmp_path / "a.log", CODE)
    damaged = replace(plain, torch_code=tuple(replace(each, stack_text=text) for each in plain.torch_code))
    session, problems = with_torchs_kernels(damaged)
    assert len(session.kernels) == 3
    assert {each.lines for each in session.kernels} == {()}
    assert problems[0].startswith("the stack traces of the kernels of graph 0/0 (forward) cannot be parsed (")
    assert session.problems[-1] == Problem(problems[0], is_doubt=True)


def test_a_run_of_ctrace_keeps_its_own_kernels():
    session = load_log(DATA / "fused.log")
    assert with_torchs_kernels(session) == (session, ())


def test_the_session_itself_has_no_kernels_that_were_not_asked_for(tmp_path: Path):
    session = session_of(tmp_path / "a.log", CODE)
    assert (session.kernels, session.code) == ((), ())
    assert len(session.torch_code) == 1
