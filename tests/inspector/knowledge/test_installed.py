"""What ctrace refuses to start on, by simulation."""

import sys

import pytest

from ctrace.inspector.errors import SetupError
from ctrace.inspector.knowledge import releases


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_linux_and_macos_are_not_refused(monkeypatch: pytest.MonkeyPatch, system: str):
    monkeypatch.setattr(sys, "platform", system)
    releases.check_environment()


def test_windows_is_refused_and_wsl_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SetupError, match="cannot run models on Windows") as refused:
        releases.check_environment()
    assert "WSL 2" in refused.value.todo


@pytest.mark.parametrize(("version", "words"), [(None, "not installed"), ("2.10.1", "torch 2.10.1 is too old")])
def test_a_torch_that_is_missing_or_too_old(monkeypatch: pytest.MonkeyPatch, version: str | None, words: str):
    monkeypatch.setattr(releases, "torch_version", lambda: version)
    with pytest.raises(SetupError, match=words):
        releases.check_environment()


def test_a_development_version_is_not_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(releases, "torch_version", lambda: "2.15.0.dev20260901+cpu")
    releases.check_environment()
