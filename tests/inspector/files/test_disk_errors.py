"""Which errors of the system are the user's, and what the user can do."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from ctrace.inspector.files import disk_errors
from ctrace.inspector.files.disk_errors import explained, is_of_the_system
from ctrace.inspector.files.writing import append_whole, write_bytes


def _error(number: int, file: Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), None if file is None else str(file))


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ELOOP, errno.ENOTDIR, errno.ENOSPC, errno.EROFS])
def test_a_file_of_the_user_is_no_bug_of_ours(number: int, tmp_path: Path) -> None:
    assert is_of_the_system(_error(number, tmp_path / "file"))


def test_a_missing_file_of_ours_is_a_bug() -> None:
    assert not is_of_the_system(_error(errno.ENOENT, Path(disk_errors.__file__).with_name("no.py")))
    assert not is_of_the_system(_error(errno.ENOENT))
    assert not is_of_the_system(_error(errno.EBADF, Path("x")))


def test_the_way_out_is_that_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRACE_DIR", str(tmp_path / "runs"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    full = {name: explained(_error(errno.ENOSPC, tmp_path / name / "file")) for name in ("runs", "tmp", "out")}
    assert all(full.values())
    assert [what for each in full.values() if each is not None for what in ("CTRACE_DIR", "TMPDIR") if what in each[1]] == [
        "CTRACE_DIR",
        "TMPDIR",
    ]  # fmt: skip
    assert explained(_error(errno.ENOSPC)) is None


def test_a_deleted_working_folder_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    error = _error(errno.ENOENT)
    assert is_of_the_system(error)
    assert explained(error) == ("the working folder was deleted", "change to a folder that exists: cd /path/to/folder")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_has_the_name_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="/dev/full") as refused:
        append_whole(Path("/dev/full"), b"x")
    assert refused.value.errno == errno.ENOSPC
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(_error(errno.ENOSPC)))
    with pytest.raises(OSError, match=r"out\.json"):
        write_bytes(tmp_path / "out.json", b"x")
    assert list(tmp_path.iterdir()) == []
