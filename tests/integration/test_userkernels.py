"""User-written Triton kernels in a compiled region, compared with torch's own analysis.

With a GPU everything runs. Without one, Triton gets a driver that says there is an H100 and launches nothing: torch
then traces, analyses and emits as for a GPU, and results mean nothing.
"""

import importlib
import inspect
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ctrace
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.user_kernels import Epilogue, ParameterKind, UserKernel
from tests.integration.conftest import Command
from tests.support.places import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
GPU = torch.cuda.is_available()
SIZE = 1000
KINDS = ("plain", "with_warps", "in_place", "by_assembly", "tuned", "even", "by_op")


@pytest.fixture(scope="module")
def zoo() -> Any:
    return importlib.import_module("tests.integration.triton_zoo")


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the driver on a machine without a GPU."""
    torch._dynamo.reset()
    if not GPU:
        _stand_in(monkeypatch)
    yield
    torch._dynamo.reset()


def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.utils._triton
    import triton.compiler.compiler
    from torch._dynamo.device_interface import CpuInterface
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    stub = SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32), get_current_device=lambda: 0)
    monkeypatch.setattr(driver, "_active", stub)
    monkeypatch.setattr(torch.utils._triton, "has_triton", lambda **_: True)  # include_cpu=... from 2.15 on
    # From 2.15 on, Inductor asks Triton's backend which options of a launch it takes (_inductor/codegen/wrapper.py).
    make_backend = triton.compiler.compiler.make_backend
    for module in (triton.compiler, triton.compiler.compiler):
        monkeypatch.setattr(module, "make_backend", lambda _target: make_backend(stub.get_current_target()))
    monkeypatch.setattr(CpuInterface, "raise_if_triton_unavailable", staticmethod(lambda *_: None))
    for launcher in (JITFunction, Autotuner):
        monkeypatch.setattr(launcher, "run", lambda *_args, **_kwargs: None)


def example() -> Any:
    return torch.arange(SIZE, dtype=torch.float32, device="cuda" if GPU else "cpu")


def traced(function: Callable[..., Any]) -> Session:
    """Compile and call a function once; its result is eager's."""
    with ctrace.trace() as trace:
        result = torch.compile(function)(example())
    if GPU:
        torch.testing.assert_close(result, function(example()))
    return trace.session


def only(session: Session) -> UserKernel:
    assert session.problems == ()
    (kernel,) = session.user_kernels
    return kernel


def torchs_answer(kernel: Any, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture) -> tuple[set[str], bool]:
    """Ask torch which tensors a kernel writes, and whether it only assumes so."""
    from torch._higher_order_ops import triton_kernel_wrap as wrap

    spellings = ("identify_accessed_tensors", "identify_mutated_tensors")  # of torch 2.13; of torch 2.11
    analyze = next(getattr(wrap, name) for name in spellings if hasattr(wrap, name))
    logger = logging.getLogger("torch._dynamo")
    caplog.clear()
    logger.addHandler(caplog.handler)
    try:
        found = analyze(kernel, arguments, {})
    finally:
        logger.removeHandler(caplog.handler)
    names = found if isinstance(found, list) else [each.name for each in found.read_writes.writes]
    tensors = {name for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    return set(names) & tensors, any("assuming every input is mutated" in text for text in caplog.messages)


def arguments_of(kind: str) -> tuple[str, dict[str, Any]]:
    """Return the kernel of a kind, with the arguments of its call."""
    x, out = example(), example()
    both = {"x_ptr": x, "out_ptr": out, "size": SIZE}
    return {
        "plain": ("double", {**both, "block": 256}),
        "with_warps": ("double", {**both, "block": 256}),
        "in_place": ("double_inplace", {"x_ptr": x, "size": SIZE, "block": 256}),
        "by_assembly": ("double_by_assembly", {**both, "block": 256}),
        "tuned": ("double_tuned", both),
        "even": ("double_even", {**both, "even": False}),
        "by_op": ("double", {**both, "block": 256}),
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_written_parameters_equal_torchs(kind: str, zoo: Any, caplog: pytest.LogCaptureFixture) -> None:
    kernel = only(traced(getattr(zoo, kind)))
    name, arguments = arguments_of(kind)
    called = getattr(zoo, name)
    jit = called
    while hasattr(jit.fn, "arg_names"):
        jit = jit.fn
    config = called.configs[0].kwargs if hasattr(called, "configs") else {}
    written, assumed = torchs_answer(jit, {**arguments, **config}, caplog)
    assert set(kernel.written) == written
    assert bool(kernel.assumed) == assumed
    assert assumed == (kind == "by_assembly")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_has_its_places_and_its_graph(kind: str, zoo: Any) -> None:
    session = traced(getattr(zoo, kind))
    kernel = only(session)
    name, _ = arguments_of(kind)
    file = Path(inspect.getsourcefile(zoo) or "")
    source = file.read_text().splitlines()
    assert kernel.kernel == name
    assert Path(kernel.file) == file
    assert source[kernel.line - 1].startswith(f"def {name}(")
    (place,) = kernel.lines
    assert ("doubled(x)" if kind == "by_op" else f"{name}[") in source[int(place.rpartition(":")[2]) - 1]
    keys = {(each.graph, each.stage, each.name) for each in session.user_kernels}
    mine = [each for each in session.kernels if (each.graph, each.stage, each.name) in keys]
    assert [each.name for each in mine] == [kernel.name]
    assert mine[0].language == "triton"


def test_constants_numbers_and_grid(zoo: Any) -> None:
    kernel = only(traced(zoo.plain))
    kinds = {each.name: (each.kind, each.fixed, each.value) for each in kernel.parameters}
    assert kinds["size"] == (ParameterKind.NUMBER, False, str(SIZE))
    assert kinds["block"] == (ParameterKind.CONSTANT, True, "256")
    assert kernel.grids == (("4", "1", "1"),)
    assert kernel.decorators == ("JITFunction",)
    assert kernel.epilogue in (Epilogue.SWITCHED_OFF, Epilogue.UNKNOWN_TO_TORCH)
    assert kernel.op is None


def test_an_autotuned_kernel_has_its_configurations_and_key(zoo: Any) -> None:
    kernel = only(traced(zoo.tuned))
    assert kernel.autotuned
    assert kernel.key == ("size",)
    assert [(each["block"], each["num_warps"]) for each in kernel.configs] == [("256", "4"), ("512", "8")]
    assert kernel.grids == (("4", "1", "1"), ("2", "1", "1"))


def test_heuristics_are_part_of_the_configurations(zoo: Any) -> None:
    kernel = only(traced(zoo.even))
    assert kernel.decorators == ("Autotuner", "Heuristics", "JITFunction")
    assert (kernel.heuristics, kernel.key) == (("even",), ("size",))
    assert [each["even"] for each in kernel.configs] == ["False", "False"]


def test_num_warps_at_a_call_makes_a_configuration(zoo: Any) -> None:
    kernel = only(traced(zoo.with_warps))
    assert not kernel.autotuned
    assert [each["num_warps"] for each in kernel.configs] == ["2"]


def test_a_triton_op_has_its_registrations(zoo: Any) -> None:
    op = only(traced(zoo.by_op)).op
    assert op is not None
    assert (op.name, op.fallbacks, op.autograd, op.flops) == ("ctrace_zoo::doubled", ("cpu",), True, True)
    source = Path(op.file).read_text().splitlines()
    assert any(line.startswith("def doubled(") for line in source[op.line - 1 : op.line + 1])


def test_after_a_reset_a_plain_kernel_does_not_belong_to_an_op(zoo: Any) -> None:
    traced(zoo.by_op)
    with ctrace.trace() as trace:
        torch.compile(zoo.by_op)(example())
        torch._dynamo.reset()
        torch.compile(zoo.plain)(example())
    assert [each.op is None for each in trace.session.user_kernels] == [False, True]


def test_a_hook_is_a_break_with_advice(zoo: Any) -> None:
    with ctrace.trace() as trace:
        torch.compile(zoo.hooked)(example())
    refused = [each for each in trace.session.breaks if "GB0361" in each.gb]
    assert refused
    for each in refused:
        assert "pre_hook or post_hook" in each.reason
        assert "reset_to_zero" in each.fix


def test_the_code_is_the_same_with_and_without_ctrace(
    zoo: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ctrace.inspector.capture.core.recorder import Recorder
    from ctrace.inspector.capture.core.trace_log import TraceLog
    from ctrace.inspector.capture.kernels.record_user_kernels import userkernels

    recorder = Recorder(TraceLog(tmp_path / "trace.log"))
    for kind in ("tuned", "by_op"):
        emitted_code(
            getattr(zoo, kind), monkeypatch
        )  # state that torch keeps after the first run is in both later runs
        without = emitted_code(getattr(zoo, kind), monkeypatch)
        with userkernels(recorder, lambda name, action: action(importlib.import_module(name))):
            assert emitted_code(getattr(zoo, kind), monkeypatch) == without
    recorder.log.close()


def emitted_code(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the code that Inductor writes for a function, without running it."""
    from torch._inductor.graph import GraphLowering

    codes: list[str] = []

    def compile_to_module(graph: Any) -> Any:
        code, _ = graph.codegen()
        codes.append(code.value)
        raise RuntimeError("enough")

    torch._dynamo.reset()
    with monkeypatch.context() as patch, torch._inductor.config.patch(force_disable_caches=True):
        patch.setattr(GraphLowering, "compile_to_module", compile_to_module)
        with pytest.raises(Exception, match="enough"):
            torch.compile(function)(example())
    named = re.sub(r"AOT ID: \['\d+_", "AOT ID: ['", codes[0])  # the file counts graphs
    return re.sub(r"/tmp\w+/", "/", named)  # without caches, each run has its own folder


@pytest.mark.long
@pytest.mark.skipif(GPU, reason="it shows what happens without a GPU")
def test_without_a_gpu_the_drivers_error_is_reported(ctrace: Command) -> None:
    head = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport torch\nfrom tests.integration.triton_zoo import by_op"
    )
    ctrace.write("model.py", f"{head}\nmodel = by_op\ninputs = (torch.rand(8),)\n")
    result = ctrace("explain", "model.py", "--json")
    assert result.report["verdict"] == "failed"
    messages = ("0 active drivers", "triton not built with the 'cpu' backend")  # the second from 2.15 on
    assert any(each in result.report["error"]["message"] for each in messages)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_built_kernels_give_the_results_of_eager(kind: str, zoo: Any) -> None:
    function = getattr(zoo, kind)
    with ctrace.trace(build=True) as trace:
        result = torch.compile(function)(example())
    torch.testing.assert_close(result, function(example()))
    assert only(trace.session).name


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_a_backward_has_the_kernel_of_its_gradient(ctrace: Command) -> None:
    result = ctrace("explain", str(ROOT / "sample_models" / "triton_op.py"), "--train", "--json")
    assert result.code == 0, result.err
    triton = {each["stage"]: each["name"] for each in result.report["kernels"] if "sigmoid_gelu" in each["name"]}
    assert set(triton) == {"forward", "backward"}
