"""The command line of `ctrace targets`, without torch."""

import json
from pathlib import Path

import pytest

from tests.cli.test_main import NO_TORCH, _ctrace
from tests.support.places import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.ctrace]\ngpus = ["mine.yaml"]\n')
    (tmp_path / "mine.yaml").write_text("H100: {extends: h100, processors: 99}\nmine: {extends: l4}\n")
    return tmp_path


def test_the_table(tmp_path: Path) -> None:
    done = _ctrace("targets", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rtx-4090" in done.stdout


def test_the_users_own_targets_are_marked(project: Path) -> None:
    done = _ctrace("targets", cwd=project)
    assert "h100: from your mine.yaml, replaces the built-in one" in done.stdout
    assert "mine: from your mine.yaml\n" in done.stdout


def test_one(project: Path) -> None:
    assert "NVIDIA GeForce RTX 4090" in _ctrace("targets", "RTX 4090", cwd=project).stdout
    assert "99" in _ctrace("targets", "h100", cwd=project).stdout
    assert "NVIDIA L4" in _ctrace("targets", "mine.yaml:mine", cwd=project).stdout


def test_json(project: Path) -> None:
    every = json.loads(_ctrace("targets", "--json", cwd=project).stdout)
    one = json.loads(_ctrace("targets", "h100", "--json", cwd=project).stdout)
    assert one in every
    assert (one["capability"], one["processors"], one["replaces"]) == ("9.0", 99, True)
    assert one["sources"]["processors"] == "your mine.yaml"


def test_into_a_file(tmp_path: Path) -> None:
    done = _ctrace("targets", "t4", "-o", "t4.txt", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Tesla T4" in (tmp_path / "t4.txt").read_text()


@pytest.mark.parametrize(
    ("words", "what", "todo"),
    [
        (("h10",), "h10: there is no such GPU", "did you mean h100?"),
        (("no.yaml",), "no.yaml cannot be read", "name another file"),
        (("--read", "--json"), "--read and --json exclude each other", "choose one"),
        (("-o", "no/such"), "there is no folder no", "name another file"),
    ],
)
def test_a_wrong_command_line(words: tuple[str, ...], what: str, todo: str, tmp_path: Path) -> None:
    done = _ctrace("targets", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert what in first
    assert todo in second


def test_reading_needs_torch(tmp_path: Path) -> None:
    code = "import ctrace.inspector.knowledge.releases as s; s.torch_version = lambda: None; "
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    done = _ctrace("targets", "--read", cwd=tmp_path, code=NO_TORCH + boot + code)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)


def test_a_wrong_file_of_the_project(project: Path) -> None:
    (project / "mine.yaml").write_text("mine: {extends: l4, l22: 3}")
    done = _ctrace("targets", cwd=project)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith("mine.yaml: mine: there is no fact l22")
