"""`sources.py` of a package reads what the op is made of, for the keys of caches."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from ctrace.reports.dump.templates import rendered


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "sources.py"
    file.write_text(rendered("package_sources"))
    spec = importlib.util.spec_from_file_location("sources_of_a_package", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("statement", "file"),
    [
        ("import constants_of_mine", "constants_of_mine.py"),
        ("import helpers_of_mine.exact", "helpers_of_mine/exact.py"),
        ("from helpers_of_mine import exact", "helpers_of_mine/exact.py"),
        ("from helpers_of_mine.exact import gelu", "helpers_of_mine/__init__.py"),
        ("from . import below", "package/below.py"),
        ("from .parts.below import gelu", "package/parts/below.py"),
        ("def f():\n    import constants_of_mine", "constants_of_mine.py"),
    ],
)
def test_an_edit_of_what_is_imported_counts(sources: ModuleType, tmp_path: Path, statement: str, file: str) -> None:
    for name in ("constants_of_mine.py", "helpers_of_mine/__init__.py", "helpers_of_mine/exact.py",
                 "package/below.py", "package/parts/below.py"):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    op = tmp_path / "package" / "op.py"
    op.write_text(f"import sys, json\n{statement}\n")
    before = sources.contents([op])
    assert sources.contents([op]) == before
    (tmp_path / file).write_text("gelu = 1\n")
    assert sources.contents([op]) != before


def test_what_is_imported_imports_on_and_in_a_circle(sources: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "first_of_mine.py").write_text("import second_of_mine\n")
    (tmp_path / "second_of_mine.py").write_text("import first_of_mine\n")
    assert sources.contents([tmp_path / "first_of_mine.py"]) == [b"import second_of_mine\n", b"import first_of_mine\n"]


def test_libraries_and_what_is_missing_are_left_out(sources: ModuleType, tmp_path: Path) -> None:
    op = tmp_path / "op.py"
    op.write_text("import pytest, sys, no_such_module\nfrom msgspec import Struct\nfrom . import nothing\n")
    assert len(sources.contents([op])) == 1
    op.write_text("def f(:\n")
    assert sources.contents([op]) == [b"def f(:\n"]


def test_included_files_count(sources: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text('#include <vector>\n  # include "one.h"\n#include "missing.h"\n')
    (tmp_path / "one.h").write_text('#include "sub/two.h"\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "two.h").write_text("#pragma once\n")
    assert sources.contents([tmp_path / "kernel.cpp"])[1:] == [b'#include "sub/two.h"\n', b"#pragma once\n"]
