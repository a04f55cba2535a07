"""`ctrace ranks` on recorded jobs: exit codes, JSON, and errors of the command line; `--rank` of the other commands."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.inprocess import ctrace
from tests.support.places import DATA

JOBS = DATA / "ranks"


def test_json_has_the_fixed_names():
    data = json.loads(ctrace("ranks", str(JOBS / "shape"), "--json").out)
    assert (data["ranks"], data["missing"], data["agree"]) == ([0, 1], [], False)
    found = data["first_divergence"]
    assert found["kind"] == "input"
    assert found["values"] == {"0": "f32[4, 8][8, 1]cpu", "1": "f32[6, 8][8, 1]cpu"}
    assert {"compilation", "function", "file", "line", "kind", "values"} <= found.keys()


def test_agreeing_ranks_have_no_divergence():
    data = json.loads(ctrace("ranks", str(JOBS / "equal"), "--json").out)
    assert (data["agree"], data["first_divergence"]) == (True, None)


@pytest.mark.parametrize(("case", "code"), [("equal", 0), ("shape", 1), ("killed", 1)])
def test_fail_sets_the_exit_code(case: str, code: int):
    assert ctrace("ranks", str(JOBS / case)).code == 0
    assert ctrace("ranks", str(JOBS / case), "--fail").code == code


@pytest.mark.parametrize("name", ["absent", "file.txt", "empty"])
def test_what_is_no_folder_of_logs_is_refused_in_two_lines(tmp_path: Path, name: str):
    (tmp_path / "file.txt").write_text("text\n", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    ran = ctrace("ranks", str(tmp_path / name))
    assert (ran.code, len(ran.err.splitlines())) == (2, 2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_log_is_refused(tmp_path: Path):
    shutil.copytree(JOBS / "equal", tmp_path / "job")
    next((tmp_path / "job").iterdir()).chmod(0)
    ran = ctrace("ranks", str(tmp_path / "job"))
    assert (ran.code, "Permission denied" in ran.err) == (2, True)


@pytest.mark.parametrize("command", ["explain", "breaks", "recompiles", "graphs"])
def test_views_take_a_folder_of_ranks(command: str):
    ran = ctrace(command, str(JOBS / "recompile"))
    assert ran.code == 0
    assert "this is rank 0" in ran.err
    assert ctrace(command, str(JOBS / "recompile"), "--rank", "1").err == ""


def test_rank_selects_the_log_that_recompiled():
    data = [json.loads(ctrace("recompiles", str(JOBS / "recompile"), "--rank", rank, "--json").out) for rank in "01"]
    assert [len(each["recompiles"]) for each in data] == [0, 1]


@pytest.mark.parametrize("target", [str(DATA / "print_break.log"), "model.py"])
def test_rank_needs_a_folder(target: str):
    ran = ctrace("explain", target, "--rank", "0")
    assert ran.code == 2
    assert "--rank 0" in ran.err


def test_log_named_txt_is_read_as_a_log(tmp_path: Path):
    shutil.copy(DATA / "print_break.torch.log", tmp_path / "job.txt")
    ran = ctrace("explain", str(tmp_path / "job.txt"))
    assert (ran.code, "PARTIAL" in ran.out) == (0, True)
