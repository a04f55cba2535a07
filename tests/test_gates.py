"""The hooks for other projects, and this project's own gate."""

import re
from typing import Any

import yaml

from ctrace.inspector.features.check.policy_file import load_policy
from tests.support.places import ROOT

NOT_GATED = {"sample_models/skipped_loop.py", "sample_models/fsdp_tp_llama.py"}
"""Samples that intentionally never compile, or that run with --world only."""


def _yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_every_hook_says_what_it_runs_and_for_which_files() -> None:
    for hook in _yaml(".pre-commit-hooks.yaml"):
        assert {"id", "name", "description", "entry", "language", "files"} <= set(hook)
        assert hook["pass_filenames"] is False
        changed = ["models/net.py", "ctrace.yaml", "sub/ctrace.yml", "ctrace.lock"]
        assert all(re.search(hook["files"], file) for file in changed)
        assert not any(re.search(hook["files"], file) for file in ("README.md", "my_ctrace.yaml", "uv.lock"))


def test_the_policy_names_every_sample() -> None:
    samples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "sample_models").glob("*.py")}
    named = {rule.models for rule in load_policy(ROOT / "ctrace.yaml").models}
    assert named == samples - NOT_GATED


def test_the_workflow_checks_them_with_the_action() -> None:
    steps = _yaml(".github/workflows/ci.yml")["jobs"]["gate"]["steps"]
    assert any(step.get("uses") == "./" for step in steps)
