"""Run a program of `cluster_programs/` on one real rank, in eager, and write what torch itself counts there.

The first argument is the program, the second the file: the numbers of torch's `CommDebugMode`, and bytes from a mode
that looks at the tensors of each collective.
"""

import json
import os
import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_LOCAL = ("wait_tensor", "_wrap_tensor_autograd")
"""Ops of these namespaces that send nothing."""


class _Bytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the larger side of each collective."""

    supports_higher_order_operators = True  # such as flex_attention, which has parts of a sequence

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total: Counter[str] = Counter()
        self.number: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented  # a DTensor splits the op into those on its parts, which come here then
        result = func(*args, **(kwargs or {}))
        packet = getattr(func, "overloadpacket", func)
        if getattr(func, "namespace", "") in ("c10d", "_c10d_functional", "_dtensor") and packet.__name__ not in _LOCAL:
            sides = [[leaf for leaf in tree_leaves(each) if isinstance(leaf, torch.Tensor)] for each in (*args, result)]
            sizes = [sum(each.numel() * each.element_size() for each in side) for side in sides]
            self.total[packet.__name__] += max(sizes, default=0)
            self.number[packet.__name__] += 1
        return result


def _keep_module(_tracker: Any, _module: Any, _inputs: Any, _output: Any) -> None:
    """Leave the name of the module as it is."""


def _keep_group(_group: Any = None) -> None:
    """Leave the group as it is, until the process ends."""


def main() -> None:
    """Run the program."""
    program, out = sys.argv[1:3]
    sys.argv = [program]
    # Not `torch._dynamo.config.disable`, with which torch's own torch.compile(..., fullgraph=True) raises.
    torch.compiler.set_stance("force_eager")
    # An async work of gloo keeps the mode, and drops it in a thread of its own, which needs the GIL; the end of a group
    # waits for that thread, with the GIL held (ProcessGroupGloo.cpp, 2.13). So no group ends before the process does.
    distributed: Any = torch.distributed
    distributed.destroy_process_group = _keep_group
    # Its hooks on modules only name what it counts, and end under DDP: the outermost module has no parent (2.13).
    counted: Any = CommDebugMode()  # type: ignore[no-untyped-call]
    type(counted.advanced_module_tracker)._fw_set_module_hook = _keep_module
    seen = _Bytes()
    with counted, seen:
        runpy.run_path(program, run_name="__main__")
    counts = {str(packet): number for packet, number in counted.get_comm_counts().items()}
    text = json.dumps({"comm_debug": counts, "number": seen.number, "bytes": seen.total})
    Path(f"{out}{os.environ['RANK']}.json").write_text(text)
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
