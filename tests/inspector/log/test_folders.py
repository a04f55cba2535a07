"""Which log of a folder a view reads, and what is said about the others; logs that were edited."""

import re
import shutil
from pathlib import Path

import pytest

from ctrace.inspector.errors import RunError, SelectionError
from ctrace.inspector.log.folders import choose, logs_in
from ctrace.inspector.runs.load import load_log
from tests.support.places import DATA

JOB = DATA / "ranks" / "equal"
LOG = DATA / "print_break.torch.log"


def test_lowest_rank_is_read_and_said():
    chosen = choose(JOB, None)
    assert chosen.path.name.endswith("rank_0.log.gz")
    assert "logs of 2 ranks; this is rank 0" in chosen.note
    assert "--rank N" in chosen.note


def test_rank_is_selected_without_a_note():
    chosen = choose(JOB, 1)
    assert (chosen.path.name, chosen.note) == ("dedicated_log_torch_trace_rank_1.log.gz", "")


def test_unknown_rank_names_the_known_ones():
    with pytest.raises(SelectionError, match="--rank 7") as caught:
        choose(JOB, 7)
    assert caught.value.todo == "there are: 0, 1"


def test_largest_log_of_several_processes_is_read_and_said(tmp_path: Path):
    shutil.copy(LOG, tmp_path / "one.log")
    (tmp_path / "two.log").write_text("", encoding="utf-8")
    chosen = choose(tmp_path, None)
    assert chosen.path.name == "one.log"
    assert "2 logs without a rank; this is the largest, one.log" in chosen.note


def test_logs_are_found_in_nested_folders_and_by_content(tmp_path: Path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    shutil.copy(LOG, tmp_path / "deep" / "er" / "trace.txt")
    (tmp_path / ".hidden.log").write_text("", encoding="utf-8")
    (tmp_path / "readme.md").write_text("# logs\n", encoding="utf-8")
    assert [log.path.name for log in logs_in(tmp_path)] == ["trace.txt"]


def test_empty_folder_is_refused(tmp_path: Path):
    with pytest.raises(RunError, match="no run and no trace log"):
        choose(tmp_path, None)


def redacted(text: str) -> str:
    """Replace a name in every payload, as a person would before sharing a log."""
    return re.sub("/home/user", "/home/REDACTED", text)


def test_edited_log_is_used_and_said_once(tmp_path: Path):
    plain = load_log(LOG)
    log = tmp_path / "edited.log"
    log.write_text(redacted(LOG.read_text(encoding="utf-8")), encoding="utf-8")
    found = load_log(log)
    assert [each.times for each in found.breaks] == [each.times for each in plain.breaks]
    assert len(found.graphs) == len(plain.graphs)
    said = [each.what for each in found.problems if "edited" in each.what]
    assert len(said) == 1
    assert not any("cut short or damaged" in each.what for each in found.problems)


def test_one_damaged_payload_is_not_an_edited_log(tmp_path: Path):
    text = LOG.read_text(encoding="utf-8")
    log = tmp_path / "damaged.log"
    log.write_text(text.replace("TREE_GUARD_MANAGER", "TREE_GUARD_MANAGEX", 1), encoding="utf-8")
    found = load_log(log)
    assert any("cut short or damaged" in each.what for each in found.problems)
    assert not any("edited" in each.what for each in found.problems)


def test_folder_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ctrace.inspector.log.folders._MOST_FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="more than 3 files"):
        choose(tmp_path, None)


def test_code_and_deeply_nested_files_are_not_opened(tmp_path: Path):
    deep = tmp_path / "a" / "b" / "c" / "d" / "e"
    deep.mkdir(parents=True)
    shutil.copy(LOG, deep / "too_deep.log")
    shutil.copy(LOG, tmp_path / "copy.json")
    assert logs_in(tmp_path) == ()


def test_unreadable_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copy(LOG, tmp_path / "one.log")
    monkeypatch.setattr("os.access", lambda path, _mode: path != tmp_path / "one.log")
    with pytest.raises(RunError, match=r"one\.log cannot be read: Permission denied"):
        choose(tmp_path, None)
