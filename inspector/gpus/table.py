"""The table of GPUs: ours, and what users add."""

import difflib

from ctrace.inspector.errors import TargetError
from ctrace.inspector.gpus.gpu import TargetGpu

_GPUS = (
    TargetGpu(
        "h100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 65536, 2048, 233472, 49152, 232448, 85017493504, 52428800,
        clock=1.98e9, bandwidth=3.35e12,
    ),
    TargetGpu(
        "a100", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 65536, 2048, 167936, 49152, 166912, 85899345920, 41943040,
        clock=1.41e9, bandwidth=2.039e12,
    ),
    TargetGpu(
        "t4", "Tesla T4", (7, 5), 40, 65536, 1024, 65536, 49152, 65536, 15828320256, 4194304,
        clock=1.59e9, bandwidth=3.2e11,
    ),
)  # fmt: skip


def gpu_named(name: str) -> TargetGpu:
    """Find a GPU by the name that `--target` was given.

    Raises:
        TargetError: there is none of that name.
    """
    found = {gpu.name: gpu for gpu in _GPUS}
    if name.lower() in found:
        return found[name.lower()]
    near = difflib.get_close_matches(name.lower(), found, 1)
    todo = f"did you mean {near[0]}?" if near else f"there are: {', '.join(found)}; ctrace targets lists them"
    raise TargetError(f"--target {name}: there is no such GPU", todo)
