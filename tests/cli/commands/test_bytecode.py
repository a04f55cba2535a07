"""The command line of `ctrace bytecode`; none of it needs torch."""

import json
from pathlib import Path

import pytest

from tests.cli.test_main import _ctrace
from tests.support.places import DATA

LOG = str(DATA / "rewritten.log")


def test_the_diffs_of_a_function(tmp_path: Path) -> None:
    done = _ctrace("bytecode", LOG, "--function", "inner", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "4/0 scaled.<locals>.inner" in done.stdout
    assert "5/0 inner" in done.stdout
    assert "0/0 Net.forward" not in done.stdout


def test_one_compilation_as_json(tmp_path: Path) -> None:
    done = _ctrace("bytecode", LOG, "--graph", "3/0", "--json", "-o", "b.json", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Wrote b.json\n")
    data = json.loads((tmp_path / "b.json").read_text())
    assert [each["compilation"] for each in data["compilations"]] == ["3/0"]


def test_a_line(tmp_path: Path) -> None:
    done = _ctrace("bytecode", LOG, "--line", "17", cwd=tmp_path)
    assert "y = x @ self.weight" in done.stdout
    assert "3/0" not in done.stdout


@pytest.mark.parametrize(
    ("words", "what", "todo"),
    [
        (("--function", "forwrad"), "--function forwrad: this run has no bytecode for it", "did you mean forward?"),
        (("--function", "zzz"), "--function zzz: this run has no bytecode for it", "there are: Net.forward"),
        (("--graph", "7/7"), "--graph 7/7: this run has no bytecode for it", "there are: 0/0, 1/0"),
        (("--line", "999"), "--line 999: this run has no bytecode for it", "the nearest are: "),
    ],
)
def test_missing_things_are_refused(words: tuple[str, ...], what: str, todo: str, tmp_path: Path) -> None:
    done = _ctrace("bytecode", LOG, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first == f"ctrace: {what}"
    assert second.strip().startswith(todo)
