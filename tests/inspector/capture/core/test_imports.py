"""Acting on a module when the program imports it."""

import importlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from ctrace.inspector.capture.core.imports import watch_imports

Make = Callable[..., str]


def _add(seen: list[str], text: str, _module: ModuleType) -> None:
    seen.append(text)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Write a module that can be imported until the test ends, and return its name."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, source: str = "value = 1") -> str:
        file = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        importlib.invalidate_caches()
        return name

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_action_sees_the_finished_module(make: Make):
    seen: list[int] = []
    with watch_imports() as when:
        when(make("ctrace_probe", "value = 1\nvalue += 1"), lambda module: seen.append(module.value))
        assert seen == []
        importlib.import_module("ctrace_probe")
    assert seen == [2]


def test_what_the_action_changes_is_what_the_program_gets(make: Make):
    with watch_imports() as when:
        when(make("ctrace_probe"), lambda module: setattr(module, "value", 7))
        assert importlib.import_module("ctrace_probe").value == 7


def test_a_module_that_is_there_already_is_acted_on_at_once():
    seen: list[ModuleType] = []
    with watch_imports() as when:
        when("json", seen.append)
    assert seen == [sys.modules["json"]]


def test_other_imports_are_left_alone(make: Make):
    seen: list[ModuleType] = []
    other = make("ctrace_other", "")
    with watch_imports() as when:
        when(make("ctrace_probe"), seen.append)
        importlib.import_module(other)
    assert seen == []


def test_actions_run_once_in_order(make: Make):
    seen: list[str] = []
    name = make("ctrace_probe")
    with watch_imports() as when:
        for number in ("first", "second"):
            when(name, partial(_add, seen, number))
        importlib.import_module(name)
        importlib.import_module(name)
    assert seen == ["first", "second"]


def test_a_module_in_a_package(make: Make):
    seen: list[str] = []
    make("ctrace_package.__init__", "")
    with watch_imports() as when:
        when(make("ctrace_package.inner"), lambda module: seen.append(module.__name__))
        importlib.import_module("ctrace_package")
        assert seen == []
        importlib.import_module("ctrace_package.inner")
    assert seen == ["ctrace_package.inner"]


def test_an_action_may_watch_for_more(make: Make):
    seen: list[str] = []
    first, second = make("ctrace_first"), make("ctrace_second")
    with watch_imports() as when:
        when(first, lambda _module: when(second, lambda module: seen.append(module.__name__)))
        importlib.import_module(first)
        importlib.import_module(second)
    assert seen == [second]


def test_a_module_that_fails_raises_its_own_error_and_can_be_tried_again(make: Make):
    seen: list[ModuleType] = []
    name = make("ctrace_probe", "raise OSError('no weights')")
    with watch_imports() as when:
        when(name, seen.append)
        with pytest.raises(OSError, match="no weights"):
            importlib.import_module(name)
        assert seen == []
        make(name, "value = 'second try, of another length'")
        importlib.import_module(name)
    assert len(seen) == 1


def test_a_module_that_is_not_there_raises_as_ever():
    with watch_imports() as when:
        when("ctrace_no_such_module", lambda _module: None)
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("ctrace_no_such_module")


def test_afterwards_nothing_is_watched(make: Make):
    seen: list[ModuleType] = []
    finders = list(sys.meta_path)
    with watch_imports() as when:
        when(make("ctrace_probe"), seen.append)
    assert sys.meta_path == finders
    importlib.import_module("ctrace_probe")
    assert seen == []


def test_an_error_in_the_block_ends_watching_too():
    finders = list(sys.meta_path)
    with pytest.raises(KeyError), watch_imports():
        raise KeyError
    assert sys.meta_path == finders


def test_two_watchers_do_not_mind_each_other(make: Make):
    seen: list[str] = []
    name = make("ctrace_probe")
    with watch_imports() as outer, watch_imports() as inner:
        outer(name, lambda _module: seen.append("outer"))
        inner(name, lambda _module: seen.append("inner"))
        importlib.import_module(name)
    assert sorted(seen) == ["inner", "outer"]
