"""Which log of a folder a view reads, and what is said about the others; logs that were edited."""

import contextlib
import errno
import os
import re
import shutil
import socket
from collections.abc import Callable
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
    assert [log.path.name for log in logs_in(tmp_path).logs] == ["trace.txt"]


def test_empty_folder_is_refused(tmp_path: Path):
    with pytest.raises(RunError, match="no run and no trace log"):
        choose(tmp_path, None)


def redacted(text: str) -> str:
    """Replace a name in every payload, as a person would before sharing a log."""
    return re.sub("/home/user", "/home/REDACTED", text)


def test_redacted_log_is_used_and_said_once(tmp_path: Path):
    plain = load_log(LOG)
    log = tmp_path / "edited.log"
    log.write_text(redacted(LOG.read_text(encoding="utf-8")), encoding="utf-8")
    found = load_log(log)
    assert [each.times for each in found.breaks] == [each.times for each in plain.breaks]
    assert len(found.graphs) == len(plain.graphs)
    said = [each.what for each in found.problems if "changed after" in each.what]
    assert len(said) == 1
    assert not any("cut short or damaged" in each.what for each in found.problems)


@pytest.mark.parametrize("word", ["TREE_GUARD_MANAGER", "class GraphModule", '"entire_frame_compile"'])
def test_one_edited_payload_is_enough(tmp_path: Path, word: str):
    text = LOG.read_text(encoding="utf-8")
    assert word in text
    log = tmp_path / "edited.log"
    log.write_text(text.replace(word, word.replace("a", "X").replace("A", "X"), 1), encoding="utf-8")
    found = load_log(log)
    assert not any("damaged" in each.what for each in found.problems)
    (said,) = [each.what for each in found.problems if "changed after" in each.what]
    assert "1 payload does not match its checksum" in said
    plain = load_log(LOG)
    assert (len(found.graphs), len(found.breaks)) == (len(plain.graphs), len(plain.breaks))


DAMAGES = {
    "half a letter": lambda text: text.replace(b"class GraphModule", b"class \xc3GraphModule", 1),
    "a zeroed block": lambda text: text.replace(b"class GraphModule", bytes(17), 1),
    "half of JSON": lambda text: text.replace(b'"ph": "E"', b'"ph": ', 1),
    "no payload": lambda text: re.sub(rb"(\n\tclass GraphModule[^\n]*)(\n\t[^\n]*)*", b"", text, count=1),
    "the head of a record is lost": lambda text: re.sub(
        rb"(GraphModule)(?s:.*?)(, \"attempt\": 0)", rb"\1\2", text, count=1
    ),
    "the end of a payload and the next head": lambda text: re.sub(
        rb"(GraphModule[^\n]*)(?:\n\t[^\n]*)*\nV[^\]]*", rb"\1\nV", text, count=1
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_lost_bytes_are_damage_and_the_rest_is_used(tmp_path: Path, damage: Callable[[bytes], bytes]):
    whole, log = LOG.read_bytes(), tmp_path / "damaged.log"
    log.write_bytes(damage(whole))
    assert log.read_bytes() != whole
    found = load_log(log)
    lost = [each.what for each in found.cut_off if "cannot be read" in each.what]
    assert any(" of '" in each and "cut short or damaged" in each for each in lost)
    assert not any("changed after" in each.what for each in found.problems)
    assert found.compilations


def test_only_the_last_payload_that_does_not_match_is_cut(tmp_path: Path):
    text = LOG.read_text(encoding="utf-8")
    cut = text[: text.index("\n", text.index("class GraphModule")) + 1]
    log = tmp_path / "cut.log"
    log.write_text(cut, encoding="utf-8")
    assert any("dynamo_output_graph" in each.what and "damaged" in each.what for each in load_log(log).cut_off)


def test_names_redacted_in_payloads_alone_are_no_missing_break(tmp_path: Path):
    lines = LOG.read_text(encoding="utf-8").split("\n")
    hidden = [re.sub(r"\bhalves\b", "REDACTED", line) if line.startswith("\t") else line for line in lines]
    log = tmp_path / "edited.log"
    log.write_text("\n".join(hidden), encoding="utf-8")
    found, plain = load_log(log), load_log(LOG)
    assert (str(found.verdict), len(found.breaks), found.cut_off) == (str(plain.verdict), len(plain.breaks), ())


def test_edited_log_that_is_cut_shows_what_it_has(tmp_path: Path):
    text = redacted(LOG.read_text(encoding="utf-8"))
    log = tmp_path / "cut.log"
    log.write_text(text[: text.rindex('"ph": "E"')], encoding="utf-8")
    found, plain = load_log(log), load_log(LOG)
    assert len(found.breaks) == len(plain.breaks)
    assert any("changed after" in each.what for each in found.problems)
    assert any("damaged" in each.what for each in found.cut_off)


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
    assert logs_in(tmp_path).logs == ()


def test_unreadable_log_is_skipped_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copy(LOG, tmp_path / "one.log")
    shutil.copy(LOG, tmp_path / "two.log")
    monkeypatch.setattr("os.access", lambda path, _mode: path != tmp_path / "one.log")
    chosen = choose(tmp_path, None)
    assert chosen.path.name == "two.log"
    assert chosen.skipped == f"skipped in {tmp_path}, as it cannot be read: one.log (Permission denied)"


def test_what_is_no_file_is_skipped_and_named(tmp_path: Path):
    shutil.copy(LOG, tmp_path / "one.log")
    (tmp_path / "loop.log").symlink_to("loop.log")
    (tmp_path / "nowhere.log").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe.log")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as opened:
        opened.bind(str(tmp_path / "socket.log"))
        chosen = choose(tmp_path, None)
    assert chosen.path.name == "one.log"
    assert chosen.skipped.endswith(
        "loop.log (Too many levels of symbolic links), nowhere.log (No such file or directory), "
        "pipe.log (not a regular file) and 1 more"
    )


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, "Permission denied"), OSError(errno.EIO, "Input/output error")]
)
def test_link_that_the_system_refuses_is_skipped(tmp_path: Path, error: OSError, monkeypatch: pytest.MonkeyPatch):
    shutil.copy(LOG, tmp_path / "one.log")
    (tmp_path / "two.log").symlink_to(LOG)
    before = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "two.log":
            raise error
        return before(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    chosen = choose(tmp_path, None)
    assert (chosen.path.name, str(error.strerror) in chosen.skipped) == ("one.log", True)


def test_log_that_goes_while_the_folder_is_read_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copy(LOG, tmp_path / "one.log")
    shutil.copy(LOG, tmp_path / "two.log")

    def rank_of(path: Path) -> None:
        if path.name == "two.log":
            path.unlink()

    monkeypatch.setattr("ctrace.inspector.log.folders.rank_of", rank_of)
    found = logs_in(tmp_path)
    assert [log.path.name for log in found.logs] == ["one.log"]
    assert [each.why for each in found.skipped] == ["No such file or directory"]


def test_folder_without_a_readable_log_names_what_it_has(tmp_path: Path):
    (tmp_path / "loop.log").symlink_to("loop.log")
    with pytest.raises(RunError, match=r"no run and no trace log; skipped .*loop\.log"):
        choose(tmp_path, None)
