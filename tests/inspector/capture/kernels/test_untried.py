"""Which templates torch does not try, and why, as it is asked on a CPU."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("torch")

import torch
from torch._inductor import config, utils
from torch._inductor.virtualized import V

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.record_autotuning import RefusedTemplates


class Node:
    """A node of a graph."""


class Silent:
    @contextmanager
    def watching(self, _what: str) -> Any:
        yield


def asked(name: str, device: str, *, module: str = "torch._inductor.kernel.mm", dtype: Any = None, **more: Any) -> Any:
    """Ask whether a template may be used, get no for an answer, and return what was noted."""
    lowering = SimpleNamespace(__name__=module, **{name: lambda layout, mat2=None, enable_int32=False: False})
    untried, node = RefusedTemplates(cast(Recorder, Silent())), Node()
    layout = SimpleNamespace(device=torch.device(device), dtype=dtype or torch.float32)
    with ExitStack() as patches, V.set_graph_handler(cast(Any, SimpleNamespace(current_node=node))):
        untried.install(cast(Any, lowering), patches)
        getattr(lowering, name)(layout, **more)
    return {each.what: list(each.reasons) for each in untried.of(node)}


@pytest.fixture(autouse=True)
def _small_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "is_big_gpu", lambda _device: True)


def test_max_autotune_is_off() -> None:
    assert asked("use_triton_template", "cuda") == {"Triton templates": ["max_autotune is off"]}


def test_a_backend_is_not_enabled() -> None:
    with config.patch(max_autotune=True, max_autotune_gemm_backends="ATEN"):
        found = asked("use_cutlass_template", "cuda")
    assert found == {"CUTLASS templates": ["not in max_autotune_gemm_backends (ATEN)"]}


def test_a_convolution_has_backends_of_its_own() -> None:
    with config.patch(max_autotune=True, max_autotune_conv_backends="ATEN"):
        found = asked("use_triton_template", "cuda", module="torch._inductor.kernel.conv")
    assert found == {"Triton templates": ["not in max_autotune_conv_backends (ATEN)"]}


def test_a_dtype_that_templates_lack() -> None:
    with config.patch(max_autotune=True):
        assert asked("use_triton_template", "cuda", dtype=torch.int32) == {
            "Triton templates": ["they have no dtype int32"]
        }
        assert asked("use_triton_template", "cuda", dtype=torch.int32, enable_int32=True) == {
            "Triton templates": ["torch does not say why"]
        }


def test_a_small_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.runtime.hints import DeviceProperties

    monkeypatch.setattr(utils, "is_big_gpu", lambda _device: False)
    monkeypatch.setattr(DeviceProperties, "create", lambda _device: SimpleNamespace(multi_processor_count=40))
    with config.patch(max_autotune=True):
        found = asked("use_triton_template", "cuda")
    assert found == {"Triton templates": ["is_big_gpu is false: 40 multiprocessors are too few for torch"]}


def test_templates_of_another_device_are_not_missed() -> None:
    assert asked("use_cpp_gemm_template", "cuda") == {}
    assert asked("use_triton_template", "cpu") == {}


def test_a_weight_that_is_no_constant() -> None:
    with config.patch(max_autotune=True):
        found = asked("use_cpp_gemm_template", "cpu", mat2=object())
    assert found["C++ templates"] == [
        "the weight is not a constant of the graph, which freezing makes it in inference without gradients"
    ]
