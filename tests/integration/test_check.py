"""`ctrace check` on real models: a first gate, the report after an edit, and models that cannot be judged."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import Command
from tests.support.observing import not_cached
from tests.support.places import ROOT

INSTALLED = {**os.environ, "PYTHONPATH": str(ROOT)}

HEALTHY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        y = self.inner(x)
        return y.relu()

model = Net()

def inputs():
    return (torch.rand(2, 8),)
"""
CUT = HEALTHY.replace("        return y.relu()", "        print('mean', y.mean())\n        return y.relu()")
RAISES = HEALTHY.replace("return y.relu()", "return y @ torch.rand(3, 3)")
NOTHING = HEALTHY.replace("return y.relu()", "return y").replace("y = self.inner(x)", "y = x")
LEAVES = """
import subprocess, sys, time
from pathlib import Path
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
Path(__file__).with_suffix(".pid").write_text(str(left.pid))
"""
HANGS = f"{LEAVES}time.sleep(600)\n{HEALTHY}"
DIES = f"{LEAVES}import os\nos._exit(7)\n{HEALTHY}"
ASKS = f"input()\n{HEALTHY}"


UNSEEDED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        y = self.inner(x)
        if y.mean() > 0:
            y = y * 2
        return y + 1

model = Net()

def inputs():
    return (torch.randn(2, 8),)
"""


@pytest.mark.long
def test_a_model_that_draws_its_weights_and_inputs_counts_the_same_in_every_check(ctrace: Command) -> None:
    """The side of each branch depends on what is drawn: without a seed, three checks agree on it once in 256 times."""
    scenarios = ", ".join(f"'s{number}': inputs" for number in range(3))
    for number in range(4):
        ctrace.write(f"net{number}.py", f"{UNSEEDED}\nscenarios = {{{scenarios}}}\n")
    found = []
    for options in ([], [], ["--fresh-processes"]):
        report = ctrace("check", "net*.py", "--json", "--no-cache", *options, timeout=900).report
        found.append({each["model"]: each["counts"]["graphs"] for each in report["jobs"]})
    assert len(found[0]) == 4
    assert found[0] == found[1] == found[2]


@pytest.mark.long
def test_from_nothing_to_a_gate_that_catches_an_edit(ctrace: Command) -> None:
    ctrace.write("models/net.py", HEALTHY)
    first = ctrace("check", "--init", "models/*.py")
    assert first.code == 0, first.out + first.err
    assert "ctrace: wrote ctrace.yaml\nctrace: wrote ctrace.lock\n" in first.err
    assert "already with graph breaks" not in first.err
    lock = (ctrace.folder / "ctrace.lock").read_text()
    assert '"counts": {"graphs": 1, "eager_ops": 0, "limit_hits": 0}' in lock

    ctrace.write("models/net.py", CUT)
    worse = ctrace("check")
    assert worse.code == 1
    assert worse.out.startswith("WORSE  The model got worse.\n")
    assert "1. new graph break (+1 GB0059 models/net.py::Net.forward)" in worse.out
    assert "models/net.py:12" in worse.out
    assert re.search(r"Splits 1 graph into 2", worse.out)
    assert "\x1b" not in worse.out
    assert (ctrace.folder / "ctrace.lock").read_text() == lock

    updated = ctrace("check", "--update", "--markdown")
    assert updated.code == 0
    assert "ctrace: wrote ctrace.lock" in updated.err
    assert "GB0059" in (ctrace.folder / "ctrace.lock").read_text()


@pytest.mark.long
def test_models_that_cannot_be_judged_affect_only_themselves(ctrace: Command) -> None:
    models = {"good": HEALTHY, "raises": RAISES, "nothing": NOTHING, "hangs": HANGS, "dies": DIES, "asks": ASKS}
    for name, source in models.items():
        ctrace.write(f"{name}.py", source)
    ctrace.write(
        "ctrace.yaml",
        "models: [good.py, raises.py, nothing.py, dies.py, asks.py, {path: hangs.py, timeout: 3}, gone.py]\n"
        "allow: [{gb: GB0059, reason: old, expires: 2020-01-01}]\n",
    )
    result = ctrace("check", "--json", "--junit", "j.xml", "--sarif", "s.sarif")
    assert result.code == 2, result.err
    jobs = {job["model"]: job for job in result.report["jobs"]}
    shown = {model: (job["exit"], [each["kind"] for each in job["findings"]]) for model, job in jobs.items()}
    assert shown == {
        "good.py": (0, []),
        "raises.py": (3, ["failed"]),
        "nothing.py": (4, ["nothing-compiled", "limit"]),
        "dies.py": (3, ["crashed"]),
        "asks.py": (3, ["failed"]),
        "hangs.py": (3, ["timeout"]),
        "gone.py": (2, ["wrong"]),
    }
    assert jobs["raises.py"]["findings"][0]["line"] == 12
    assert result.report["notes"] == [
        *not_cached("good.py"),
        "the allow entry in line 2 (GB0059) expired on 2020-01-01",
    ]
    assert (ctrace.folder / "j.xml").read_text().count("<testsuite ") == len(models) + 2
    assert not any(map(is_running, ctrace.folder.glob("*.pid")))


@pytest.mark.skipif(os.name != "posix", reason="there are no such signals")
def test_ending_a_check_ends_all_its_processes(ctrace: Command) -> None:
    file, made = ctrace.write("hangs.py", HANGS), ctrace.folder / "hangs.pid"
    check = subprocess.Popen([sys.executable, "-m", "ctrace", "check", file.name], cwd=ctrace.folder, env=INSTALLED)
    deadline = time.monotonic() + 240
    while not (made.exists() and made.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    check.terminate()
    assert check.wait(timeout=30) == 128 + signal.SIGTERM
    assert not is_running(made)


def is_running(file: Path) -> bool:
    """Whether the process whose id is in a file is running; a zombie counts as ended."""
    try:
        status = Path(f"/proc/{file.read_text()}/status").read_text()
    except FileNotFoundError:
        return False
    return "State:\tZ" not in status


def test_models_on_a_cluster_are_judged_as_here(ctrace: Command) -> None:
    pytest.importorskip("ray")
    ctrace.write("net.py", HEALTHY)
    ctrace.write("cut.py", CUT)
    here = json.loads(ctrace("check", "net.py", "cut.py", "--json").out)
    there = ctrace("check", "net.py", "cut.py", "--json", "--on", "ray", "--no-cache")
    assert there.code == 1, there.err
    for found in (here, found_there := json.loads(there.out)):
        for job in found["jobs"]:
            for name in ("seconds", "run"):
                job.pop(name)
    assert found_there["jobs"] == here["jobs"]


def test_engines_that_are_not_there_are_named(ctrace: Command) -> None:
    ctrace.write("net.py", HEALTHY)
    other = ctrace("check", "net.py", "--on", "spark")
    assert (other.code, other.err) == (2, "ctrace: --on spark: there is no such engine\n  there are: processes, ray\n")
    both = ctrace("check", "net.py", "--on", "ray", "--jobs", "2")
    assert both.code == 2
    assert "leave out --jobs or --on" in both.err
