"""The part of a log that the disk refuses still reaches the command, complete and in order."""

import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.log.reader import Broken, LogEntry, follow_bytes
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.channel import Channel, Unframer, framed
from ctrace.inspector.runs.store import SavedRun, Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="child processes do not inherit descriptors")
ORDER = CaptureRequest("model", "model.py", None, None, (), Options(), "")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Make the system refuse larger files, as a quota does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def run(tmp_path: Path) -> SavedRun:
    return Store(tmp_path / ".ctrace").create(Target("model.py"))


def read_all(channel: Channel) -> list[LogEntry | Broken]:
    return list(follow_bytes(channel.read, lambda: True))


def payloads(entries: list[LogEntry | Broken]) -> list[str]:
    return [each.payload for each in entries if isinstance(each, LogEntry)]


def test_frames_of_several_writers_are_put_together() -> None:
    first, second = os.urandom(20_000), os.urandom(10_000)
    frames = list(framed(memoryview(first)))
    other: list[bytes] = []
    thread = threading.Thread(target=lambda: other.extend(framed(memoryview(second))))
    thread.start()
    thread.join()
    mixed = [each for pair in zip(frames, other, strict=False) for each in pair] + frames[len(other) :]
    unframer = Unframer()
    stream = b"".join(mixed)
    found = [each for at in range(0, len(stream), 777) for each in unframer.feed(stream[at : at + 777])]
    assert found == [second, first]


def test_a_log_that_outgrows_the_disk_is_whole(run: SavedRun) -> None:
    with Channel(ORDER, run) as channel:
        log = TraceLog(run.log, os.dup(channel.inherited[0]))
        with largest_file(2000):
            for number in range(50):
                log.artifact("note", "x" * 100 + str(number))
        log.close()
        entries = read_all(channel)
        assert not channel.is_saved
    assert payloads(entries) == [f'"{"x" * 100}{number}"' for number in range(50)]
    assert not any(isinstance(each, Broken) for each in entries)
    assert run.log.stat().st_size <= 2000


def test_without_a_folder_all_of_it_goes_through_the_pipe() -> None:
    with Channel(ORDER, None) as channel:
        request, spare = channel.inherited
        log = TraceLog(None, os.dup(spare))
        log.artifact("note", "é\n" * 20_000)
        log.close()
        assert payloads(read_all(channel))[0].count("\\n") == 20_000
        taken = os.dup(request)
        channel.started()
        text = b""
        while chunk := os.read(taken, 1 << 16):
            text += chunk
        os.close(taken)
    assert text.decode() == ORDER.to_json()


def test_a_log_whose_folder_is_deleted_is_read(run: SavedRun) -> None:
    with Channel(ORDER, run) as channel:
        log = TraceLog(run.log, os.dup(channel.inherited[0]))
        log.artifact("note", 1)
        run.log.unlink()
        log.artifact("note", 2)
        log.close()
        assert payloads(read_all(channel)) == ["1", "2"]


def test_in_process_a_full_disk_ends_the_log_and_no_program(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "trace.log")
    with largest_file(500):
        for number in range(20):
            log.artifact("note", number)
    log.artifact("end", {})
    log.close()
    assert "ctrace_end" not in (tmp_path / "trace.log").read_text()


def test_records_go_into_no_file_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "trace.log"
    log = TraceLog(path)
    log.artifact("note", 1)
    fds = [each for each in range(3, 256) if _leads_to(each, path)]
    for each in fds:
        os.close(each)
    own = [(tmp_path / f"data{number}").open("w") for number in range(8)]
    log.artifact("note", 2)
    log.close()
    for file in own:
        file.close()
    assert all((tmp_path / f"data{number}").read_text() == "" for number in range(8))
    assert path.read_text().count("ctrace_note") == 2


def _leads_to(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
