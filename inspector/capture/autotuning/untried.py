"""Record which templates torch does not try for an operation, and why.

Lowerings ask `use_..._template` of torch/_inductor/utils.py (2.11 to 2.15), each through the name in its own module. An
answer does not say why, so the conditions are read again, each alone, where reading them changes nothing.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.autotuning import Untried

# Each of these imports the functions by name, so that a patch of utils.py would reach none of them.
MODULES = (
    "torch._inductor.kernel.mm",
    "torch._inductor.kernel.bmm",
    "torch._inductor.kernel.conv",
    "torch._inductor.kernel.mm_plus_mm",
    "torch._inductor.mkldnn_lowerings",
)
_FAMILIES = {
    "use_triton_template": ("Triton templates", "TRITON"),
    "use_triton_tma_template": ("Triton templates with TMA", "TRITON"),
    "use_cutlass_template": ("CUTLASS templates", "CUTLASS"),
    "use_nv_universal_gemm_template": ("NVIDIA Universal GEMM templates", "NVGEMM"),
    "use_ck_gemm_template": ("Composable Kernel templates", "CK"),
    "use_ck_conv_template": ("Composable Kernel templates", "CK"),
    "use_cpp_gemm_template": ("C++ templates", "CPP"),
    "use_cpp_bmm_template": ("C++ templates", "CPP"),
}
_FLOATS = ("float16", "bfloat16", "float32")
_CPP = (*_FLOATS, "uint8", "int8")
_NO_REASON = "torch does not say why"


class RefusedTemplates:
    """Collects the templates that torch refuses for the operation under lowering."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._refused: WeakKeyDictionary[Any, dict[str, list[str]]] = WeakKeyDictionary()

    def of(self, node: Any) -> tuple[Untried, ...]:
        """Return the templates refused for a node of the graph under lowering."""
        refused = {} if node is None else self._refused.get(node, {})
        return tuple(Untried(family, tuple(reasons)) for family, reasons in refused.items())

    def install(self, module: ModuleType, patches: ExitStack) -> None:
        """Watch the `use_..._template` calls of one module with lowerings."""
        for name, (family, backend) in _FAMILIES.items():
            if hasattr(module, name):
                asked = self._watched(getattr(module, name), family, backend, is_conv=module.__name__.endswith("conv"))
                patches.enter_context(patched(module, name, asked))

    def _watched(self, original: Callable[..., Any], family: str, backend: str, *, is_conv: bool) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def asked(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            if not answer:
                with self._recorder.watching("templates that torch does not try"):
                    arguments = signature.bind(*args, **kwargs).arguments
                    self._refuse(family, backend, arguments, is_conv=is_conv)
            return answer

        return asked

    def _refuse(self, family: str, backend: str, arguments: dict[str, Any], *, is_conv: bool) -> None:
        from torch._inductor.virtualized import V

        layout = arguments.get("layout") or arguments.get("output_layout")
        node = getattr(V.graph, "current_node", None)
        if layout is None or node is None or not _is_for(layout.device.type, backend):
            return
        reasons = list(_reasons(family, backend, layout, arguments, is_conv=is_conv)) or [_NO_REASON]
        self._refused.setdefault(node, {})[family] = reasons


def _is_for(device: str, backend: str) -> bool:
    """Whether templates of this kind exist for a device at all."""
    import torch

    if backend == "CPP":
        return device == "cpu"
    return device != "cpu" and (backend == "CK") <= (torch.version.hip is not None)


def _reasons(family: str, backend: str, layout: Any, arguments: dict[str, Any], *, is_conv: bool) -> Iterator[str]:
    from torch._inductor import config, utils
    from torch._inductor.runtime.hints import DeviceProperties

    if not (config.max_autotune or config.max_autotune_gemm):
        yield "max_autotune is off"
    enabled = utils._use_conv_autotune_backend if is_conv else utils._use_autotune_backend
    if not enabled(backend):
        option = "max_autotune_conv_backends" if is_conv else "max_autotune_gemm_backends"
        yield f"not in {option} ({getattr(config, option)})"
    dtype = str(layout.dtype).removeprefix("torch.")
    if backend == "CPP":
        yield from _of_cpp(dtype, arguments)
        return
    # Torch caches the answer (`functools.cache`, 2.13), so asking again logs no second warning.
    if not utils.is_big_gpu(layout.device):
        processors = DeviceProperties.create(layout.device).multi_processor_count
        yield f"is_big_gpu is false: {processors} multiprocessors are too few for torch"
    if family == "Triton templates" and dtype not in (*_FLOATS, *_more(arguments)):
        yield f"they have no dtype {dtype}"
    if family.endswith("TMA") and not config.triton.enable_persistent_tma_matmul:
        yield "triton.enable_persistent_tma_matmul is off"


def _more(arguments: dict[str, Any]) -> Iterator[str]:
    if arguments.get("enable_int32"):
        yield "int32"
    if arguments.get("enable_float8"):
        yield from ("float8_e4m3fn", "float8_e5m2")


def _of_cpp(dtype: str, arguments: dict[str, Any]) -> Iterator[str]:
    from torch._inductor import config

    if not config.cpp.weight_prepack:
        yield "cpp.weight_prepack is off"
    if dtype not in _CPP:
        yield f"they have no dtype {dtype}"
    if arguments.get("require_constant_mat2", True) and not _is_constant(arguments["mat2"]):
        yield "the weight is not a constant of the graph, which freezing makes it in inference without gradients"


def _is_constant(box: Any) -> bool:
    """Whether a matrix is stored with the graph, as torch requires of weights that it packs."""
    from torch._inductor import ir

    held = box.unwrap_view() if isinstance(box, ir.BaseView) else box
    while isinstance(held, ir.TensorBox | ir.BaseView):
        held = held.unwrap_view() if isinstance(held, ir.BaseView) else held.data
    return isinstance(held, ir.StorageBox) and bool(held.is_module_buffer())
