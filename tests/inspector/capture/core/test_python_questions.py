"""What Python code asks: environment variables in every way, modules by name, and deeds with their line."""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.capture.core import files_read as module
from ctrace.inspector.capture.core.files_read import PythonQuestions, described


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Iterator[PythonQuestions]:
    for variables in (os.environ, os.environb):
        for name in ("encodekey", "decodekey"):
            monkeypatch.setattr(variables, name, getattr(variables, name))
    found = PythonQuestions()
    found.begin()
    end = found.begin_to_listen()
    with found.hearing_names():
        yield found
    end()


@pytest.mark.parametrize(
    "read",
    [
        lambda: os.environ.get("STUDY"),
        lambda: os.getenv("STUDY"),
        lambda: "STUDY" in os.environ,
        lambda: os.environb.get(b"STUDY"),
        lambda: os.getenvb(b"STUDY"),
        lambda: os.path.expandvars("$STUDY"),
        lambda: os.environ.setdefault("STUDY", "1"),
        lambda: os.environ.pop("STUDY", None),
    ],
)
def test_a_variable_is_known_by_its_name(
    read: Callable[[], Any], questions: PythonQuestions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDY", "1")
    questions.variables.clear()
    read()
    assert "STUDY" in questions.variables
    assert not questions.all_variables


@pytest.mark.parametrize(
    "read",
    [lambda: list(os.environ), lambda: dict(os.environ), lambda: os.environ.copy(), lambda: {**os.environb},
     lambda: os.environ | {}, lambda: repr(os.environ), lambda: [*os.environ.items()]],
)  # fmt: skip
def test_going_through_all_is_known(read: Callable[[], Any], questions: PythonQuestions) -> None:
    read()
    assert questions.all_variables


def test_the_names_of_modules_are_known_with_their_folders(questions: PythonQuestions, tmp_path: Path) -> None:
    assert importlib.util.find_spec("a_module_that_is_missing") is None
    sys.path.append(str(tmp_path))
    try:
        asked = described(questions, ())
    finally:
        sys.path.remove(str(tmp_path))
    assert {"a_module_that_is_missing", "sitecustomize", "json"} <= set(asked.modules[str(tmp_path)])


def test_listings_by_python_are_told_from_others(questions: PythonQuestions, tmp_path: Path) -> None:
    folder = str(tmp_path)
    sys.path.append(folder)
    try:
        importlib.util.find_spec("another_missing_module")
        assert questions.listed_by_import[folder] == 1
        list(importlib.metadata.distributions(path=[folder]))
        assert questions.listed_for_packages[folder] == 1
        os.listdir(folder)  # noqa: PTH208
        list(tmp_path.iterdir())
        assert (questions.listed_by_import[folder], questions.listed_for_packages[folder]) == (1, 1)
    finally:
        sys.path.remove(folder)


def test_deeds_have_the_users_line(questions: PythonQuestions) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert questions.deeds["starts a process"][0] == __file__
    Path("/proc/loadavg").read_text()
    assert questions.deeds["reads /proc/loadavg"][0] == __file__


def test_a_library_that_reads_a_steady_fact_does_nothing(
    questions: PythonQuestions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "library_prefixes", lambda: {str(Path(__file__).parent): "library"})
    Path("/proc/cpuinfo").read_bytes()
    assert "reads /proc/cpuinfo" not in questions.deeds
