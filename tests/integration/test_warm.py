"""Most tests here fork their captures from a process that has imported torch with Inductor, which no user's run does.

A hook that comes too late in such a process leaves out what it records; this test would see that.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.conftest import Command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="captures are forked on Linux only")

BROKEN_AND_RECOMPILED = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x, scale):
        h = self.norm(self.up(x)).relu() * scale
        print("half-way")
        return (h.softmax(-1) * h).sum(-1)


model = Net()


def inputs():
    return torch.rand(4, 8), 2


scenarios = {"three": lambda: (torch.rand(6, 8), 3)}
"""
_VARYING = ("str", "artifact ctrace_listing", "chromium_event", "artifact ctrace_codegen_started")
"""Names and texts of the files in stacks, where the server's own file comes first; torch's events of time, of which a
warm process has fewer; and code generated in a fork of its own, which takes a core that is free at that moment."""
_WHERE = ("rank", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack")


def recorded(ctrace: Command, *options: str) -> Counter[str]:
    """Return how many records of each kind the log of a capture has, but for those that vary."""
    ctrace.write("net.py", BROKEN_AND_RECOMPILED)
    ran = ctrace("kernels", "net.py", "--train", "--json", *options)
    assert ran.code == 0, ran.err
    (log,) = (ctrace.folder / ".ctrace").glob("*/trace.log")
    kinds = Counter(kind_of(line) for line in log.read_text().splitlines() if line.startswith("V"))
    return Counter({kind: number for kind, number in kinds.items() if kind not in _VARYING})


def kind_of(line: str) -> str:
    header = json.loads(line[line.index("{") :])
    kind = next(key for key in header if key not in _WHERE)
    return f"{kind} {header[kind]['name']}" if kind == "artifact" else kind


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--target", "h100")], ids=["cpu", "target"])
def test_a_warm_capture_records_what_a_new_process_does(
    tmp_path: Path, ctrace: Command, options: tuple[str, ...]
) -> None:
    (tmp_path / "new").mkdir()
    warm, new = recorded(ctrace, *options), recorded(Command(tmp_path / "new"), *options)
    assert warm["artifact ctrace_kernel"] > 1
    assert warm == new
