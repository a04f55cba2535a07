"""Compile every spelling of attention.py under a capture: `attention_run.py LOG DEVICE`; prints what torch counted."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from torch._dynamo.utils import counters

from ctrace.inspector.capture.session import capturing
from tests.attention import CALLS, SPELLINGS, Called, Spelling


def counted(spelling: Spelling | Called, device: str) -> int:
    """Compile one, and give how often torch counted an attention."""
    torch._dynamo.reset()
    counters.clear()
    # Torch's patterns take no float32 on CUDA without TF32.
    torch.set_float32_matmul_precision("highest" if spelling.exact else "high")
    torch.compile(spelling.call)(*spelling.inputs(device))
    return int(counters["inductor"]["fuse_attention"])


def main(log: str, device: str) -> None:
    """Run all."""
    with capturing(Path(log), build=False):
        seen = {
            f"{kind}:{name}": counted(each, device) for kind, table in TABLES.items() for name, each in table.items()
        }
    print(json.dumps(seen))


TABLES = {"hand": SPELLINGS, "call": CALLS}

if __name__ == "__main__":
    main(*sys.argv[1:])
