"""Which files a capture records as those that a model depends on."""

import contextlib
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.capture.core import files_read as module
from ctrace.inspector.capture.core.files_read import files_read
from ctrace.inspector.facts.run_events import FilesFound


class Recorder:
    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def watching(self, _what: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def add(self, record: FilesFound) -> None:
        self.files = record.files


def recorded(action: Any, owned: tuple[str, ...] = ()) -> dict[str, str]:
    recorder = Recorder()
    with files_read(owned)(recorder, lambda _name, _act: None):  # type: ignore[arg-type]
        action()
    return recorder.files


def old(path: Path, text: str = "text") -> Path:
    """Write a file that was there before the capture began."""
    path.write_text(text)
    os.utime(path, (time.time() - 60,) * 2)
    return path


def test_what_was_read_is_recorded_with_its_digest(tmp_path: Path) -> None:
    size, other = old(tmp_path / "size.txt"), old(tmp_path / "other.txt")

    def read_both() -> None:
        size.read_text()
        os.close(os.open(other, os.O_RDONLY))

    found = recorded(read_both)
    digest = hashlib.sha256(b"text").hexdigest()
    assert {path: value for path, value in found.items() if path.startswith(str(tmp_path))} == {
        str(size): digest,
        str(other): digest,
    }
    assert str(Path(__file__)) in found, "modules that are imported count"
    assert not any("site-packages" in path for path in found)


def test_what_was_written_is_not(tmp_path: Path) -> None:
    path = tmp_path / "written.txt"
    found = recorded(lambda: (path.write_text("x"), path.read_text()))
    assert str(path) not in found


def test_a_file_that_changed_meanwhile_has_no_digest(tmp_path: Path) -> None:
    path = old(tmp_path / "edited.py")

    def edit() -> None:
        path.read_text()
        subprocess.run([sys.executable, "-c", f"open({str(path)!r}, 'w').write('new')"], check=True)

    assert recorded(edit)[str(path)] == ""


def test_nor_does_one_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 3)
    path = old(tmp_path / "weights.bin")
    assert recorded(path.read_bytes)[str(path)] == ""


def test_a_library_counts_if_it_is_owned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "library_prefixes", lambda: {str(tmp_path): "library"})
    path = old(tmp_path / "lib.txt")
    assert str(path) not in recorded(path.read_text)
    assert str(path) in recorded(path.read_text, (str(tmp_path),))


def test_nothing_is_heard_after_the_end(tmp_path: Path) -> None:
    path = old(tmp_path / "late.txt")
    assert str(path) not in recorded(lambda: None)
    path.read_text()
