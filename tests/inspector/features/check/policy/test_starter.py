"""The policy that `--init` writes is valid, as it is and with all of its examples enabled."""

import re
from pathlib import Path

import pytest

from ctrace.inspector.features.check.policy.policy_file import load_policy
from ctrace.inspector.features.check.policy.policy_model import CPU, CheckPolicy, Count
from ctrace.inspector.features.check.policy.starter import starter
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
