"""The list of saved runs: what tells them apart."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.store import Store
from tests.support.inprocess import ctrace
from tests.support.places import DATA

COMMITS = {"main": "1a2b3c4d" * 5, "wide": "5e6f7a8b" * 5}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def save(options: Options | None = None, **summary: Any) -> None:
    store = Store(Path(".ctrace"))
    run = store.create(Target("net.py", "model"))
    request = CaptureRequest("model", "net.py", None, None, (), options or Options(), str(run.log))
    run.request.write_text(request.to_json())
    counts = {"verdict": "compiled", "graphs": 1, "breaks": 0, "recompiles": 0}
    store.finish(run, 1.0, None, counts | summary)


def test_runs_of_two_branches_can_be_told_apart():
    for branch, commit in COMMITS.items():
        save(branch=branch, commit=commit)
    header, first, second = ctrace("runs").out.splitlines()
    assert "code" in header
    assert "main 1a2b3c4 " in first
    assert "wide 5e6f7a8 " in second
    assert [run["commit"] for run in json.loads(ctrace("runs", "--json").out)] == list(COMMITS.values())


def test_options_tell_runs_of_one_file_apart():
    save()
    save(Options(mode="max-autotune", train=True))
    _, first, second = ctrace("runs").out.splitlines()
    assert " 1 graph " in first
    assert "1 graph, with --train --mode max-autotune" in second


def test_what_a_run_does_not_have_takes_no_place():
    save()
    header, line = ctrace("runs").out.splitlines()
    assert "code" not in header
    assert "break" not in line
    save(breaks=2, branch="\x1b[31mred")
    assert "1 graph, 2 breaks" in ctrace("runs").out
    assert "\x1b" not in ctrace("runs").out


def test_a_screen_of_an_earlier_run_says_how_to_name_it():
    store = Store(Path(".ctrace"))
    names = []
    for number in (1, 2):
        run = store.create(Target("net.py", "model"), f"run {number}")
        run.log.write_bytes((DATA / "break_first.log").read_bytes())
        store.finish(run, 1.0, None, {})
        names.append(run.name)
    old, last = names
    assert f"or explain -v, each with '{old}'" in " ".join(ctrace("explain", old).out.split())
    assert f"add its name, '{old}', to the command" in ctrace("graphs", old).out
    assert old not in ctrace("recompiles", old).out
    for words in (("explain", last), ("explain",), ("graphs", last), ("graphs",)):
        assert last not in ctrace(*words).out


def test_the_list_goes_into_a_file(folder: Path):
    save()
    assert ctrace("runs", "-o", "runs.txt").out == ""
    assert " 1 graph" in (folder / "runs.txt").read_text()
