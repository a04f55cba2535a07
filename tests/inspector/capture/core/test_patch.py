"""Patches are undone."""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.capture.core.patch import patched


class Base:
    @staticmethod
    def static() -> str:
        return "old"

    @classmethod
    def named(cls) -> str:
        return cls.__name__

    def plain(self) -> str:
        return "old"


class Derived(Base):
    pass


def test_a_module():
    module = ModuleType("probe")
    vars(module)["value"] = 1
    with patched(module, "value", 2) as old:
        assert (old, vars(module)["value"]) == (1, 2)
    assert vars(module)["value"] == 1


def test_an_object():
    owner = SimpleNamespace(value=None)
    with patched(owner, "value", 2):
        assert owner.value == 2
    assert owner.value is None


@pytest.mark.parametrize("name", ["static", "named", "plain"])
def test_a_class_gets_its_very_attribute_back(name: str):
    before = vars(Base)[name]
    with patched(Base, name, lambda *_args: "new"):
        assert getattr(Base(), name)() == "new"
    assert vars(Base)[name] is before


@pytest.mark.parametrize("name", ["static", "named", "plain"])
def test_what_a_class_inherits_it_inherits_again(name: str):
    with patched(Derived, name, lambda *_args: "new"):
        assert getattr(Derived(), name)() == "new"
        assert getattr(Base(), name)() != "new"
    assert name not in vars(Derived)
    assert Derived.named() == "Derived"


def test_an_error_in_the_block_puts_it_back_too():
    owner = SimpleNamespace(value=1)
    with pytest.raises(KeyError), patched(owner, "value", 2):
        raise KeyError
    assert owner.value == 1


def test_patches_nest():
    owner = SimpleNamespace(value=1)
    with patched(owner, "value", 2), patched(owner, "value", 3) as old:
        assert (old, owner.value) == (2, 3)
    assert owner.value == 1


def test_an_attribute_that_moved_is_an_error():
    owner: Any = SimpleNamespace()
    with pytest.raises(AttributeError, match="gone"), patched(owner, "gone", 2):
        pass
    assert vars(owner) == {}
