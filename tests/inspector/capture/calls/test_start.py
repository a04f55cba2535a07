"""A fork asks for a new process if loading the model changes how torch would be imported."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.capture.calls import start as module
from ctrace.inspector.capture.calls.start import NEW, ProcessStart
from ctrace.inspector.processes.forking import RESTART
from ctrace.inspector.runs.capture_request import CaptureRequest, Options


class RestartedError(BaseException):
    pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    def ended(status: int) -> None:
        assert status == RESTART
        raise RestartedError

    monkeypatch.setattr(module, "_exit", ended)
    monkeypatch.setenv("TORCH_LOGS", "")  # some tests set it; monkeypatch restores the old value
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    with warnings.catch_warnings():
        yield tmp_path


def loaded(folder: Path, action: Callable[[], object], start: ProcessStart | None = None) -> bool:
    """Load a model with this action; return whether the fork asks for a new process."""
    request = CaptureRequest("model", str(folder / "model.py"), None, None, (), Options(), "")
    try:
        with (start or ProcessStart(["sympy", "not_there"])).loading(request):
            action()
    except RestartedError:
        return True
    return False


class Finder:
    def __init__(self, *names: str) -> None:
        self.names = names

    def find_spec(self, name: str, _path: object, _target: object = None) -> object:
        return SimpleNamespace(name=name) if name in self.names else None


def _any(value: object) -> Any:
    """Return the value without its static type."""
    return value


def raises() -> None:
    raise ValueError


def _changes_and_raises() -> None:
    os.environ.pop("STAYS")
    raises()


@pytest.mark.parametrize(
    "action",
    [
        lambda: None,
        lambda: sys.path.insert(0, "/nowhere"),
        lambda: sys.modules.update(mine=ModuleType("mine")),
        lambda: sys.meta_path.insert(0, _any(Finder("mine"))),
        lambda: warnings.simplefilter("ignore"),
        lambda: os.environ.get("A"),
    ],
)
def test_an_ordinary_load_goes_on(action: Callable[[], object], folder: Path) -> None:
    assert not loaded(folder, action)


@pytest.mark.parametrize(
    "action",
    [
        lambda: os.environ.update(TORCH_LOGS="x"),
        lambda: os.environ.pop("STAYS"),
        lambda: sys.path.clear(),
        lambda: sys.modules.update(json=_any(None)),
        lambda: sys.modules.pop("json"),
        lambda: sys.meta_path.clear(),
        lambda: sys.meta_path.reverse(),
        lambda: sys.meta_path.insert(0, _any(Finder("json"))),
        lambda: sys.meta_path.append(_any(object())),
        lambda: warnings.simplefilter("error"),
    ],
)
def test_a_load_that_changes_imports_starts_over(
    action: Callable[[], object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAYS", "1")
    assert loaded(folder, action)
    monkeypatch.setenv("STAYS", "1")


def test_so_does_a_module_that_hides_one_of_torchs(folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "sympy.py").touch()
    assert loaded(folder, lambda: sys.path.insert(0, str(folder / "lib")))
    (folder / "not_there.py").touch()
    assert loaded(folder, lambda: None)


def test_a_load_that_fails_because_of_a_change_starts_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAYS", "1")
    assert loaded(folder, _changes_and_raises)
    with pytest.raises(ValueError):  # noqa: PT011
        loaded(folder, raises)


def test_a_new_process_never_starts_over(folder: Path) -> None:
    assert not loaded(folder, lambda: sys.modules.update(json=_any(None)), NEW)
