"""Logs are recognized by their content, and read compressed."""

import gzip
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from ctrace.inspector.errors import SetupError
from ctrace.inspector.log.files import is_log, rank_of, unreadable
from ctrace.inspector.log.reader import Broken, read
from tests.support.places import DATA

LOG = DATA / "print_break.torch.log"


@pytest.mark.parametrize("name", ["log.txt", "log", "train.out", "log.gz"])
def test_log_is_recognized_by_content(tmp_path: Path, name: str):
    data = LOG.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert is_log(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [("model.py", LOG.read_text(encoding="utf-8")), ("notes.txt", "V is for\n[x] {"), ("empty.txt", "")],
)
def test_other_files_are_no_logs(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert not is_log(tmp_path / name)


def test_log_whose_first_line_is_damaged_is_still_one(tmp_path: Path):
    (tmp_path / "log.txt").write_bytes(b"\xff\xfe garbage\n" + LOG.read_bytes())
    assert is_log(tmp_path / "log.txt")


def test_compressed_log_reads_as_the_plain_one(tmp_path: Path):
    (tmp_path / "log.gz").write_bytes(gzip.compress(LOG.read_bytes()))
    assert list(read(tmp_path / "log.gz")) == list(read(LOG))


def test_truncated_compressed_log_ends_in_a_broken_record(tmp_path: Path):
    data = gzip.compress(LOG.read_bytes())
    (tmp_path / "log.gz").write_bytes(data[: len(data) // 2])
    *entries, last = read(tmp_path / "log.gz")
    assert entries
    assert isinstance(last, Broken)


def test_zstd_without_its_module_says_what_to_install(tmp_path: Path):
    (tmp_path / "log.zst").write_bytes(b"\x28\xb5\x2f\xfd rest")
    missing = {"compression": None, "compression.zstd": None, "zstandard": None}
    with patch.dict(sys.modules, missing), pytest.raises(SetupError) as caught:
        is_log(tmp_path / "log.zst")
    assert "zstd" in caught.value.what
    assert "pip install zstandard" in caught.value.todo


def test_rank_comes_from_the_records_before_the_name(tmp_path: Path):
    record = 'V0102 03:04:05.000006 77 torch/x.py:1] {"dynamo_start": {}, "rank": 5, "frame_id": 0}\n'
    (tmp_path / "rank_3.log").write_text(record, encoding="utf-8")
    assert rank_of(tmp_path / "rank_3.log") == 5


def test_rank_comes_from_the_name_of_a_folder(tmp_path: Path):
    (tmp_path / "rank3").mkdir()
    log = tmp_path / "rank3" / "trace.log"
    log.write_bytes(LOG.read_bytes())
    assert rank_of(log) == 3
    assert rank_of(LOG) is None


def compressed(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    found: bytes = zstandard.compress(data)
    return found


def test_zstd_is_read(tmp_path: Path):
    (tmp_path / "log").write_bytes(compressed(LOG.read_bytes()))
    assert is_log(tmp_path / "log")
    assert list(read(tmp_path / "log")) == list(read(LOG))


def test_zstd_of_several_frames_is_read_to_its_end(tmp_path: Path):
    data = LOG.read_bytes()
    middle = len(data) // 2
    (tmp_path / "log").write_bytes(compressed(data[:middle]) + compressed(data[middle:]))
    assert list(read(tmp_path / "log")) == list(read(LOG))


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_truncated_zstd_ends_in_a_broken_record(tmp_path: Path, part: float):
    data = compressed(LOG.read_bytes() * 9)
    (tmp_path / "log").write_bytes(data[: int(len(data) * part)])
    *_, last = read(tmp_path / "log")
    assert isinstance(last, Broken)


def test_damaged_zstd_is_reported(tmp_path: Path):
    data = bytearray(compressed(LOG.read_bytes()))
    data[len(data) // 2] ^= 255
    (tmp_path / "log").write_bytes(data)
    assert any(isinstance(each, Broken) for each in read(tmp_path / "log"))


def test_advice_on_a_log_that_cannot_be_read_fits_the_reason():
    forbidden = unreadable(Path("a.log"), PermissionError(13, "Permission denied"))
    assert (forbidden.what, forbidden.todo) == ("a.log cannot be read: Permission denied", "check its permissions")
    assert (
        unreadable(Path("a.log"), IsADirectoryError(21, "Is a directory")).todo == "name a log that TORCH_TRACE wrote"
    )
