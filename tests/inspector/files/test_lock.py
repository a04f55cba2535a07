"""One process at a time holds a lock, and nothing stays behind."""

import fcntl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ctrace.inspector.files import lock as filelock
from ctrace.inspector.files.lock import in_use, locked, unused

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")


def ignore(_text: str) -> None:
    """Drop the message."""


def test_one_at_a_time_and_no_file_stays(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    counter.write_text("0")

    def count() -> None:
        for _ in range(20):
            with locked(counter, ignore):
                number = int(counter.read_text())
                time.sleep(0.0005)
                counter.write_text(str(number + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "80"
    assert [each.name for each in tmp_path.iterdir()] == ["count"]


def test_who_waits_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filelock, "_PATIENCE_SECONDS", 0.1)
    said: list[str] = []
    with locked(tmp_path / "ctrace.lock", ignore):
        waiting = threading.Thread(
            target=lambda: locked(tmp_path / "ctrace.lock", said.append).__enter__(), daemon=True
        )
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
    waiting.join(60)
    assert said == ["ctrace: waiting for another ctrace to finish writing ctrace.lock"]


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = f"import fcntl, os; os.open({str(tmp_path / '.a.lock')!r}, os.O_RDWR | os.O_CREAT); fcntl.flock(3, fcntl.LOCK_EX); os._exit(9)"  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (tmp_path / ".a.lock").exists()
    with locked(tmp_path / "a", pytest.fail):
        pass
    assert not (tmp_path / ".a.lock").exists()


def test_without_locks_the_block_runs_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    said: list[str] = []
    with locked(tmp_path / "a", said.append):
        pass
    assert said == ["ctrace: a cannot be locked (No locks available); another ctrace may write it at the same time"]
    with unused(tmp_path) as is_free:
        assert is_free


def test_what_is_read_is_in_use(tmp_path: Path) -> None:
    with in_use(tmp_path), in_use(tmp_path), unused(tmp_path) as is_free:
        assert not is_free
    with unused(tmp_path) as is_free:
        assert is_free
