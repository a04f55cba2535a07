"""`ctrace time` and `ctrace cudagraphs` in real processes; without Inductor, which would build for a minute."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import Command

FAST = ("--backend", "aot_eager", "--threads", "1")
MODEL = """\
import torch
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
def inputs(): return (torch.rand(4, 16),)
scenarios = {"wide": lambda: (torch.rand(64, 16),)}
"""
STATEFUL = """\
import torch
def model(x): return x.mul_(2).sum()
def inputs(): return (torch.rand(4),)
def broken(x): raise ValueError("no such luck")
def exits(x): raise SystemExit(3)
calls = 0
def dies(x):
    global calls
    calls += 1
    if calls > 20:
        import os
        os._exit(7)
    return x + 1
class Sizes(torch.nn.Module):
    def forward(self, x):
        global calls
        calls += 1
        return x + calls
sizes = Sizes()
"""


@pytest.mark.long
def test_every_scenario_and_part_is_measured(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("time", "model.py", *FAST, "--rounds", "6", "--train", "--json")
    assert result.code == 0, result.err
    report = result.report
    parts = [(each["name"], each["part"]) for each in report["scenarios"]]
    assert parts == [(name, part) for name in ("base", "wide") for part in ("step", "forward", "backward")]
    for each in report["scenarios"]:
        assert each["eager"]["rounds"] == each["compiled"]["rounds"] == 6
        assert 0 < each["eager"]["low"] <= each["eager"]["median"] <= each["eager"]["high"] < 1
        assert each["speedup"]["verdict"] in ("faster", "slower", "no_difference", "undecided")
        assert each["peak_memory"]["eager"] > 0
    assert report["compile_seconds"] > report["compiled"]["median"]
    assert report["scenarios"][0]["warm_up"][1]["compiling"] >= 1
    assert report["threads"] == 1
    assert report["difference_from_eager"][0]["relative"] < 1e-5
    assert report["graphs"] >= 1
    compiled = next(each for each in report["shares"] if each["side"] == "compiled")
    assert compiled["guards"] > 0
    assert compiled["runtime"] > 0
    assert sum(compiled[name] for name in ("guards", "runtime", "ops")) < 1.5 * compiled["profiled_call"]


@pytest.mark.long
def test_configurations_are_rows_and_a_failure_affects_only_its_row(ctrace: Command) -> None:
    model = MODEL + (
        "import os, sys\n"
        "from torch._dynamo import register_backend\n"
        "@register_backend\n"
        "def crashing(graph, inputs): os.kill(os.getpid(), 11)\n"
    )
    ctrace.write("model.py", model)
    words = ("--backends", "aot_eager,crashing", "--rounds", "2", "--threads", "1")
    result = ctrace("time", "model.py", *words)
    assert result.code == 0, result.err
    for sentence in ("backend aot_eager", "What each compiled", "! backend crashing: crashed with SIGSEGV"):
        assert sentence in result.out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--modes", "defalt"), "did you mean default?"),
        (("--backends", "inducto"), "did you mean inductor?"),
        (("--options", "epilogue_fusio=1"), "did you mean epilogue_fusion?"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_measured(
    ctrace: Command, words: tuple[str, ...], what: str
) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("time", "model.py", *words)
    assert result.code == 2
    assert what in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("broken", 3, "without torch.compile: ValueError: no such luck"),
        ("dies", 3, "the model file ended the process, with exit code 7"),
    ],
)
def test_a_model_that_fails_is_reported(ctrace: Command, name: str, code: int, sentence: str) -> None:
    ctrace.write("model.py", STATEFUL)
    result = ctrace("time", f"model.py:{name}", *FAST, "--rounds", "6")
    assert result.code == code
    assert sentence in " ".join(result.out.split())


@pytest.mark.long
def test_a_model_that_changes_its_inputs_gets_new_ones(ctrace: Command) -> None:
    ctrace.write("model.py", STATEFUL)
    result = ctrace("time", "model.py", *FAST, "--rounds", "6")
    assert result.code == 0, result.err
    assert "Calls change their inputs, so each call got new ones" in " ".join(result.out.split())


@pytest.mark.long
def test_a_model_that_compiles_a_part_of_itself_is_no_plain_eager(ctrace: Command) -> None:
    ctrace.write(
        "net.py",
        "import torch\n\nwave = torch.compile(torch.sin)\n\n\ndef model(x):\n    return wave(x) + 1\n\n\n"
        "inputs = (torch.rand(4),)\n",
    )
    result = ctrace("time", "net.py", "--rounds", "3")
    assert "Eager calls compile, too: the model calls torch.compile itself" in " ".join(result.out.split())


@pytest.mark.long
def test_calls_that_compile_do_not_count_as_measured(ctrace: Command) -> None:
    ctrace.write("model.py", STATEFUL)
    report = ctrace("time", "model.py:sizes", *FAST, "--no-dynamic", "--rounds", "6", "--json").report
    (part,) = report["scenarios"]
    assert part["rounds_that_compiled"] > 0 or part["warm_up"][1]["compiling"] > 1


def test_the_timeout_stops_a_process_and_says_so(ctrace: Command) -> None:
    ctrace.write(
        "model.py", "import time, torch\ndef model(x): time.sleep(9); return x\ndef inputs(): return (torch.ones(1),)\n"
    )
    result = ctrace("time", "model.py", *FAST, "--timeout", "3")
    assert result.code == 3
    assert "timed out after 3 s" in result.out


@pytest.mark.long
def test_ctrl_c_reports_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import time, torch\n"
        "from pathlib import Path\n"
        "calls = 0\n"
        "def model(x):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls == 60: Path('measuring').touch()\n"
        "    time.sleep(0.05)\n"
        "    return x + 1\n"
        "def inputs(): return (torch.ones(1),)\n"
    )
    command = [sys.executable, "-m", "ctrace", "time", "model.py", *FAST, "--rounds", "2000", "--json"]
    environment = {**os.environ, "CTRACE_DIR": str(tmp_path / "runs")}
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    deadline = time.monotonic() + 200
    while not (tmp_path / "measuring").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    import json

    report = json.loads(out)
    assert report["stopped"] == "interrupted"
    assert report["eager"] is None or report["eager"]["median"] > 0.05


@pytest.mark.long
def test_cuda_graphs_without_a_gpu(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("cudagraphs", "model.py", "--mode", "reduce-overhead", "--json")
    assert result.code == 0, result.err
    graphs = result.report["graphs"]
    assert {each["status"] for each in graphs} == {"skipped"}
    assert graphs[0]["reasons"][0]["text"] == "the graph part runs on the CPU"
    assert "No CUDA graphs" in ctrace("cudagraphs", "model.py").out


@pytest.mark.long
def test_cuda_graphs_of_dynamic_sizes_for_a_target(ctrace: Command) -> None:
    """With `graph_partition`, torch says nothing of ops that `cudagraph_skip_dynamic_graphs` leaves out."""
    model = (
        "import torch\n"
        "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True\n"
        "def model(x):\n"
        "    return torch.relu(x @ x.t()) + 1\n"
        "def inputs(): return (torch.rand(8, 16),)\n"
    )
    ctrace.write("model.py", model)
    options = ("--mode", "reduce-overhead", "--target", "h100", "--json")
    (graph,) = ctrace("cudagraphs", "model.py", "--dynamic", *options).report["graphs"]
    assert graph["status"] == "skipped"
    assert "cudagraph_skip_dynamic_graphs" in graph["reasons"][0]["text"]
    assert {each["line"] for each in graph["cannot_hold"]} == {4}
    (static,) = ctrace("cudagraphs", "model.py", *options).report["graphs"]
    assert (static["status"], static["reasons"], static["pieces"]) == ("unknown", [], 1)


def test_cuda_graphs_for_a_target(ctrace: Command) -> None:
    model = (
        "import torch\n"
        "def model(x, state):\n"
        "    state.add_(1)\n"
        "    return x + state\n"
        "def inputs(): return (torch.rand(8), torch.rand(8))\n"
    )
    ctrace.write("model.py", model)
    result = ctrace("cudagraphs", "model.py", "--mode", "reduce-overhead", "--target", "h100", "--json")
    (graph,) = result.report["graphs"]
    assert (graph["status"], graph["recordings"]) == ("unknown", None)
    assert [(each["line"], "changes its input" in each["text"]) for each in graph["cannot_hold"]] == [(3, True)]
    assert "CUDA graphs    1 graph part: 1 not run" in ctrace("explain").out
