"""The server process of `warm.py`: import torch with Inductor once, and fork a process for each capture.

It is ctrace's own server (`inspector/capture/fork_server.py`) with two changes: it imports Inductor, too, and each
fork takes on the folder and the environment of the command that requested it.
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


def serve(loaded: frozenset[str]) -> None:
    """Serve forks; see `fork_server.main`."""
    become_new = fork_server._become_new

    def become_new_there(arguments: list[str]) -> None:
        there, stdin = json.loads(arguments.pop(0)), int(arguments.pop(0).rpartition("/")[2])
        os.dup2(stdin, 0)
        os.close(stdin)
        os.chdir(there["folder"])
        for name in there["removed"]:
            os.environ.pop(name, None)
        os.environ.update(there["changed"])
        become_new(arguments)
        if there["module"] != fork_server.capture.__name__:
            importlib.import_module(there["module"]).main(loaded)
            sys.exit()

    fork_server._MODULES += INDUCTOR  # type: ignore[assignment]
    fork_server._become_new = become_new_there
    fork_server.main(loaded)
