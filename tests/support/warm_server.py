"""The server process of `warm.py`: import torch with Inductor once, and fork a process for each capture.

It is ctrace's own server (`inspector/capture/fork_server.py`) with these changes: it imports Inductor, too, and does
once what Inductor does before the first graph of a process, none of which depends on the program (`PREPARATIONS`); and
each fork takes on the folder, the environment and the standard input of the command that requested it. In a build of
torch for CUDA, it asks no driver where none is installed: torch uses no GPU in a fork of a process that has asked.
"""

import importlib
import inspect
import json
import logging
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ctrace.inspector.capture import fork_server

INDUCTOR = (
    "sympy.tensor.tensor",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._inductor.bounds",
    "torch._inductor.choices",
    "torch._inductor.codegen.cpu_device_op_overrides",
    "torch._inductor.codegen.cpp_wrapper_cpu_array_ref",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cpp_wrapper_mps",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.cuda.device_op_overrides",
    "torch._inductor.codegen.halide",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.codegen.mps",
    "torch._inductor.codegen.mps_device_op_overrides",
    "torch._inductor.codegen.mtia.device_op_overrides",
    "torch._inductor.codegen.pallas",
    "torch._inductor.codegen.python_wrapper_mtia",
    "torch._inductor.codegen.rocm.rocm_cpp_scheduling",
    "torch._inductor.codegen.segmented_tree",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.xpu.device_op_overrides",
    "torch._inductor.codegen.xpu.xpu_combined_scheduling",
    "torch._inductor.compile_fx",
    "torch._inductor.cudagraph_trees",
    "torch._inductor.extern_node_serializer",
    "torch._inductor.fx_passes.apply_gumbel_max_trick",
    "torch._inductor.fx_passes.efficient_conv_bn_eval",
    "torch._inductor.fx_passes.freezing_patterns",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.fx_passes.quantization",
    "torch._inductor.hooks",
    "torch._inductor.kernel_template_choice",
    "torch.utils.cpp_extension",
)
"""What Inductor imports when it compiles the first graph for a CPU; a module that this torch lacks is left out."""

PREPARATIONS = (
    ("torch._inductor.cpu_vec_isa", "pick_vec_isa"),  # six small builds in each new folder of caches
    ("torch._inductor.codecache", "triton_key"),  # a hash of all of Triton
    ("torch._inductor.fx_passes.pre_grad", "lazy_init"),
    ("torch._inductor.fx_passes.joint_graph", "lazy_init"),  # traces the patterns that passes look for
    ("torch._inductor.fx_passes.post_grad", "lazy_init"),
)
"""Functions whose results torch keeps for the rest of the process (2.13); one that this torch lacks is left out."""

GPUS = ("/dev/nvidiactl", "/dev/kfd")
"""Files that the drivers of NVIDIA and AMD make."""

CACHES = {
    "TORCHINDUCTOR_FX_GRAPH_CACHE": ("torch._inductor.config", "fx_graph_cache", "env_value_force"),
    "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": ("torch._inductor.config", "fx_graph_remote_cache", "default"),
    "TORCHINDUCTOR_AUTOGRAD_CACHE": ("torch._functorch.config", "enable_autograd_cache", "env_value_force"),
    "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": ("torch._functorch.config", "enable_remote_autograd_cache", "default"),
}
"""Variables that torch reads while it is imported, the settings, and where torch keeps what a variable says (2.13)."""


def prepare() -> None:
    """Do what Inductor does before the first graph of a process that it compiles for a CPU."""
    cpu = importlib.import_module("torch").device("cpu")
    for module, name in PREPARATIONS:
        # Patterns are traced on a GPU if there is one, and no process could be forked after that.
        if name == "lazy_init" and any(map(os.path.exists, GPUS)):
            continue
        try:
            function = getattr(importlib.import_module(module), name)
        except (ModuleNotFoundError, AttributeError):
            continue
        function(*([cpu] if module.endswith(".joint_graph") and inspect.signature(function).parameters else []))


def run_program(words: list[str]) -> None:
    """Run a file as `python FILE WORD...` does, with `TORCH_LOGS` and `TORCH_TRACE` applied, and end the process."""
    shared = fork_server._Shared()
    sys.argv[:] = words
    sys.path.insert(0, str(Path(words[0]).resolve().parent))
    logs: Any = importlib.import_module("torch._logging._internal")
    logs.LOG_TRACE_HANDLER = None  # it keeps the folder that TORCH_TRACE named when torch was imported (2.13)
    logs._init_logs()
    runpy.run_path(words[0], run_name="__main__")
    if shared.has_new_libraries():
        sys.exit()
    os._exit(shared.end(0))


@contextmanager
def without_driver() -> Iterator[None]:
    """Count no GPU where no driver is installed, which is what the driver's absence makes CUDA answer, too.

    To ask CUDA marks the process as one whose forks use no GPU (`poison_fork` in torch/csrc/cuda/Module.cpp, 2.15).
    """
    torch = importlib.import_module("torch")
    if torch.version.cuda is None or any(map(os.path.exists, GPUS)):
        yield
        return
    count = torch._C._cuda_getDeviceCount
    torch._C._cuda_getDeviceCount = lambda: 0
    # It warns of a compiler without a driver, which each fork would print, also one that needs no Inductor.
    warnings = logging.getLogger("torch.utils.cpp_extension")
    warnings.setLevel(logging.ERROR)
    try:
        yield
    finally:
        torch._C._cuda_getDeviceCount = count
        warnings.setLevel(logging.NOTSET)


def serve(loaded: frozenset[str]) -> None:
    """Serve forks; see `fork_server.main`."""
    imported, become_new = fork_server._imported, fork_server._become_new

    def imported_and_asked() -> set[str]:
        variables = dict(os.environ)
        finder = fork_server._NotFound()
        sys.meta_path.append(finder)
        with without_driver():  # imports torch
            sys.meta_path.remove(finder)
            not_found = finder.names | imported()
            prepare()
        os.environ.clear()  # torch sets its folder of caches
        os.environ.update(variables)
        return not_found

    def become_new_there(arguments: list[str]) -> None:
        there, stdin = json.loads(arguments.pop(0)), int(arguments.pop(0).rpartition("/")[2])
        os.dup2(stdin, 0)
        os.close(stdin)
        os.chdir(there["folder"])
        for name in there["removed"]:
            os.environ.pop(name, None)
        os.environ.update(there["changed"])
        for name in CACHES.keys() & there["changed"].keys():
            module, setting, kept = CACHES[name]
            setattr(importlib.import_module(module)._config[setting], kept, there["changed"][name] == "1")
        if there["changed"].get("PYTHONPATH"):
            sys.path[:0] = [each for each in there["changed"]["PYTHONPATH"].split(os.pathsep) if each not in sys.path]
        if there["changed"].get("OMP_NUM_THREADS"):
            importlib.import_module("torch").set_num_threads(int(there["changed"]["OMP_NUM_THREADS"]))
        become_new(arguments)
        if not there["module"]:
            run_program(arguments)
        if there["module"] != "ctrace.inspector.capture.child_main":
            importlib.import_module(there["module"]).main(loaded)
            sys.exit()

    fork_server._MODULES += INDUCTOR  # type: ignore[assignment]
    fork_server._imported, fork_server._become_new = imported_and_asked, become_new_there
    fork_server.main(loaded)
