"""`ctrace repro`, as far as it goes without torch."""

import contextlib
import json
from pathlib import Path

import pytest

from ctrace.cli.commands.repro import _has_changed, _is_id
from ctrace.inspector.facts.session import Session
from tests.support import inprocess


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "there is no run"),
        (("absent.py",), "there is no file absent.py"),
        (("broken.py", "tensor_branch-1"), "broken.py, line 1"),
        (("model.py", "--issue", "--json"), "--issue and --json exclude each other"),
        (("model.py", "--budget", "soon"), "--budget soon: not a time"),
    ],
)
def test_bad_input_is_two_lines(tmp_path: Path, words: tuple[str, ...], what: str):
    (tmp_path / "model.py").write_text("model = 1\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    with contextlib.chdir(tmp_path):
        ran = inprocess.ctrace("repro", *words)
    assert ran.code == 2
    assert what in ran.err
    assert len(ran.err.strip().splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "is_id"), [("tensor_branch-1f", True), ("model.py", False), ("a.b:model", False), ("model.py:12", False)]
)
def test_an_id_is_no_file(text: str, is_id: bool):
    assert _is_id(text) is is_id


def test_its_schema_is_shipped():
    schema = json.loads(inprocess.ctrace("schema", "repro").out)
    assert {"finding", "program", "line", "tries", "verified"} <= set(schema["properties"])


def test_options_need_a_target(tmp_path: Path):
    with contextlib.chdir(tmp_path):
        ran = inprocess.ctrace("repro", "tensor_branch-1f", "--input", "float32[2]")
    assert (ran.code, ran.err) == (
        2,
        "ctrace: options such as --input need a target\n  name it: ctrace repro model.py\n",
    )


def test_a_file_that_changed_since_the_run_is_noticed(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text("a = 1\n")
    session = Session(listings={str(file): "a = 1\n"})
    assert not _has_changed(str(file), session)
    file.write_text("a = 2\n")
    assert _has_changed(str(file), session)
    assert not _has_changed("/elsewhere.py", session)
