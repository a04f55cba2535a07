"""The workflow of `ctrace check --init --github`."""

from pathlib import Path

import pytest
import yaml

from ctrace.inspector.errors import PolicyError
from ctrace.inspector.features.check.policy.workflow import workflow_path, workflow_text


def test_it_lies_in_the_repository_and_names_the_policy_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").touch()
    inner = tmp_path / "models"
    inner.mkdir()
    monkeypatch.chdir(inner)
    path = workflow_path(Path("ctrace.yaml"))
    assert path.resolve() == tmp_path / ".github" / "workflows" / "ctrace.yml"
    steps = yaml.safe_load(workflow_text(path, Path("ctrace.yaml"), "2.13.0+cpu"))["jobs"]["check"]["steps"]
    assert steps[2]["run"].strip() == 'python -m pip install "torch==2.13.0" -r requirements.txt'
    assert steps[3]["with"] == {"policy": "models/ctrace.yaml"}


def test_pip_finds_the_cpu_build_where_a_variable_says() -> None:
    text = workflow_text(Path(".github/workflows/ctrace.yml"), Path("ctrace.yaml"), "2.13.0")
    job = yaml.safe_load(text)["jobs"]["check"]
    assert job["env"] == {"PIP_EXTRA_INDEX_URL": "${{ vars.TORCH_CPU_INDEX }}"}
    assert (
        '"torch==2.13.0"' in job["steps"][2]["run"]
    )  # a pin that the version of a CPU build meets, and it sorts first


def test_it_runs_the_action_with_inputs_that_the_action_has() -> None:
    from tests.support.places import ROOT

    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    steps = yaml.safe_load(workflow_text(Path(".github/workflows/ctrace.yml"), Path("ctrace.yaml"), "2.13.0"))
    assert set(steps["jobs"]["check"]["steps"][3]["with"]) <= set(action["inputs"])


def test_a_workflow_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = workflow_path(Path("ctrace.yaml"))
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(PolicyError, match="already exists"):
        workflow_path(Path("ctrace.yaml"))
