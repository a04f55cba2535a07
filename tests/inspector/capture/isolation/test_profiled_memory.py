"""What torch's C++ code writes while a call's memory is measured."""

import os

import pytest

from ctrace.inspector.capture.isolation.profiled_memory import _without_lines


def test_only_the_unwanted_line_is_dropped_from_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with _without_lines(b"unknown size"):
        os.write(2, b"[W CPUAllocator.cpp:245] Memory block of unknown size was allocated\nanother warning\n")
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "another warning\nafterwards\n"


def test_what_was_written_survives_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with _without_lines(b"unknown size"):
            os.write(2, b"why\n")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert capfd.readouterr().err == "why\n"
