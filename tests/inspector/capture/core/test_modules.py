"""Modules of a program that have the names of standard library modules."""

import sys
from pathlib import Path

import pytest

from ctrace.inspector.capture.core.imports import Preloaded


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Preloaded:
    import hashlib
    import json.decoder

    monkeypatch.setitem(sys.modules, "hashlib", hashlib)
    monkeypatch.setitem(sys.modules, "json", json)
    monkeypatch.setitem(sys.modules, "json.decoder", json.decoder)
    return Preloaded(frozenset(sys.modules) - {"hashlib", "json", "json.decoder", "os", "time"})


def test_a_file_beside_the_program_is_what_it_imports(ours: Preloaded, tmp_path: Path) -> None:
    (tmp_path / "hashlib.py").write_text("MINE = True\n")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").touch()
    assert set(ours.uncover(str(tmp_path))) >= {"hashlib", "json", "json.decoder"}
    assert "hashlib" not in sys.modules


def test_what_python_imports_first_stays(ours: Preloaded, tmp_path: Path) -> None:
    """Built-in and frozen modules precede the path; a folder without `__init__.py` comes last."""
    for name in ("os.py", "time.py", "sys.py"):
        (tmp_path / name).touch()
    (tmp_path / "json").mkdir()
    assert ours.uncover(str(tmp_path)) == {}


def test_what_python_had_imported_stays(tmp_path: Path) -> None:
    (tmp_path / "hashlib.py").touch()
    assert Preloaded(frozenset(sys.modules)).uncover(str(tmp_path)) == {}
