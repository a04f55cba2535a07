"""A package's repair as code for the user's file."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.features.fix.repairs.monkeypatch import module_name, monkeypatched

LIBRARY = '''\
"""A package."""
from __future__ import annotations

import math
import logging as log
from collections.abc import Iterable as Many

from .other import scale

LIMIT = 3
if LIMIT > 2:
    maybe = 1


def top(x):
    """Say
    more."""
    return scale(x) + LIMIT


class Base:
    def forward(self, x: Many):
        return x


class Net(Base):
    def forward(self, x: Many):
        log.getLogger("x").debug("called")
        return super().forward(x) + math.floor(top(x))

    def maybe(self):
        return maybe

    def private(self):
        return self.__x

    def long(self):
        return """a
        b"""
'''
USER = "import os\nimport sys\n\nVALUE = 1\n"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A package with a file that is repaired."""
    folder = tmp_path / "pack_age" / "inner"
    folder.mkdir(parents=True)
    (tmp_path / "pack_age" / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "other.py").write_text("def scale(x):\n    return 2 * x\n")
    (folder / "net.py").write_text(LIBRARY)
    return folder / "net.py"


def test_the_name_of_a_module(library: Path, monkeypatch: pytest.MonkeyPatch):
    assert module_name(library) == "pack_age.inner.net"
    assert module_name(library.parent / "__init__.py") == "pack_age.inner"
    assert module_name(library.parent.parent.parent / "model.py") == ""
    monkeypatch.syspath_prepend(str(library.parent.parent.parent))
    assert module_name(library.parent.parent.parent / "model.py") == "model"


def test_the_copies_run_in_place_of_the_originals(library: Path, monkeypatch: pytest.MonkeyPatch):
    after = LIBRARY.replace('        log.getLogger("x").debug("called")\n', "")
    after = after.replace("return scale(x) + LIMIT", "return scale(x) + LIMIT + 100")
    found = monkeypatched(USER, str(library), LIBRARY, after)
    assert found is not None
    assert found.names == ("top", "Net.forward")
    assert found.text.startswith("import os\nimport sys\n\n\ndef _repair_net() -> None:\n")
    assert found.text.endswith("\n_repair_net()\n\nVALUE = 1\n")
    monkeypatch.syspath_prepend(str(library.parents[2]))
    names: dict[str, Any] = {}
    exec(compile(found.text, "user.py", "exec"), names)
    module = sys.modules["pack_age.inner.net"]
    assert isinstance(module, types.ModuleType)
    assert module.Net().forward(1.0) == 1.0 + 105
    assert set(names) - {"__builtins__"} == {"os", "sys", "_repair_net", "VALUE"}
    for name in [each for each in sys.modules if each.startswith("pack_age")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        return maybe\n", "        return maybe + 1\n"),
        ("        return self.__x\n", "        return self.__x + 1\n"),
        ("        b", "        c"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("class Net(Base):", "class Net(Base, object):"),
        ("        return x\n", "        global LIMIT\n        return x\n"),
        ("        return x\n", "        return __class__\n"),
    ],
)
def test_what_cannot_be_copied(library: Path, old: str, new: str):
    assert old in LIBRARY
    assert monkeypatched(USER, str(library), LIBRARY, LIBRARY.replace(old, new)) is None


def test_a_file_without_imports_or_a_file_of_no_package(library: Path, tmp_path: Path):
    after = LIBRARY.replace("return scale(x) + LIMIT", "return scale(x)")
    assert monkeypatched("x = 1\n", str(library), LIBRARY, after) is None
    assert monkeypatched(USER, str(tmp_path / "net.py"), LIBRARY, after) is None
    assert monkeypatched(USER, str(library), LIBRARY, LIBRARY) is None


def test_an_import_that_the_repair_adds_is_imported(library: Path):
    after = LIBRARY.replace("import math\n", "import math\nimport torch\n").replace("return scale(x)", "return torch")
    found = monkeypatched(USER, str(library), LIBRARY, after)
    assert found is not None
    assert "    import torch\n" in found.text
