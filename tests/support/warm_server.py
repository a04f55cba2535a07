"""The server process of `warm.py`: import torch with Inductor once, and fork a process for each capture.

It is ctrace's own server (`inspector/capture/fork_server.py`) with these changes: it imports Inductor, too, and asks
the C++ compiler once what it can do on this processor; and each fork takes on the folder, the environment and the
standard input of the command that requested it.
"""

import importlib
import json
import os
import sys

from ctrace.inspector.capture import fork_server

INDUCTOR = (
    "torch._inductor.codegen.cpp_wrapper_cpu_array_ref",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cpp_wrapper_mps",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.halide",
    "torch._inductor.codegen.mps",
    "torch._inductor.codegen.pallas",
    "torch._inductor.codegen.python_wrapper_mtia",
    "torch._inductor.codegen.rocm.rocm_cpp_scheduling",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.xpu.xpu_combined_scheduling",
    "torch._inductor.compile_fx",
    "torch._inductor.fx_passes.efficient_conv_bn_eval",
    "torch._inductor.fx_passes.freezing_patterns",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.fx_passes.quantization",
    "torch.utils.cpp_extension",
)
"""What Inductor imports when it compiles the first graph for a CPU; a module that this torch lacks is left out."""

CACHES = {
    "TORCHINDUCTOR_FX_GRAPH_CACHE": ("torch._inductor.config", "fx_graph_cache", "env_value_force"),
    "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": ("torch._inductor.config", "fx_graph_remote_cache", "default"),
    "TORCHINDUCTOR_AUTOGRAD_CACHE": ("torch._functorch.config", "enable_autograd_cache", "env_value_force"),
    "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": ("torch._functorch.config", "enable_remote_autograd_cache", "default"),
}
"""Variables that torch reads while it is imported, the settings, and where torch keeps what a variable says (2.13)."""


def serve(loaded: frozenset[str]) -> None:
    """Serve forks; see `fork_server.main`."""
    imported, become_new = fork_server._imported, fork_server._become_new

    def imported_and_asked() -> set[str]:
        not_found = imported()
        variables = dict(os.environ)
        # Six small builds in each new folder of caches (2.13, _inductor/cpu_vec_isa.py).
        importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa()
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
        become_new(arguments)
        if there["module"] != "ctrace.inspector.capture.main":
            importlib.import_module(there["module"]).main(loaded)
            sys.exit()

    fork_server._MODULES += INDUCTOR  # type: ignore[assignment]
    fork_server._imported, fork_server._become_new = imported_and_asked, become_new_there
    fork_server.main(loaded)
