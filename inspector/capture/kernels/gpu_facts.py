"""Read the facts of the local GPU from torch and the driver; runs in a separate child process."""

import ctypes
import json
import os
from typing import Any

_OF_TORCH = {
    "title": "name",
    "processors": "multi_processor_count",
    "registers": "regs_per_multiprocessor",
    "threads": "max_threads_per_multi_processor",
    "threads_per_block": "max_threads_per_block",
    "warp": "warp_size",
    "shared": "shared_memory_per_multiprocessor",
    "shared_per_block": "shared_memory_per_block",
    "shared_per_block_optin": "shared_memory_per_block_optin",
    "memory": "total_memory",
    "l2": "L2_cache_size",
    "clock": "clock_rate",
    "memory_clock": "memory_clock_rate",
    "bus": "memory_bus_width",
}
"""Facts with their names in `torch.cuda.get_device_properties`; torch 2.11 has all of them, other versions may not."""
_OF_DRIVER = {
    "registers": 82, "threads": 39, "threads_per_block": 1, "warp": 10, "shared": 81, "shared_per_block": 8,
    "shared_per_block_optin": 97, "l2": 38, "clock": 13, "memory_clock": 36, "bus": 37,
}  # fmt: skip
"""Facts with their numbers in the driver's `CUdevice_attribute` (cuda.h, CUDA 12)."""


def main(_loaded: frozenset[str]) -> None:
    """Print the facts as JSON (rates in kHz, bus width in bits), or an error; torch's own output goes to stderr."""
    # Torch and the driver may print while they start, and stdout is read as JSON.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer.write(json.dumps(_found()))
    answer.close()


def _found() -> dict[str, Any]:
    import torch

    # From what no setting changes to what the machine has: each answer names the next step.
    if torch.version.hip is not None:
        return {"why": f"torch {torch.__version__} is built for AMD GPUs", "todo": "only NVIDIA GPUs can be targets"}
    if torch.version.cuda is None:
        todo = "run this on a machine with a GPU and a torch built for CUDA"
        return {"why": f"torch {torch.__version__} is built without CUDA", "todo": todo}
    if not torch.cuda.is_available():
        return {"why": "torch finds no GPU on this machine", "todo": "run this on a machine with a GPU; see nvidia-smi"}
    properties: Any = torch.cuda.get_device_properties(0)
    facts = {fact: getattr(properties, name, None) for fact, name in _OF_TORCH.items()}
    by_driver = _of_driver([fact for fact, value in facts.items() if value is None])
    facts.update(by_driver)
    facts["capability"] = f"{properties.major}.{properties.minor}"
    return {"facts": facts, "by_driver": sorted(by_driver), "torch": torch.__version__}


def _of_driver(facts: list[str]) -> dict[str, int]:
    """Return the facts that this torch lacks, from the driver; return none if there is no driver."""
    known = [fact for fact in facts if fact in _OF_DRIVER]
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    device, value, found = ctypes.c_int(), ctypes.c_int(), {}
    # Both return 0 for success.
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return {}
    for fact in known:
        if not cuda.cuDeviceGetAttribute(ctypes.byref(value), _OF_DRIVER[fact], device):
            found[fact] = value.value
    return found
