"""The command line of `ctrace graphs`; none of it needs torch."""

import json
from pathlib import Path

import pytest

from tests.cli.test_main import _ctrace
from tests.support.places import DATA

LOG = str(DATA / "trained.log")
ONE = ("--graph", "0/0")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), "0/0  forward"),
        (("--stage", "backward", *ONE), "0/0  forward, stage backward"),
        (("--line", "17"), "trained.py:17"),
        (("--diff", "joint..forward", *ONE), "joint → forward"),
        (("--diff", "post_grad", *ONE), "Passes in between"),
        (("--passes",), "pattern div_softmax_pattern at trained.py:16,17"),
        (("--ops", *ONE), "what it does"),
        (("--dot", *ONE), "digraph {"),
    ],
)
def test_a_view(words: tuple[str, ...], shown: str, tmp_path: Path) -> None:
    done = _ctrace("graphs", LOG, *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown in done.stdout


def test_a_picture(tmp_path: Path) -> None:
    done = _ctrace("graphs", LOG, *ONE, "--svg", "-o", "g.svg", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("Drawn by ")
    assert (tmp_path / "g.svg").read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize(
    ("words", "key"),
    [((), "graphs"), (("--stage", "forward", *ONE), "graph"), (("--line", "17"), "stages"), (("--passes",), "passes")],
)
def test_json(words: tuple[str, ...], key: str, tmp_path: Path) -> None:
    done = _ctrace("graphs", LOG, *words, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)[key]


@pytest.mark.parametrize(
    ("words", "what", "todo"),
    [
        (("--stage", "forwad", *ONE), "--stage forwad: there is no such stage", "did you mean forward?"),
        (("--graph", "9/0"), "--graph 9/0: this run has no such graph", "did you mean"),
        (("--passes", "--graph", "9/0"), "--graph 9/0: this run has no such graph", "did you mean"),
        (("--line", "999"), "--line 999: no graph has a node from that line", "lines with nodes: trained.py:"),
        (("--line", "x.py:1"), "--line x.py:1: no graph has a node from that line", "lines with nodes: trained.py:"),
        (("--diff", "nonsense", *ONE), "--diff nonsense: a diff needs two stages", "write before..after"),
        (("--stage", "joint"), "--stage needs one graph", "add --graph with one of: 0/0"),
        (("--ops", "--dot"), "--ops and --dot exclude each other", "choose one"),
    ],
)
def test_missing_things_are_refused(words: tuple[str, ...], what: str, todo: str, tmp_path: Path) -> None:
    done = _ctrace("graphs", LOG, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"ctrace: {what}")
    assert second.strip().startswith(todo)
