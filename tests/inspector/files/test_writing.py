"""Writing files whole or not at all."""

import os
from pathlib import Path

import pytest

from ctrace.inspector.files.writing import write_output, write_text


def test_a_failed_write_leaves_the_old_file_and_no_half_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")

    def fail(*_args: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_named_link_leads_on(tmp_path: Path) -> None:
    file, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(file)
    for text in ("first", "second"):
        write_output(link, text)
        assert file.read_text() == text
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, file]


def test_what_is_no_file_takes_the_text_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_output(pipe, "text")
        assert os.read(reading, 100) == b"text"
    finally:
        os.close(reading)
    assert pipe.is_fifo()
