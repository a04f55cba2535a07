"""A second process that looks ahead changes nothing of what is read, whatever becomes of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.log import framing, second_process
from ctrace.inspector.log.framing import frames, payload_of, records
from ctrace.inspector.log.reader import Form, LogEntry, read
from tests.inspector.log.test_reader import PREFIX, small_log
from tests.support.helpers import Log
from tests.support.sampling import sampled


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Count any log as large; return the processes that were started."""
    started: list[Any] = []
    popen = subprocess.Popen

    def start(*args: Any, **options: Any) -> Any:
        started.append(popen(*args, **options))
        return started[-1]

    monkeypatch.setattr(second_process, "_LARGE", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(subprocess, "Popen", start)
    yield started
    assert started
    assert all(child.poll() is not None for child in started), "a process is left"


def logs() -> list[bytes]:
    """Whole, cut and damaged logs."""
    data = small_log().text.encode()
    lone = b"\tlost\n\tlines\n"
    return [
        data,
        b"",
        lone,
        lone + data,
        data[:-1],
        data[: len(data) // 2],
        data.replace(b"guard", b"drang"),
        data + f"{PREFIX} {{".encode(),
        Log().artifact("long", "x" * 3_000_000).text.encode() + data,
        data * 3000,
    ]


@pytest.mark.parametrize("number", range(len(logs())))
def test_it_changes_nothing(number: int, tmp_path: Path, large: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (log := tmp_path / "trace.log").write_bytes(logs()[number] or b"\n")
    found = list(read(log))
    with monkeypatch.context() as alone:
        alone.setattr(second_process, "_LARGE", 1 << 40)
        assert list(read(log)) == found
    assert len(large) == 1


def test_a_changed_payload_that_no_view_reads_is_reported(tmp_path: Path, large: list[Any]) -> None:
    text = Log().artifact("a", "one\ntwo").artifact("b", "three").text.replace("two", "tow")
    (log := tmp_path / "trace.log").write_text(text)
    first, second = read(log)
    assert isinstance(first, LogEntry)
    assert isinstance(second, LogEntry)
    assert (first.changed, second.changed) == (Form.TEXT, None)
    assert large


@pytest.mark.parametrize(
    "last",
    sampled(["os._exit(1)", "out.flush(); os._exit(1)", "out.write(HEAD.pack(3, True) + FRAME.pack(1, 2, 3, b'')); out.flush(); os._exit(1)"]),
    ids=["at once", "after a piece", "within a piece"],
)  # fmt: skip
def test_the_reader_does_the_rest_of_a_process_that_ends(
    last: str, tmp_path: Path, large: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (log := tmp_path / "trace.log").write_bytes(small_log().text.encode() * 3000)
    with monkeypatch.context() as alone:
        alone.setattr(second_process, "_LARGE", 1 << 40)
        known = list(read(log))
    source = Path(framing.__file__).read_text()
    assert "out.flush()" in source
    (ending := tmp_path / "framing.py").write_text(source.replace("out.flush()", last))
    monkeypatch.setattr(framing, "__file__", str(ending))
    assert list(read(log)) == known
    assert large


@pytest.mark.parametrize("hashed", ["True", "False", "len(piece) % 2 == 0"])
@pytest.mark.thorough
def test_it_does_not_matter_which_process_hashes(
    hashed: str, tmp_path: Path, large: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (small_log().text + Log().artifact("a", "one\ntwo").text.replace("two", "tow")).encode() * 3000
    (log := tmp_path / "trace.log").write_bytes(data)
    with monkeypatch.context() as alone:
        alone.setattr(second_process, "_LARGE", 1 << 40)
        known = list(read(log))
    assert sum(isinstance(each, LogEntry) and each.changed is not None for each in known) == 3000
    source, choice = Path(framing.__file__).read_text(), "not _is_waited_for(out.fileno())"
    assert choice in source
    (choosing := tmp_path / "framing.py").write_text(source.replace(choice, hashed))
    monkeypatch.setattr(framing, "__file__", str(choosing))
    assert list(read(log)) == known
    assert large


def test_a_reader_that_took_everything_is_waited_for() -> None:
    reader, writer = os.pipe()
    try:
        assert framing._is_waited_for(writer)
        os.write(writer, b"x")
        assert not framing._is_waited_for(writer)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_log_that_is_cut_while_it_is_read_ends_where_it_is_cut(tmp_path: Path, large: list[Any]) -> None:
    data = small_log().text.encode() * 3000
    (log := tmp_path / "trace.log").write_bytes(data)
    found = read(log)
    first = next(found)
    os.truncate(log, len(data) // 2)
    rest = list(found)
    assert isinstance(first, LogEntry)
    assert rest
    assert all(isinstance(each, LogEntry) for each in rest[: len(rest) // 2])


def test_it_starts_without_the_users_packages_and_folders(tmp_path: Path, large: list[Any]) -> None:
    (log := tmp_path / "trace.log").write_bytes(small_log().text.encode())
    list(read(log))
    (child,) = large
    assert child.args[:3] == [sys.executable, "-I", "-S"]


def _slow(raw: bytes) -> bytes:
    return raw[1 : len(raw) - raw.endswith(b"\n")].replace(b"\n\t", b"\n")


@pytest.mark.parametrize("text", ["", "a", "a\tb", "\n", "a\n\n\tb\n", "\t\t\n\t", '{\n\t"x": 1\n}'])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_payload_loses_the_tabs_that_indent_it_only(text: str, end: str) -> None:
    raw = ("\t" + text.replace("\n", "\n\t") + end).encode()
    assert payload_of(raw) == _slow(raw) == text.encode()


def test_frames_are_those_of_the_records() -> None:
    data = b"\tlost\n" + small_log().text.encode()
    for frame, (start, line, end) in zip(frames(data), records(data), strict=True):
        raw = data[line:end]
        assert frame == (line - start, end - line, raw.count(b"\n"), framing.digest_of(raw))
