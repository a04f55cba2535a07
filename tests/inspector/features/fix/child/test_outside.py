"""Calls with odd inputs change no file and use no network."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ctrace.inspector.features.fix.child.observed_effects import Outside


def _connect() -> None:
    with socket.socket() as opened:
        opened.connect(("127.0.0.1", 9))


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        (lambda: Path("new.txt").write_text("x"), "write new.txt"),
        (lambda: Path("old.txt").open("a"), "write old.txt"),  # noqa: SIM115
        (lambda: Path("old.txt").unlink(), "change old.txt"),
        (lambda: Path("new").mkdir(), "change new"),
        (_connect, "use the network"),
    ],
)
def test_a_deed_is_refused_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object], words: str
):
    monkeypatch.chdir(tmp_path)
    Path("old.txt").write_text("old")
    outside = Outside()
    with outside.refused(), pytest.raises(PermissionError, match="odd inputs"):
        deed()
    assert outside.deed.startswith(words)
    assert os.listdir() == ["old.txt"]  # noqa: PTH208
    assert Path("old.txt").read_text() == "old"


def test_reading_is_allowed_and_the_end_of_the_block_ends_it(tmp_path: Path):
    file = tmp_path / "read.txt"
    file.write_text("x")
    outside = Outside()
    with outside.refused():
        assert file.read_text() == "x"
    file.write_text("y")
    assert outside.deed == ""


def test_a_program_that_catches_the_refusal_is_still_named(tmp_path: Path):
    outside = Outside()
    with outside.refused(), suppress(OSError):
        (tmp_path / "log.txt").write_text("x")
    assert outside.deed.endswith("log.txt")
