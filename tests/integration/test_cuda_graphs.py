"""`ctrace cudagraphs` counts recordings and skips as torch itself does, and has all of torch's reasons.

Each situation is a program. It runs twice, once without ctrace: then its last lines print torch's own counters and the
messages of torch's logger.
"""

import json
import os
import re
import subprocess
import sys

import pytest
import torch

from tests.integration.conftest import Command

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")

HEAD = """\
import json, logging, os, sys
import torch
import torch._inductor.config as config

messages = []
if "COUNTED" in os.environ:
    class Handler(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())
    logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs").addHandler(Handler())

def compiled(function, **options):
    return torch.compile(function, mode="reduce-overhead", **options)
"""
TAIL = """
torch.cuda.synchronize()
if "COUNTED" in os.environ:
    from torch._inductor.cudagraph_trees import get_container
    manager = get_container(0).tree_manager
    print(json.dumps({
        "skips": torch._dynamo.utils.counters["inductor"]["cudagraph_skips"],
        "recordings": 0 if manager is None else manager.new_graph_id().id,
        "messages": messages,
    }))
"""
SITUATIONS = {
    "recorded": """
@compiled
def f(x):
    return torch.relu(x @ x) + 1

for _ in range(4):
    f(torch.ones(32, 32, device="cuda"))
""",
    "cpu tensor": """
config.graph_partition = False

@compiled
def f(x, y):
    return torch.relu(x @ x) + y.cuda()

for _ in range(4):
    f(torch.ones(32, 32, device="cuda"), torch.ones(32))
""",
    "mutated input": """
@compiled
def f(x):
    x.add_(1)
    return x.sin() * 2

x = torch.ones(32, 32, device="cuda")
for _ in range(4):
    f(x)
""",
    "dynamic sizes": """
@compiled
def f(x):
    return (x.sin() @ x.T).relu()

for size in (8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11):
    x = torch.ones(size, 32, device="cuda")
    torch._dynamo.mark_dynamic(x, 0)
    f(x)
""",
    "data-dependent op": """
torch._dynamo.config.capture_dynamic_output_shape_ops = True
config.graph_partition = False

@compiled
def f(x):
    return (x.nonzero() * 2).sin().sum() + x.sum()

for _ in range(4):
    f(torch.ones(32, 32, device="cuda"))
""",
    "several devices": """
config.graph_partition = False

@compiled
def f(x, y):
    return (x + 1).to(y.device) * y.sin()

for _ in range(4):
    f(torch.ones(32, device="cuda"), torch.ones(32, device="cuda:1" if torch.cuda.device_count() > 1 else "cpu"))
""",
    "parameter that moves": """
layer = torch.nn.Linear(32, 32).cuda()
f = compiled(layer)
kept = []
with torch.no_grad():
    for _ in range(6):
        kept.append(layer.weight.data)
        layer.weight.data = layer.weight.data.clone()
        f(torch.ones(8, 32, device="cuda"))
""",
    "tensor kept across iterations": """
@compiled
def f(x):
    return (x @ x).tanh()

x = torch.ones(32, 32, device="cuda")
for _ in range(6):
    torch.compiler.cudagraph_mark_step_begin()
    x = f(x)
    x = f(x)
    x = x.clone()
""",
    "unsafe op": """
config.graph_partition = False

@torch.library.custom_op("situations::unsafe", mutates_args=(), tags=(torch._C.Tag.cudagraph_unsafe,))
def unsafe(x: torch.Tensor) -> torch.Tensor:
    return x.cpu().sin().cuda()

@unsafe.register_fake
def _(x):
    return torch.empty_like(x)

@compiled
def f(x):
    return unsafe(x + 1) * 2

for _ in range(4):
    f(torch.ones(32, device="cuda"))
""",
    "backward missing": """
layer = torch.nn.Linear(32, 32).cuda()
f = compiled(layer)
kept = []
for _ in range(4):
    kept.append(f(torch.ones(8, 32, device="cuda")))
""",
    "partitions": """
config.graph_partition = True

@compiled
def f(x):
    y = torch.relu(x @ x) + 1
    z = y.cpu().sin()
    return torch.relu(z.cuda() @ x) + 2

for _ in range(4):
    f(torch.ones(32, 32, device="cuda"))
""",
    "training": """
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
f = compiled(model)
for _ in range(4):
    f(torch.ones(8, 32, device="cuda")).sum().backward()
    model.zero_grad()
""",
}
REASON = re.compile(r"^(?:(?:skipping|disabling) cudagraphs? due to )+(.*?)(?:[.:]?\s*Found from\b.*)?$", re.DOTALL)


def _reasons(messages: list[str]) -> set[str]:
    """Return torch's reasons without its prefix and its stack."""
    return {found[1].strip() for message in messages if (found := REASON.match(message.strip()))}


@pytest.mark.parametrize("name", SITUATIONS)
def test_counts_and_reasons_are_torchs_own(name: str, ctrace: Command) -> None:
    ctrace.write("program.py", HEAD + SITUATIONS[name] + TAIL)
    plain = subprocess.run(
        [sys.executable, "program.py"],
        cwd=ctrace.folder,
        env=_counted(ctrace),
        capture_output=True,
        text=True,
        check=True,
    )
    torchs = json.loads(plain.stdout.splitlines()[-1])
    result = ctrace("cudagraphs", "program.py", "--build", "--json")
    assert result.code == 0, result.err
    graphs = result.report["graphs"]
    assert sum(each["recordings"] or 0 for each in graphs) == torchs["recordings"]
    assert {reason["text"] for each in graphs for reason in each["reasons"]} == _reasons(torchs["messages"])
    assert any(each["status"] == "skipped" for each in graphs) == bool(torchs["skips"])
    assert not result.report["problems"]
    if torchs["recordings"]:
        assert max(each["pool_bytes"] or 0 for each in graphs) > 0


def _counted(ctrace: Command) -> dict[str, str]:
    return {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(ctrace.folder / "plain"), "COUNTED": "1"}


def test_a_replay_is_timed_after_the_program(ctrace: Command) -> None:
    ctrace.write("program.py", HEAD + SITUATIONS["recorded"])
    (found,) = ctrace("cudagraphs", "program.py", "--build", "--json").report["graphs"]
    assert found["not_timed"] is None
    assert 0 < found["replay_seconds"] < found["launched_seconds"] < 1


MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(256, 256), torch.nn.Linear(256, 256)

    def forward(self, x):
        return self.b(torch.nn.functional.gelu(self.a(x)))

torch.manual_seed(0)
model = Net().cuda(){more}

def inputs():
    torch.manual_seed(0)
    return (torch.randn(64, 256, device="cuda"),)
"""


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_model_is_not_blamed_for_what_ctrace_measures(mode: str, ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.format(more=".requires_grad_(False)"))
    result = ctrace("explain", "model.py", "--build", "--mode", mode, "--json")
    assert result.code == 0, result.err
    assert result.report["dangers"] == []
    (found,) = ctrace("cudagraphs", "--json").report["graphs"]
    assert (found["status"], found["not_timed"]) == ("recorded", None)


def test_a_forward_that_records_gradients_is_not_recorded(ctrace: Command) -> None:
    """As in a loop with `out = model(x)`: torch warns of pending, uninvoked backwards."""
    ctrace.write("model.py", MODEL.format(more=""))
    result = ctrace("cudagraphs", "model.py", "--build", "--mode", "reduce-overhead", "--json")
    found = next(each for each in result.report["graphs"] if each["stage"] == "forward")
    assert (found["status"], found["recordings"]) == ("unknown", 0)
    assert any("pending, uninvoked backwards" in each for each in found["not_recorded"])
    assert "torch.no_grad()" in found["fix"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("state.add_(1)\n    return x + state", "it changes its inputs"),
        ("return torch.rand_like(x) + x", "it draws random numbers"),
    ],
)
def test_a_replay_that_would_change_something_is_not_timed(body: str, why: str, ctrace: Command) -> None:
    program = f"""
state = torch.nn.Buffer(torch.zeros(32, device="cuda"))
torch._dynamo.mark_static_address(state)

@compiled
def f(x):
    {body}

for _ in range(4):
    print(f(torch.ones(32, device="cuda")).sum().item())
"""
    ctrace.write("program.py", HEAD + "torch.manual_seed(0)\n" + program)
    plain = subprocess.run(
        [sys.executable, "program.py"], cwd=ctrace.folder, capture_output=True, text=True, check=True
    )
    result = ctrace("run", "--build", "program.py")
    (found,) = ctrace("cudagraphs", "--json").report["graphs"]
    assert (found["replay_seconds"], found["not_timed"]) == (None, why)
    assert plain.stdout == result.out  # the program computes what it computes without ctrace


def test_moves_of_a_parameter_are_named(ctrace: Command) -> None:
    ctrace.write("program.py", HEAD + SITUATIONS["parameter that moves"])
    (found,) = ctrace("cudagraphs", "program.py", "--build", "--json").report["graphs"]
    assert any("static input data pointer changed" in each["text"] for each in found["recorded_again"])
    assert found["outlook"].startswith("recorded again with the same sizes")
