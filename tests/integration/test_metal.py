"""`--target`: every kernel is compiled once for the target GPU; a failure costs only its kernel."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.built import IR_STAGES
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.gpus.child.compile_kernels import sources_of
from ctrace.inspector.findings.kernels.built_view import codes, resources
from ctrace.inspector.log.reader import read
from ctrace.inspector.session.build import build
from tests.integration.conftest import Command
from tests.integration.test_built import run

pytest.importorskip("triton")

SOFTMAX = """\
import torch

def model(x):
    return torch.softmax(x * 2, -1)

def inputs():
    return (torch.rand(64, 256),)

scenarios = {"wide": lambda: (torch.rand(32, 256),)}
"""

NARROW = SOFTMAX.partition("scenarios")[0].replace("256", "128")
"""A kernel for which torch tries several configurations; only the first shares memory among its warps."""

CRASH = """\
import os, torch, triton

compile = triton.compile
triton.compile = lambda source, **more: os.abort() if "sum" in source.name else compile(source, **more)

def model(x):
    y = torch.relu(x)
    torch._dynamo.graph_break()
    return y.sum(-1)

def inputs():
    return (torch.rand(64, 256),)
"""

REFUSED = """\
import json, sys
from msgspec import structs
from pathlib import Path
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.features.gpus.child.virtual_gpu import VirtualGpu
from ctrace.inspector.features.gpus.child.compile_kernels import TritonCompiler
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named

gpu = structs.replace(gpu_named("t4"), shared_per_block_optin=int(sys.argv[2]))
with VirtualGpu(gpu, Recorder(TraceLog(Path("log")))).present():
    outcome = TritonCompiler(gpu, Path("caches").absolute()).compile("softmax", Path(sys.argv[1]).read_text())
    print(json.dumps({"refused": outcome.refused, "error": outcome.error}))
"""


def sessions(folder: Path) -> list[Session]:
    return [build(read(log)) for log in sorted(folder.glob(".ctrace/*/trace.log"))]


@pytest.mark.long
@pytest.mark.parametrize(("target", "arch"), [("h100", "sm_90"), pytest.param("t4", "sm_75", marks=pytest.mark.slow)])
def test_kernels_are_compiled_to_machine_code_and_cached(ctrace: Command, target: str, arch: str) -> None:
    ctrace.write("model.py", SOFTMAX)
    cache: dict[str, Any] = {"CTRACE_CACHE_DIR": str(ctrace.folder / "kept")}
    for _ in range(2):  # the wide call makes a graph with dynamic shapes, whose code is generated inline
        result = ctrace("explain", "model.py", "--target", target, "--json", **cache)
        assert result.code == 0, result.err
    first, second = sessions(ctrace.folder)
    assert not first.problems
    made = {(each.graph, each.name) for each in first.kernels if each.language == "triton"}
    assert len(made) == 2
    assert {(each.graph, each.kernel) for each in first.built} == made
    for each in first.built:
        assert 0 < (each.registers or 0) < 256
        assert list(each.seconds) == ["source", "ttir", "ttgir", "llir", "ptx", "cubin"]
        assert each.open != each.chosen
    assert len(resources(first)) == len(first.built)
    several = {(each.graph, each.kernel) for each in first.built if each.open}
    assert {(each.graph, each.subject) for each in first.undecided if each.kind == "configuration"} == several
    for stage in IR_STAGES:
        assert len(codes(first, stage)) == len(first.built)
    assert f".target {arch}" in (codes(first, "ptx")[0].text or "")
    assert "EXIT" in (codes(first, "sass")[0].text or "")
    assert not any(each.cached for each in first.built)
    assert all(each.cached for each in second.built)
    assert {each.hash for each in second.built} == {each.hash for each in first.built}


@pytest.mark.slow
def test_a_crash_affects_only_one_kernel(ctrace: Command) -> None:
    ctrace.write("model.py", CRASH)
    result = ctrace("explain", "model.py", "--target", "h100", "--json", CTRACE_CACHE_DIR=str(ctrace.folder / "kept"))
    assert result.code == 0, result.err
    (session,) = sessions(ctrace.folder)
    (problem,) = session.problems
    assert "sum" in problem.what
    assert "for h100: compiling it crashed: SIGABRT" in problem.what
    assert [each.kernel for each in session.built if "relu" in each.kernel]


@pytest.mark.slow
def test_configurations_that_do_not_fit_are_left_out(ctrace: Command) -> None:
    ctrace.write("model.py", NARROW)
    ctrace.write("compile.py", REFUSED)
    kept: dict[str, Any] = {"CTRACE_CACHE_DIR": str(ctrace.folder / "kept")}
    assert ctrace("explain", "model.py", "--target", "t4", "--json", **kept).code == 0
    (session,) = sessions(ctrace.folder)
    ((_, name, source),) = sources_of(session.code[0].text)
    (ctrace.folder / "kernel.py").write_text(source.replace(name, "softmax"))
    whole = sorted(each.shared or 0 for each in session.built)
    some = json.loads(run(ctrace.folder, "compile.py", "kernel.py", str(whole[-1] - 1)))
    assert not some["error"]
    assert 0 < len(some["refused"]) < len(whole)
    assert all("shared memory" in reason for reason in some["refused"].values())
    none = json.loads(run(ctrace.folder, "compile.py", "kernel.py", "-1"))
    assert "out of resource: shared memory" in none["error"]
    assert len(none["refused"]) >= len(whole)
