"""The folder of the cache."""

from pathlib import Path

import pytest

from ctrace.inspector.features.gpus.child.compile_kernels import cache_dir


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRACE_CACHE_DIR", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert cache_dir() == Path("/a")
    monkeypatch.delenv("CTRACE_CACHE_DIR")
    assert cache_dir() == Path("/b/ctrace")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert cache_dir() == Path("/c/.cache/ctrace")
