"""`--build`: compiled kernels and times of launches, without any effect on the measured program."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.built_view import codes
from ctrace.inspector.log.reader import read
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.run_capture import capture
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import resolve
from ctrace.inspector.session.build import build
from tests.integration.conftest import Command
from tests.support.places import ROOT
from tests.support.warm import WarmServer

PROGRAM = """\
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CALLS = []

@torch.library.custom_op("ctracetest::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    CALLS.append(1)
    return x + 1

@counted.register_fake
def _(x):
    return torch.empty_like(x)

@torch.compile
def step(x, weight, table, index):
    table.index_copy_(0, index, x @ weight + table[index])
    weight.mul_(0.5)
    noise = torch.nn.functional.dropout(counted(x @ weight), 0.5)
    order = torch.randperm(4, device=x.device)
    return torch.softmax(noise, -1), order, torch.bernoulli(x.sigmoid())

torch.manual_seed(0)
arguments = [torch.rand(size, device=DEVICE) for size in ((8, 16), (16, 16), (9, 16))]
index = torch.tensor([5, 1, 2, 8, 0, 7, 4, 3], device=DEVICE)  # each once: a GPU adds in any order
for _ in range(2):
    results = step(*arguments, index)
for value in (*arguments, *results, torch.rand(3, device=DEVICE), torch.rand(3)):
    print(value.float().sum().item(), value.flatten()[:3].tolist())
print(len(CALLS), torch.get_default_dtype())
"""

TRITON = """\
import json, sys, triton, triton.language as tl
from pathlib import Path
from types import SimpleNamespace
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.triton_builds import TritonBuilds

recorder = Recorder(TraceLog(Path(sys.argv[1])))
builds = TritonBuilds(recorder)
triton.knobs.compilation.listener = lambda src, **found: builds.listen(**found)

@triton.jit
def exp(x, y, n, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)), mask=i < n)

class Kernel:
    inductor_meta = {"kernel_name": "triton_poi_fused_exp_0"}
    compile_results = []

kernel = Kernel()
for size in (256, 1024, 1024):  # the last one is a hit in the cache, and was measured before
    source = ASTSource(exp, {"x": "*fp32", "y": "*fp32", "n": "i32", "SIZE": "constexpr"}, {(3,): size})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    config = SimpleNamespace(num_warps=4, num_stages=3, kwargs={"SIZE": size})
    result = SimpleNamespace(config=config, kernel=SimpleNamespace(hash=compiled.hash))
    if size == 256 or "again" in dir():
        builds.compiled(kernel, result)
    again = True
kernel.compile_results = [result]
part = PartIdentity({"frame_id": 0, "frame_compile_id": 0, "attempt": 0}, "forward")
builds.belongs(kernel, part)
kernel.launchers = [SimpleNamespace(config=config)]
builds.launched(kernel)
"""

ATTENTION = """\
import torch

def model(q, k, v):
    s = q @ k.transpose(-1, -2) / 32
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)) @ v

def inputs():
    return tuple(torch.rand(4, 1024, 1024, device="cuda", requires_grad=True) for _ in range(3))
"""


def last_session(folder: Path) -> Session:
    (log,) = folder.glob(".ctrace/*/trace.log")
    return build(read(log))


def generated(folder: Path) -> set[str]:
    return {file.name for kind in ("*.py", "*.cpp") for file in (folder / "cache").rglob(kind)}


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def run(folder: Path, *words: str) -> str:
    paths = {
        "PYTHONPATH": str(ROOT),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
        "TRITON_CACHE_DIR": str(folder / "tc"),
    }
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.slow
def test_a_program_computes_the_same_as_without_ctrace(ctrace: Command) -> None:
    ctrace.write("program.py", PROGRAM)
    plain = run(ctrace.folder, "program.py")
    code = generated(ctrace.folder)
    result = ctrace("run", "--build", "program.py")
    assert result.code == 0, result.err
    assert result.out == plain
    assert (
        generated(ctrace.folder) == code != set()
    )  # file names are hashes of the content: Inductor generated the same code
    session = last_session(ctrace.folder)
    assert not session.problems
    timed = {each.kernel for each in session.timed}
    assert "extern_kernels.mm" in timed
    assert not any("counted" in name for name in timed)  # it may do more than compute
    assert all(each.seconds and each.launches >= 3 for each in session.timed), session.timed


@pytest.mark.slow
def test_a_program_that_profiles_itself_is_left_alone(ctrace: Command) -> None:
    program = """\
        import torch
        f = torch.compile(lambda x: torch.softmax(x @ x, -1))
        with torch.profiler.profile():
            f(torch.rand(8, 8))
        """
    ctrace.write("program.py", textwrap.dedent(program))
    result = ctrace("run", "--build", "program.py")
    assert result.code == 0, result.err
    assert {each.why for each in last_session(ctrace.folder).timed} == {"the program was being profiled"}


def test_triton_reports_the_resources_for_an_absent_gpu(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    log = tmp_path / "trace.log"
    (tmp_path / "compile.py").write_text(TRITON)
    run(tmp_path, "compile.py", str(log))
    session = build(read(log))
    small, large = session.built
    assert (small.chosen, large.chosen) == (False, True)
    assert (large.kernel, large.warps, large.blocks) == ("triton_poi_fused_exp_0", 4, {"SIZE": 1024})
    assert 0 < (large.registers or 0) < 256  # read from the binary, since it was never loaded
    assert list(large.seconds) == ["source", "ttir", "ttgir", "llir", "ptx", "cubin"]
    assert not small.ir
    texts = {stage: (codes(session, stage)[0].text or "") for stage in ("ttir", "ttgir", "llir", "ptx", "sass")}
    for stage, part in {
        "ttir": "tt.func", "ttgir": "#ttg.blocked", "llir": "define", "ptx": ".target sm_90", "sass": "EXIT",
    }.items():  # fmt: skip
        assert part in texts[stage], stage


@pytest.mark.skipif("not has_gpu()", reason="needs a GPU")
class TestOnAGpu:
    """Run this by hand on a machine with a GPU."""

    def test_attention(self, ctrace: Command) -> None:
        ctrace.write("attention.py", ATTENTION)
        result = ctrace("explain", "attention.py", "--build", "--train", "--json")
        assert result.code == 0, result.err
        session = last_session(ctrace.folder)
        assert not session.problems
        assert not session.dangers
        triton = {(each.stage, each.name) for each in session.kernels if each.language == "triton"}
        assert {(each.stage, each.kernel) for each in session.built if each.chosen} == triton
        for each in session.built:
            assert {"ttir", "ttgir", "llir", "ptx", "sass"} <= set(each.ir)
            assert list(each.seconds) == ["source", "ttir", "ttgir", "llir", "ptx", "cubin"]
        assert session.gpu is not None
        assert session.gpu.bandwidth
        assert session.gpu.copied
        assert session.gpu.copied < session.gpu.bandwidth

    def test_registers_equal_those_of_the_binary(self, ctrace: Command) -> None:
        dump = """\

            import ctrace.inspector.capture.kernels.triton_builds as builds
            from ctrace.inspector.capture.kernels.triton_builds import resources
            describe = builds.TritonBuilds._describe
            def both(self, kernel, result):
                found = describe(self, kernel, result)
                read = resources(self._compilations[found["hash"]].code["cubin"])
                assert read["registers"] == found["registers"], (read, found)
                assert read["spills"] == found["spills"], (read, found)
                print("AGREED", found["kernel"])
                return found
            builds.TritonBuilds._describe = both
            """
        ctrace.write("attention.py", ATTENTION.replace("return (e", "return torch.sin(e") + textwrap.dedent(dump))
        result = ctrace("explain", "attention.py", "--build", "--train", "--json")
        assert result.code == 0, result.err
        session = last_session(ctrace.folder)
        assert not session.problems
        assert any(each.spills for each in session.built)  # the sine of large numbers needs memory
        assert result.err.count("AGREED") >= len(session.built) > 0

    def test_times_are_close_to_the_profilers(self, ctrace: Command) -> None:
        ctrace.write("attention.py", ATTENTION)
        profile = """\
            import torch, attention
            f, arguments = torch.compile(attention.model), attention.inputs()
            for _ in range(3):
                f(*arguments).sum().backward()
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
                for _ in range(10):
                    f(*arguments).sum().backward()
                torch.cuda.synchronize()
            names = ("triton_", "gemm")
            print(sum(e.self_device_time_total for e in p.key_averages() if any(n in e.key for n in names)) / 10 / 1e6)
            """
        ctrace.write("profile_it.py", textwrap.dedent(profile))
        result = ctrace("explain", "attention.py", "--build", "--train", "--json")
        assert result.code == 0, result.err
        ours = sum(each.seconds or 0 for each in last_session(ctrace.folder).timed)
        theirs = float(run(ctrace.folder, "profile_it.py"))
        assert 0.9 < ours / theirs < 1.5  # ctrace measures with cold caches

    def test_inside_a_cuda_graph(self, ctrace: Command) -> None:
        ctrace.write("model.py", ATTENTION)
        result = ctrace("explain", "model.py", "--build", "--mode", "reduce-overhead", "--json")
        assert result.code == 0, result.err
        session = last_session(ctrace.folder)
        assert session.built
        assert {each.why for each in session.timed} == {"CUDA graphs are on, and its memory may belong to one"}
        assert session.gpu is not None
        assert session.gpu.copied is None


@pytest.mark.parametrize("is_whole", [True, False])
def test_comparing_and_timing_can_be_left_out(tmp_path: Path, warm_server: WarmServer | None, is_whole: bool):
    options = Options(build=True, compare=is_whole, time_kernels=is_whole)
    model = resolve(str(ROOT / "sample_models" / "mlp.py"))
    child = None if warm_server is None else warm_server.child()
    session = capture(model, options, store=Store(tmp_path), timeout=250, child=child)
    assert session.failure is None
    assert (bool(session.compared), bool(session.timed)) == (is_whole, is_whole)
    assert session.built or session.kernels
