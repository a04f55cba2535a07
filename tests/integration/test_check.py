"""`ctrace check` on real models: a first gate, what it says of an edit, and models that cannot be judged."""

import re

from tests.integration.conftest import Command

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
HANGS = "import time\ntime.sleep(600)\n" + HEALTHY
DIES = "import os\nos._exit(7)\n" + HEALTHY


def test_from_nothing_to_a_gate_that_catches_an_edit(ctrace: Command) -> None:
    ctrace.write("models/net.py", HEALTHY)
    first = ctrace("check", "--init", "models/*.py")
    assert first.code == 0, first.out + first.err
    assert "ctrace: wrote ctrace.yaml\nctrace: wrote ctrace.lock\n" in first.err
    lock = (ctrace.folder / "ctrace.lock").read_text()
    assert '"counts": {"graphs": 1, "eager_ops": 0, "limit_hits": 0}' in lock

    ctrace.write("models/net.py", CUT)
    worse = ctrace("check")
    assert worse.code == 1
    assert worse.out.startswith("WORSE  The model got worse.\n")
    assert "1. +1 GB0059 models/net.py::Net.forward" in worse.out
    assert "models/net.py:12" in worse.out
    assert re.search(r"Splits 1 graph into 2", worse.out)
    assert "\x1b" not in worse.out
    assert (ctrace.folder / "ctrace.lock").read_text() == lock

    wanted = ctrace("check", "--update", "--markdown")
    assert wanted.code == 0
    assert "ctrace: wrote ctrace.lock" in wanted.err
    assert "GB0059" in (ctrace.folder / "ctrace.lock").read_text()


def test_models_that_cannot_be_judged_cost_only_themselves(ctrace: Command) -> None:
    models = {"good": HEALTHY, "raises": RAISES, "nothing": NOTHING, "hangs": HANGS, "dies": DIES}
    for name, source in models.items():
        ctrace.write(f"{name}.py", source)
    ctrace.write(
        "ctrace.yaml",
        "models: [good.py, raises.py, nothing.py, dies.py, {path: hangs.py, timeout: 3}, gone.py]\n"
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
        "hangs.py": (3, ["timeout"]),
        "gone.py": (2, ["wrong"]),
    }
    assert jobs["raises.py"]["findings"][0]["line"] == 12
    assert result.report["notes"] == ["the allow entry in line 2 (GB0059) expired on 2020-01-01"]
    assert (ctrace.folder / "j.xml").read_text().count("<testsuite ") == len(models) + 2
