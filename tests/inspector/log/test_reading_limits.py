"""A log of any form takes bounded memory: what is too large is skipped and named, and the rest is read."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from ctrace.inspector.errors import SettingsError
from ctrace.inspector.features.compare.rank_summary import summary_of
from ctrace.inspector.log import second_process
from ctrace.inspector.log.fields import loaded
from ctrace.inspector.log.files import head_of
from ctrace.inspector.log.folders import LogFile
from ctrace.inspector.log.reader import Broken, LogEntry, read
from ctrace.inspector.log.reading_limits import longest_record, most_unpacked
from ctrace.inspector.runs.load import load_log
from tests.inspector.log.test_reader import PREFIX, small_log
from tests.support.helpers import Log

_LONG = 2_500_000


def _long_records() -> str:
    lines = "\n".join("x" * (number % 70) for number in range(_LONG // 30))
    log = small_log().artifact("long", "x" * _LONG).artifact("lines", lines)
    return log.text + f'{PREFIX} {{"long": "{"x" * _LONG}"}}\n' + "x" * _LONG + "\n" + small_log().text


@pytest.mark.parametrize("has_child", [True, False])
def test_a_record_that_is_too_long_is_skipped_and_the_rest_keeps_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_child: bool
):
    (log := tmp_path / "job.log").write_text(_long_records())
    known = list(read(log))
    assert sum(isinstance(each, Broken) for each in known) == 1
    monkeypatch.setenv("CTRACE_MAX_RECORD", "1M")
    monkeypatch.setattr(second_process, "_LARGE", 0 if has_child else 1 << 40)
    found = list(read(log))
    assert [each.number for each in found] == [each.number for each in known]
    skipped = [each for each in found if isinstance(each, Broken)]
    assert [each.why.partition(" is longer than ")[0] for each in skipped] == [
        "the record of 'artifact'",
        "the record of 'artifact'",
        "the record of 'long'",
        "a line",
    ]
    assert all("1 MiB" in each.why and "CTRACE_MAX_RECORD" in each.why for each in skipped)
    assert [each for each in known if each.number not in {each.number for each in skipped}] == [
        each for each in found if isinstance(each, LogEntry)
    ]


@pytest.mark.parametrize("end", ["", "\n", "\n\t", "\n\tx", "\n\n", "\nx"])
def test_a_long_record_ends_where_the_next_line_does(tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CTRACE_MAX_RECORD", "1M")
    for piece in (
        (1 << 18) - 1,
        1 << 18,
        (1 << 18) + 1,
    ):  # the record ends before, at and after the end of what is read
        (log := tmp_path / "job.log").write_text(
            "x" * (4 * (1 << 20) + piece) + end + "\n" + Log().record("b", {}).text
        )
        *_, entry = read(log)
        assert isinstance(entry, LogEntry)
        assert entry.number == 2 + end.count("\n")


def test_what_stays_in_a_log_is_found_behind_a_long_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (log := tmp_path / "job.log").write_text(_long_records())
    monkeypatch.setattr("ctrace.inspector.runs.load._LARGE", 1)
    monkeypatch.setenv("CTRACE_MAX_RECORD", "1M")
    whole, found = load_log(log), load_log(log)
    assert [each.text for each in found.records] == [each.text for each in whole.records]


def test_a_compressed_file_is_read_to_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = small_log().text.encode()
    (log := tmp_path / "job.log.gz").write_bytes(gzip.compress(text + b"x" * 5_000_000))
    monkeypatch.setenv("CTRACE_MAX_UNPACKED", "1M")
    tracemalloc.start()
    found = load_log(log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20
    assert len(found.breaks) == 1
    assert any(
        "unpack to more than 1 MiB" in each.what and "CTRACE_MAX_UNPACKED" in each.what for each in found.cut_off
    )
    assert "CTRACE_MAX_UNPACKED" in summary_of(LogFile(log, 0, 1)).cut
    monkeypatch.setenv("CTRACE_MAX_UNPACKED", "10M")
    assert not any("CTRACE_MAX_UNPACKED" in each.what for each in load_log(log).cut_off)


def test_archives_may_grow_a_hundredfold(monkeypatch: pytest.MonkeyPatch):
    assert (most_unpacked(10), most_unpacked(10**9)) == (64 << 20, 10**11)
    monkeypatch.setenv("CTRACE_MAX_UNPACKED", "3 G".replace(" ", ""))
    assert most_unpacked(10) == 3 << 30


@pytest.mark.parametrize("text", ["x", "-1", "0", "1", "1.5G", "1Q", "1" * 30])
def test_a_limit_that_is_no_size_is_refused(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CTRACE_MAX_RECORD", text)
    with pytest.raises(SettingsError, match="CTRACE_MAX_RECORD"):
        longest_record()


def test_json_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch):
    text = f"[{'[],' * (1 << 19)}1]"
    assert len(loaded(text)) == (1 << 19) + 1
    monkeypatch.setenv("CTRACE_MAX_RECORD", "2M")
    with pytest.raises(ValueError, match="more than 65,536 values"):
        loaded(text)


def test_endless_odd_records_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ctrace.inspector.log.collected_log.MOST_PROBLEMS", 3)
    monkeypatch.setattr("ctrace.inspector.session.build.MOST_PROBLEMS", 3)
    monkeypatch.setattr("ctrace.inspector.log.collected_log._MOST_KINDS", 3)
    log = Log()
    for number in range(10):
        log.line(f"line {number}").record("dynamo_start", {"stack": number}, at="0/0").record(f"kind_{number}", {})
    (path := tmp_path / "job.log").write_text(log.text)
    found = load_log(path)
    texts = [*(each.what for each in found.cut_off), *(each.what for each in found.problems)]
    assert any("7 more records of the trace log cannot be read" in each for each in texts)
    assert any("7 more entries are not as expected" in each for each in texts)
    assert found.unknown == {"kind_0": 1, "kind_1": 1, "kind_2": 1, "others": 7}


def test_a_compressed_file_of_nothing_but_lines_says_why_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CTRACE_MAX_UNPACKED", "1M")
    (log := tmp_path / "job.log.gz").write_bytes(gzip.compress(small_log().text.encode() + b"\n" * 3_000_000))
    found = load_log(log)
    assert any("CTRACE_MAX_UNPACKED" in each.what for each in found.cut_off)


def test_the_head_of_a_zstd_bomb_takes_little(tmp_path: Path):
    zstandard = pytest.importorskip("zstandard")
    (log := tmp_path / "job.log.zst").write_bytes(zstandard.compress(b"x" * 200_000_000))
    tracemalloc.start()
    head_of(log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20
