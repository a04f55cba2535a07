import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.capture.comparing.library_state import LibraryState

SOURCE = """
import types

cache = {}
names = ["one"]
number = 1


class Registry:
    known = set()

    def __init__(self):
        self.inner = {"deep": {}}


registry = Registry()
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a module of an installed package."""
    folder = tmp_path / "lib" / "site-packages"
    (folder / "somelib").mkdir(parents=True)
    (folder / "somelib" / "__init__.py").write_text(SOURCE)
    (folder / "somelib" / "later.py").write_text("")
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("somelib")
    for name in [name for name in sys.modules if name.partition(".")[0] == "somelib"]:
        del sys.modules[name]


CHANGES: dict[str, Callable[[Any], object]] = {
    "dict": lambda library: library.cache.update(a=1),
    "list": lambda library: library.names.append("two"),
    "list item": lambda library: library.names.__setitem__(0, "two"),
    "global": lambda library: setattr(library, "number", 2),
    "class": lambda library: library.Registry.known.add(1),
    "attribute": lambda library: setattr(library.registry, "found", 1),
    "deep": lambda library: library.registry.inner["deep"].update(a=1),
    "import": lambda library: importlib.import_module("somelib.later"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_finds_changes(library: Any, change: Callable[[Any], object]) -> None:
    state = LibraryState()
    assert "somelib" not in state.changes()
    change(library)
    assert "somelib" in state.changes()


@pytest.mark.parametrize("change", [each for name, each in CHANGES.items() if name != "import"])
def test_restores_changes(library: Any, change: Callable[[Any], object]) -> None:
    state = LibraryState()
    change(library)
    state.restore()
    assert "somelib" not in state.changes()
    assert (library.cache, library.names, library.number) == ({}, ["one"], 1)
    assert vars(library.registry) == {"inner": {"deep": {}}}


def test_finds_what_distributions_of_torch_keep() -> None:
    kl = importlib.import_module("torch.distributions.kl")
    state = LibraryState()
    kl._KL_MEMOIZE[int, int] = None  # as `kl_divergence` does
    assert "torch" in state.changes()
    assert state.restore() == ()
    assert (int, int) not in kl._KL_MEMOIZE


def test_names_the_package_whose_state_cannot_be_restored(library: Any) -> None:
    library.Registry.size = property(lambda registry: vars(registry)["size"])
    vars(library.registry)["size"] = 1
    state = LibraryState()
    vars(library.registry)["size"] = 2
    library.cache.update(a=1)
    assert state.restore() == ("somelib",)
    assert library.cache == {}


def test_restoring_says_nothing_if_it_succeeds(library: Any) -> None:
    state = LibraryState()
    library.cache.update(a=1)
    assert state.restore() == ()


def test_equal_content_is_no_change(library: Any) -> None:
    state = LibraryState()
    library.names.append("two")
    library.names.pop()
    library.fresh = 1
    del library.fresh
    assert "somelib" not in state.changes()


def test_leaves_out_what_torch_imports_and_a_users_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_a_user.py").write_text("cache = {}")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("of_a_user")
    state = LibraryState()
    module.cache[1] = 1
    assert "of_a_user" not in state.changes()
    del sys.modules["of_a_user"]
