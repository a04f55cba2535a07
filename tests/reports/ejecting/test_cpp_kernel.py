"""`kernel.py` of a package with a C++ kernel compiles it, or says what the compiler says."""

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ctrace.reports.ejecting.texts import text

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


@pytest.fixture
def loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Return what makes the module of a C++ source."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("CXX", raising=False)

    def made(source: str) -> ModuleType:
        (tmp_path / "kernel.cpp").write_text(source)
        written = text("kernel_cpp").replace("@NAME@", "nothing").replace("@CAPABILITY@", "")
        (tmp_path / "cpp_loading.py").write_text(written)
        return importlib.import_module("cpp_loading")

    yield made
    sys.modules.pop("cpp_loading", None)


def test_the_first_error_of_the_compiler_is_the_message(loading: Callable[[str], ModuleType]) -> None:
    module = loading('extern "C" void kernel() {}\nint broken(\n')
    with pytest.raises(RuntimeError, match=r"^kernel\.cpp does not compile: kernel\.cpp:2:\d+: error: ") as found:
        module.load()
    assert "-march" not in str(found.value)


def test_a_missing_compiler_is_named(loading: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    module = loading('extern "C" void kernel() {}\n')
    with pytest.raises(FileNotFoundError, match="no-such-compiler"):
        module.load()
