"""Temporary folders where others delete them, or where none can be made."""

import shutil
import tempfile
from pathlib import Path

import pytest

from ctrace.inspector.errors import RunError
from ctrace.inspector.files.scratch import scratch


def test_a_deleted_folder_of_temporary_files_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(gone))
    gone.rmdir()
    with scratch() as folder:
        assert folder.is_dir()
        assert folder.parent != gone
    assert not folder.exists()


def test_a_folder_that_the_program_deletes_is_no_error() -> None:
    with scratch("test") as folder:
        shutil.rmtree(folder)


def test_without_any_folder_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no"))
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "no")])
    with pytest.raises(RunError) as refused, scratch():
        pass
    assert "TMPDIR" in refused.value.todo
