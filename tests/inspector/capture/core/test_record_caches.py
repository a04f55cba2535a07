"""Kernels that torch keeps in memory between captures of one process."""

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType

import pytest

from ctrace.inspector.capture.core.record_caches import own_triton_cache

codecache = pytest.importorskip("torch._inductor.codecache")


class _Recorder:
    def watching(self, _what: str) -> AbstractContextManager[None]:
        return nullcontext()


def _at_once(name: str, action: Callable[[ModuleType], None]) -> None:
    action(importlib.import_module(name))


def test_a_capture_neither_meets_nor_leaves_loaded_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel looks for its binary in the Triton cache of the capture that loaded it, which no longer exists."""
    users = ModuleType("users")
    monkeypatch.setattr(codecache.PyCodeCache, "modules_no_attr", {"users.py": users})
    with own_triton_cache(_Recorder(), _at_once):  # type: ignore[arg-type]
        assert codecache.PyCodeCache.modules_no_attr == {}
        codecache.PyCodeCache.modules_no_attr["captured.py"] = ModuleType("captured")
    assert codecache.PyCodeCache.modules_no_attr == {"users.py": users}
