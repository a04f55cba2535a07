"""`ctrace upgrade` in real environments: planted changes are found with their reason, and equal ones have none."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from _planted_upgrades import EQUAL, PLANTED, Planted, make_pair

from ctrace.inspector.features.compare.compare_runs import compare
from ctrace.inspector.features.upgrade.environment_runs import EnvironmentRuns, server_for
from ctrace.inspector.processes.boot import Interpreter
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.child import dropped_output
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import resolve

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
SMALL = """\
import torch
from planted.layers import Block

model = Block(16).requires_grad_(False)


def inputs():
    return (torch.randn(8, 16),)
"""


def upgraded(folder: Path, planted: Planted, *words: str, idle: bool = True, model: str = "") -> dict[str, Any]:
    """Run the command on both environments of a planted change; return its JSON."""
    before, after = make_pair(folder, planted, idle=idle)
    (folder / "model.py").write_text(model or planted.model)
    (folder / "broken.py").write_text("import not_installed_here\n\nmodel = not_installed_here.model\n")
    command = [sys.executable, "-m", "ctrace", "upgrade", "--python", str(before), "--python", str(after), "model.py"]
    done = subprocess.run(
        [*command, "--json", *words],
        cwd=folder,
        env={**os.environ, **planted.variables, "CTRACE_DIR": str(folder / ".ctrace")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    return {**json.loads(done.stdout), "code": done.returncode}


@pytest.mark.long
def test_an_edited_line_of_a_package_is_found_and_the_environments_are_not_written_to(tmp_path: Path):
    """And a model that does not run has the missing package as its error."""
    planted = next(each for each in PLANTED if each.name == "graph-break")
    found = upgraded(tmp_path, planted, "broken.py", "--fail-on", "worse", model=SMALL)
    model, broken = found["models"]
    assert (found["code"], found["equal"], model["error"]) == (1, None, None)
    assert (broken["error"]["environment"], broken["error"]["phase"], broken["changes"]) == ("before", "load", [])
    assert "No module named 'not_installed_here'" in broken["error"]["message"]
    breaks = [each for each in model["changes"] if each["what"] == "break"]
    assert [(each["change"], each["worse"]) for each in breaks] == [("added", True)]
    assert {each["reason"]["kind"] for each in model["changes"]} == {"library"}
    reason = breaks[0]["reason"]
    assert (reason["name"], reason["source"]) == ("planted", "planted/layers.py:15")
    assert (reason["before"], reason["after"]) == (None, 'print("layer", end="")')
    made = {each.name for each in (tmp_path / "before").rglob("*.pyc") if each.parent.parent.name == "planted"}
    assert made == set()


@pytest.mark.slow
def test_equal_environments_have_no_change(tmp_path: Path):
    found = upgraded(tmp_path, EQUAL, idle=False)
    assert (found["equal"], found["models"][0]["changes"]) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_a_planted_change_is_found_with_its_reason(planted: Planted, tmp_path: Path):
    found = upgraded(tmp_path, planted)
    (model,) = found["models"]
    assert (found["equal"], model["error"]) == (False, None)
    changes = [each for each in model["changes"] if each["what"] == planted.what]
    assert changes
    for each in model["changes"]:
        reason = each["reason"]
        assert (reason["kind"], planted.cause in f"{reason['name']} {reason['source']}") == (planted.kind, True), each
    if planted.worse is not None:
        assert planted.worse in [each["worse"] for each in model["changes"]]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux only")
def test_forks_find_what_new_processes_find(tmp_path: Path):
    """Of a server that imports torch once: the code of kernels and the results in eager are the same."""
    (tmp_path / "model.py").write_text(
        "import torch\n\nmodel = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())\n\n\n"
        "def inputs():\n    return (torch.randn(4, 8),)\n"
    )
    target = resolve(str(tmp_path / "model.py"), has_inputs=False)
    interpreter, options = Interpreter(sys.executable), Options(guard_cost=True, guard_parts=False)
    server = server_for(interpreter)
    store = Store(tmp_path / "runs")
    try:
        with dropped_output() as sink:
            forked = EnvironmentRuns("before", interpreter, store, output=sink, server=server)
            new = EnvironmentRuns("after", interpreter, store, output=sink)
            runs, eager = [], []
            for each in (forked, new):
                runs.append(each.captured(target, options).session)
                eager.append(each.eager(target, options))
    finally:
        why_not = server.why_not
        server.close()
    assert why_not == ""
    assert eager[0].calls == eager[1].calls
    assert compare(*runs).changes == ()
    assert len(runs[0].kernels) == len(runs[1].kernels) == 2
    costs = [each.cost for run in runs for each in run.guards.values()]
    assert [(cost.parts, cost.kinds, cost.warm > 0) for cost in costs if cost is not None] == [((), (), True)] * 2
