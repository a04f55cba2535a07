"""An untrusted run.json: tests/faults damages every value; these tests cover the rules."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.errors import LockError, RunError, SettingsError
from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.features.check.lock_file import load_lock
from ctrace.inspector.files.typed_json import read_text, typed
from ctrace.inspector.runs.capture_request import PIPES, CaptureRequest, Options
from ctrace.inspector.runs.settings import settings_at
from ctrace.inspector.runs.store import Store

GOOD: dict[str, Any] = {
    "schema": 1, "created": 1.0, "pid": 1, "status": "done", "seconds": None,
    "target": {"path": "m.py", "name": None, "args": []}, "failure": None, "summary": {"verdict": "compiled"},
}  # fmt: skip
"""Written by an older version."""


def _store(tmp_path: Path, text: str) -> Store:
    for name, content in (("a-good", json.dumps(GOOD)), ("b-bad", text)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(content)
    return Store(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"pid": 0}, {"pid": -1}, {"pid": 2**31}, {"pid": "1"}, {"pid": True}, {"created": -1}, {"created": 1e15},
        {"seconds": "x"}, {"seconds": -1}, {"status": "\x1b[31m"}, {"status": 1}, {"schema": 0}, {"schema": 1.5},
        {"target": []}, {"target": {"path": 1}}, {"target": {"args": [1]}}, {"failure": []}, {"failure": {}},
        {"summary": []}, {"summary": {"graphs": "1"}}, {"summary": {"breaks": -1}}, {"summary": {"verdict": "\n"}},
        {"summary": {"torch": 2}}, {"summary": {"more": []}}, {"summary": {"more": 10**400}},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_value_spoils_its_own_run_only(change: dict[str, Any], tmp_path: Path) -> None:
    store = _store(tmp_path, json.dumps({**GOOD, **change}))
    assert [run.name for run in store.runs()] == ["a-good"]
    assert store.load().name == "a-good"
    (what,) = store.damaged()
    assert "b-bad/run.json cannot be read (" in what
    with pytest.raises(RunError):
        store.load("b-bad")
    assert store.prune(0) == ["a-good"]


@pytest.mark.parametrize(
    "text", ['{"pid": 1e999}', '{"a":' * 100_000, '{"a": NaN}', '{"a": 1, "a": 1}', "[]", "\ufeff{}", ""]
)
def test_what_is_no_such_json(text: str, tmp_path: Path) -> None:
    assert [run.name for run in _store(tmp_path, text).runs()] == ["a-good"]


def test_what_a_later_version_adds_is_kept(tmp_path: Path) -> None:
    store = _store(tmp_path, json.dumps({**GOOD, "kept": True, "summary": {"verdict": "incomplete", "cut": True}}))
    assert [dict(run.summary) for run in store.runs()][1] == {"verdict": "incomplete", "cut": True}


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        read_text(tmp_path / "pipe")
    (tmp_path / "long").write_text("x" * (2 << 20))
    with pytest.raises(ValueError, match="longer than"):
        read_text(tmp_path / "long", 1 << 20)
    with pytest.raises(LockError, match="not a regular file"):
        load_lock(tmp_path / "pipe")


def test_a_deep_settings_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ctrace]\nowned = {'[' * 50_000}")
    with pytest.raises(SettingsError):
        settings_at(tmp_path)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"path": 1}, "path is a number"), ({"name": ["x"]}, "a list"), (None, "null"),
        ({"args": "x"}, "args is a text"), ({"more": 1}, "unknown field"),
    ],
)  # fmt: skip
def test_typed(data: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        typed(Target, data, "it")


@pytest.mark.skipif(not PIPES.exists(), reason="pipes have no names here")
def test_an_order_through_a_pipe() -> None:
    """A disk that refuses a run refuses its request, too."""
    request = CaptureRequest("model", "größe.py", None, None, (), options=Options(), log="")
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        pipe.write(request.to_json())
    assert CaptureRequest.from_file(PIPES / str(reading)) == request
    os.close(reading)


@pytest.mark.parametrize("change", [{"kind": "x"}, {"path": None}, {"args": [1]}, {"options": {"vary": 1}}, {"gpu": 1}])
def test_an_order(change: dict[str, Any], tmp_path: Path) -> None:
    request = CaptureRequest("model", "m.py", None, None, (), options=Options(), log="l")
    (tmp_path / "order.json").write_text(request.to_json())
    assert CaptureRequest.from_file(tmp_path / "order.json") == request
    (tmp_path / "order.json").write_text(json.dumps({**json.loads(request.to_json()), **change}))
    with pytest.raises(ValueError, match=r"\w"):
        CaptureRequest.from_file(tmp_path / "order.json")
