"""The policy that `--init` writes is valid, as it is and with all of its examples enabled.

The workflow of `ctrace check --init --github`.
"""

import re
from pathlib import Path

import pytest
import yaml

from ctrace.inspector.errors import PolicyError
from ctrace.inspector.features.check.policy_file import load_policy
from ctrace.inspector.features.check.policy_model import CPU, CheckPolicy, Count
from ctrace.inspector.features.check.policy_starter import starter, workflow_path, workflow_text
from ctrace.inspector.runs.capture_request import Options

MODELS = [
    "models/*.py",
    "*.py",
    "net.py:Encoder",
    "pkg.models:tiny",
    "a b.py",
    "it's #1.py",
    "yes",
    "12",
    "- x",
    "é.py",
]


def loaded(folder: Path, text: str) -> CheckPolicy:
    (folder / "ctrace.yaml").write_text(text, encoding="utf-8")
    return load_policy(folder / "ctrace.yaml")


def with_examples(text: str) -> str:
    """Remove the # of each example line: a letter or two spaces follow it."""
    return re.sub(r"^#(?=[a-z]|  )", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("models", [[], MODELS])
def test_only_models_are_set(tmp_path: Path, models: list[str]):
    policy = loaded(tmp_path, starter(models))
    assert [rule.models for rule in policy.models] == models
    assert policy == CheckPolicy(models=policy.models, file=str(tmp_path / "ctrace.yaml"))


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("models", [[], MODELS])
def test_with_all_examples(tmp_path: Path, models: list[str], gpu: bool):
    (tmp_path / "src" / "mylib").mkdir(parents=True)
    policy = loaded(tmp_path, with_examples(starter(models, targets=["cpu", "h100"] if gpu else [])))
    assert [rule.models for rule in policy.models] == [*(models or ["models/*.py"]), "pkg.models:tiny"]
    assert list(policy.scenarios) == ["base", "training", "sizes"]
    assert policy.targets == (CPU, "h100")
    assert policy.owned
    of_gpu = {Count.SPILLS, Count.MISSED_BYTES, Count.CUDA_GRAPH_SKIPS, Count.CUDA_GRAPH_RERECORDINGS}
    assert set(policy.limits.most) == set(Count) - (set() if gpu else of_gpu)
    assert policy.limits.coverage == 100
    assert len(policy.allow) == 1


ASKED = (
    Options(train=True),
    Options(inputs=("float32[8,n]", "mask=bool[8]"), vary=("0=1,2,8", "dtype=float16")),
    Options(provoke=True, mode="max-autotune", dynamic=False),
)


@pytest.mark.parametrize("options", ASKED)
def test_what_was_asked_for_is_set(tmp_path: Path, options: Options):
    text = starter(["model.py"], options, ["cpu", "a100"], 90.0, inductor_guards=False)
    policy = loaded(tmp_path, text)
    assert policy.scenarios == {"base": options}
    assert policy.targets == (CPU, "a100")
    assert policy.timeout == 90.0
    assert not policy.inductor_guards
    (tmp_path / "src" / "mylib").mkdir(parents=True)
    assert list(loaded(tmp_path, with_examples(text)).scenarios) == ["base", "training", "sizes"]


def test_it_fits_on_a_screen_and_explains_every_key():
    text = starter(["model.py"], targets=["h100"])
    assert max(map(len, text.splitlines())) <= 80
    examples = [line for line in text.splitlines() if re.match(r"#  (\w+):", line) and "{" not in line]
    limits = [line for line in examples if re.match(r"#  [a-z_]+: [\d]", line)]
    assert limits
    assert all("  # " in line for line in limits)


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
