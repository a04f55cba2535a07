"""Compile every spelling of attention.py under a capture: `attention_run.py LOG DEVICE NAME...`; prints counts."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(next(each for each in Path(__file__).resolve().parents if (each / "pyproject.toml").exists())))

import torch
from torch._dynamo.utils import counters

from ctrace.inspector.capture.capture_hooks import capturing
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.inductor.emit import Codegen
from tests.integration.attention import CALLS, SPELLINGS, Called, Spelling


def counted(spelling: Spelling | Called, device: str) -> int:
    """Compile one spelling, and return how often torch counted an attention."""
    torch._dynamo.reset()
    counters.clear()
    # Torch's patterns do not match float32 on CUDA without TF32.
    torch.set_float32_matmul_precision("highest" if spelling.exact else "high")
    torch.compile(spelling.call)(*spelling.inputs(device))
    return int(counters["inductor"]["fuse_attention"])


def no_code(_codegen: Codegen, graph: Any) -> None:
    """Skip code generation, which this run does not need."""
    graph.scheduler = SimpleNamespace(nodes=[])


def main(log: str, device: str, *names: str) -> None:
    """Run some spellings, each after a reset, and print torch's count for each."""
    with patched(Codegen, "generate", no_code), capturing(Path(log), build=False):
        seen = {name: counted(ALL[name], device) for name in names}
    print(json.dumps(seen))


ALL: dict[str, Spelling | Called] = {f"hand:{name}": each for name, each in SPELLINGS.items()}
ALL |= {f"call:{name}": each for name, each in CALLS.items()}

if __name__ == "__main__":
    main(*sys.argv[1:])
