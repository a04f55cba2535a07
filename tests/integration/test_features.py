"""Without the folder of a feature, its commands are not offered, and the rest works as before."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.features.doors import doors
from tests.support.places import ROOT

pytestmark = pytest.mark.integration

LOG = ROOT / "tests" / "data" / "break_paths.log"
MODEL = """\
import torch

model = torch.nn.Linear(4, 4)


def inputs():
    return (torch.randn(2, 4),)
"""
STEPS = """\
import os, sys
sys.path.insert(0, {tree!r})
import ctrace
from ctrace.cli.main import app
assert os.path.dirname(os.path.dirname(ctrace.__file__)) == {tree!r}
for words in {commands!r}:
    child = os.fork()
    if child == 0:
        sys.argv = ["ctrace", *words]
        app(prog_name="ctrace")
    _, status = os.waitpid(child, 0)
    print("\\nENDED", os.waitstatus_to_exitcode(status), flush=True)
"""
"""Forks share the import of the command line."""


def tree_without(feature: str, folder: Path) -> Path:
    """Return a copy of the tree, in hard links where possible, without one feature."""

    def linked(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:  # another disk
            shutil.copy2(source, target)

    tree = folder / "tree"
    for name in ("ctrace", "cli", "reports", "inspector"):
        shutil.copytree(ROOT / name, tree / name, copy_function=linked)
    shutil.rmtree(tree / "inspector" / "features" / feature)
    return tree


def answers(tree: Path, folder: Path, *commands: list[str]) -> list[tuple[int, str]]:
    """Run commands of a tree; return the exit code and the output of each."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS.format(tree=str(tree), commands=list(commands))],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "CTRACE_RUNS": str(folder / "runs")},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("\nENDED ")
    codes = [int(part.partition("\n")[0]) for part in parts[1:]]
    outputs = [parts[0], *(part.partition("\n")[2] for part in parts[1:-1])]
    assert len(codes) == len(commands), done.stderr
    return list(
        zip(
            codes,
            (f"{each}{done.stderr if code else ''}" for code, each in zip(codes, outputs, strict=True)),
            strict=True,
        )
    )


OPTIONS = {"gpus": ["--target", "h100"], "fake": ["--fake"]}
"""The option of a feature that has no command of its own."""


@pytest.mark.long
@pytest.mark.parametrize("feature", sorted(doors()))
def test_the_rest_works_without_a_feature(feature: str, tmp_path: Path):
    tree = tree_without(feature, tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    gone = doors()[feature].commands
    option = OPTIONS.get(feature)
    refused = [[gone[0].split()[0]] if option is None else ["explain", "model.py", *option]]
    helped, explained, viewed, refusal = answers(
        tree, tmp_path, ["--help"], ["explain", "model.py", "--json"], ["breaks", str(LOG), "--json"], *refused
    )
    listed = {line.strip().partition("  ")[0] for line in helped[1].splitlines()}
    assert listed.isdisjoint({each.rpartition(" ")[2] for each in gone})
    assert {"explain", "breaks", "kernels"} <= listed
    assert (explained[0], json.loads(explained[1])["verdict"]) == (0, "compiled"), explained
    found: dict[str, Any] = json.loads(viewed[1])
    assert (viewed[0], len(found["breaks"])) == (0, 1), viewed
    assert refusal[0] == (0 if feature == "workshop" else 2), refusal
    if feature == "accuracy":
        (asked,) = answers(tree, tmp_path, ["report", "model.py", "--accuracy", "-o", "report.html"])
        assert asked[0] == 2
        assert "--accuracy needs the feature accuracy, which is not here" in asked[1]
    if feature == "gpus":
        assert "--target needs the feature gpus, which is not here" in refusal[1]
    if option is not None:
        assert f"{option[0]} needs the feature {feature}, which is not here" in refusal[1]


def test_each_command_belongs_to_the_core_or_to_one_feature():
    from ctrace.cli.main import _OF_CORE, _PANELS

    of_features = [name for door in doors().values() for name in door.commands]
    assert sorted([*_OF_CORE, *of_features]) == sorted(_PANELS)
