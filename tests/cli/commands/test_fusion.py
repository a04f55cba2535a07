"""The command line of `ctrace fusion`; none of it needs torch."""

import json
from pathlib import Path

import pytest

from tests.cli.test_main import _ctrace
from tests.support.places import DATA

LOG = str(DATA / "trained.log")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), "stage forward"),
        (("--graph", "0/0", "--stage", "backward"), "stage backward"),
        (("--rounds",), "round 1"),
        (("--nodes", "--all"), "This log does not record the nodes"),
        (("-v",), "nothing more could be fused"),
    ],
)
def test_a_view(words: tuple[str, ...], shown: str, tmp_path: Path) -> None:
    done = _ctrace("fusion", LOG, *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown in done.stdout


def test_json_into_a_file(tmp_path: Path) -> None:
    done = _ctrace("fusion", LOG, "--stage", "forward", "--json", "-o", "f.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert {part["stage"] for part in json.loads((tmp_path / "f.json").read_text())["fusion"]} == {"forward"}


@pytest.mark.parametrize(
    ("words", "what", "todo"),
    [
        (("--graph", "9/0"), "--graph 9/0: Inductor's scheduler has no such graph", "did you mean 1/0?"),
        (("--stage", "forwad"), "--stage forwad: there is no such stage", "did you mean forward?"),
        (("--rounds", "--nodes"), "--rounds and --nodes exclude each other", "choose one"),
    ],
)
def test_missing_things_are_refused(words: tuple[str, ...], what: str, todo: str, tmp_path: Path) -> None:
    done = _ctrace("fusion", LOG, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"ctrace: {what}", f"  {todo}"]
