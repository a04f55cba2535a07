"""`kernel.py` of a package with a C++ kernel compiles it, or says what the compiler says."""

import ctypes
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ctrace.reports.dump.templates import rendered

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
        folder = tmp_path / "cpp_loading"
        folder.mkdir(exist_ok=True)
        (folder / "kernel.cpp").write_text(source)
        written = rendered("package_kernel_cpp", name="nothing", capability="")
        for name, content in (("__init__", ""), ("kernel", written), ("sources", rendered("package_sources"))):
            (folder / f"{name}.py").write_text(content)
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("cpp_loading.kernel")

    yield made
    forget()


def forget() -> None:
    """Let the next import of the package read its files again."""
    for name in [each for each in sys.modules if each.split(".")[0] == "cpp_loading"]:
        del sys.modules[name]


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


def test_an_edit_of_an_included_file_compiles_again(loading: Callable[[str], ModuleType], tmp_path: Path) -> None:
    (tmp_path / "cpp_loading").mkdir()
    header = tmp_path / "cpp_loading" / "number.h"
    found = []
    for number in (1, 2):
        header.write_text(f"#define NUMBER {number}\n")
        function = loading('#include "number.h"\nextern "C" int kernel() { return NUMBER; }\n').load()
        function.restype = ctypes.c_int
        found.append(function())
    assert found == [1, 2]


def test_a_library_of_another_user_is_not_loaded(
    loading: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder for temporary files is open to everybody, and the library's name is no secret."""
    source = 'extern "C" int kernel() { return 1; }\n'
    loading(source).load()
    (library,) = tmp_path.glob("nothing-*.so")
    planted = library.with_name(library.name.replace(f"-{os.getuid()}-", "-4711-"))
    planted.write_bytes(b"no library")
    monkeypatch.setattr("os.getuid", lambda: 4711)
    loading(source).load()
    assert planted.read_bytes() != b"no library"
