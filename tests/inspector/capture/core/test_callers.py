"""Recorded stacks of the running program."""

import sys
from pathlib import Path

from ctrace.inspector.capture.core.callers import OURS, callers, place
from ctrace.inspector.facts.findings import Frame

HERE = str(Path(__file__).resolve())


def outer(torch_folder: str) -> tuple[Frame, ...]:
    return inner(torch_folder)


def inner(torch_folder: str) -> tuple[Frame, ...]:
    return callers(sys._getframe(), torch_folder)


def test_frames_are_outermost_first():
    names = [frame.function for frame in outer("/torch/")]
    assert names[-3:] == ["test_frames_are_outermost_first", "outer", "inner"]


def test_a_frame_is_a_file_a_line_and_a_function():
    frame = inner("/torch/")[-1]
    assert frame == Frame(inner.__code__.co_filename, inner.__code__.co_firstlineno + 1, "inner")


def test_frames_of_torch_are_left_out():
    folder = f"{Path(inner.__code__.co_filename).parent}/"
    assert [frame for frame in outer(folder) if frame.file.startswith(folder)] == []


def test_frames_of_ours_and_of_pythons_import_are_left_out():
    seen: list[tuple[Frame, ...]] = []
    for file in (f"{OURS}program.py", "<frozen importlib._bootstrap>", "model.py"):
        code = compile("seen.append(callers(sys._getframe(), '/torch/'))", file, "exec")
        exec(code, {"seen": seen, "callers": callers, "sys": sys})
    assert [stack[-1].file == HERE for stack in seen] == [True, True, False]


def test_no_frame_is_no_stack():
    assert callers(None, "/torch/") == ()


def test_a_place_of_a_function():
    assert place(inner.__code__, 7) == Frame(inner.__code__.co_filename, 7, "inner")
