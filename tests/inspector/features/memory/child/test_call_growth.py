"""What stays alive, call after call, and the line that puts it there."""

import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from ctrace.inspector.features.memory.child.call_growth import (
    GrowingCalls,
    TensorHolder,
    holders_of,
    line_that_adds,
    names_on_stack,
)
from ctrace.inspector.features.memory.child.storage_ledger import CodeOrigin, Ledger, TrackedStorage
from ctrace.inspector.features.memory.child.tracked_calls import OperatorLines


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("kept.append(x)\n", 1),
        ("a = 1\nself.kept = torch.cat([self.kept, x])\n", 2),
        ("kept.append(x)\nkept = kept[1:]\n", 1),  # what adds comes before what makes a new one
        ("kept = kept + [x]\nkept = kept + [y]\n", None),
        ("kept = []\n", None),
    ],
)
def test_the_only_line_that_adds_is_found(source: str, line: int | None, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(source)
    found = line_that_adds("kept", {str(file)})
    assert (None if found is None else found[1]) == line


@pytest.mark.parametrize(
    ("sizes", "holder", "grows"),
    [
        ((8, 16, 24), "past", True),
        ((8, 16, 24), "model.cache.keys", True),
        ((8, 16, 16), "model.cache.keys", False),
        ((8, 16), "model.cache.keys", False),
        ((8, 16, 24), "x", False),  # a variable of a program, whose inputs become longer
    ],
)
def test_a_tensor_that_replaces_a_smaller_one_after_each_call_grows(
    sizes: tuple[int, ...], holder: str, grows: bool, tmp_path: Path
) -> None:
    file = tmp_path / "model.py"
    file.write_text("past = torch.cat([past, x])\n")
    growth = GrowingCalls(Ledger(), OperatorLines())
    place = CodeOrigin("model.py", 3)[:2]
    growth._sizes = [{place: size} for size in sizes]
    assert growth._grows(place, TensorHolder(holder, holder.rpartition(".")[2]), {str(file)}) is grows


HERE = sys._getframe().f_code.co_filename


class Record:
    """Holds a tensor, and is one of many."""

    def __init__(self) -> None:
        self.output = torch.ones(4)


def test_objects_that_each_call_adds_are_held_by_what_they_are_in() -> None:
    records: list[Record] = []
    growth = GrowingCalls(ledger := Ledger(), OperatorLines())
    for _ in range(3):
        records.append(Record())
        ledger.add(records[-1].output, CodeOrigin("model.py", 3), "aten.ones.default")
        growth.after_call()
    holders = holders_of(set(ledger.addresses().values()), {"m": {"records": records}})
    grouped: dict[tuple[Any, TensorHolder | None], list[TrackedStorage]] = {
        (("model.py", 3), holders[key]): [each] for each, key in ledger.addresses().items()
    }
    assert [each.text for _, each in grouped if each is not None] == [f"records[{index}].output" for index in range(3)]
    ((holder, some),) = growth._kept(grouped, set())
    assert holder is not None
    assert (holder.text, holder.name, len(some)) == ("records", "records", 3)


class SaysAnything:
    """Has no name of a module."""

    __module__ = property(lambda _self: "m")

    def __init__(self) -> None:
        self.kept = torch.ones(2)


def test_an_object_of_an_unusual_class_is_looked_into() -> None:
    strange = SaysAnything()
    key = strange.kept.untyped_storage()._cdata
    assert holders_of({key}, {"m": {"strange": strange}})[key].text == "strange.kept"


class Refusing(type):
    """A class that answers nothing."""

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(name)


class Warns(metaclass=Refusing):
    """Warns about each attribute that is read, as torch.distributed.reduce_op does."""

    def __init__(self) -> None:
        self.kept = torch.ones(2)

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


def test_no_code_of_an_object_runs_when_it_is_looked_into() -> None:
    odd = Warns()
    key = object.__getattribute__(odd, "__dict__")["kept"].untyped_storage()._cdata
    assert holders_of({key}, {"m": {"odd": odd}})[key].text == "odd.kept"


def _loop(ledger: Ledger, growth: GrowingCalls, gone: list[bool]) -> None:
    """Keep a tensor of each call; without `assert`, in whose place pytest looks at the variables."""
    kept, other = [], torch.ones(4)
    for _ in range(3):
        kept.append(torch.ones(4))
        ledger.add(kept[-1], CodeOrigin("model.py", 3), "aten.ones.default")
        growth.after_call()
    last = weakref.ref(other)
    del other
    gone.append(last() is None)


def test_a_key_is_not_asked_for_its_text() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise AssertionError("asked")

    kept = torch.ones(2)
    storages = {kept.untyped_storage()._cdata}
    (found,) = holders_of(storages, {"main": {"states": {Silent(): [kept], torch.ones(1): 2}}}).values()
    assert (found.text, found.name) == ("states", "states")


class LinesOfThisFile(OperatorLines):
    """Only this file is the user's.

    It holds nothing: through the variables of the functions below, a search would reach torch, and all it holds.
    """

    def __init__(self) -> None:
        pass

    def is_users(self, file: str) -> bool:
        return file == HERE


def test_what_a_function_holds_is_seen_while_it_runs_and_nothing_of_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "__main__")  # pytest's: it is searched, too, and reaches all tests
    ledger, gone = Ledger(), list[bool]()
    growth = GrowingCalls(ledger, LinesOfThisFile(), sees_functions=True)
    _loop(ledger, growth, gone)
    assert gone == [True]
    assert not ledger.alive()
    assert [(each.holder, each.count, each.line) for each in growth.held()] == [("kept", 2, 3)]


def _names() -> dict[str, Any]:
    variable = 1
    found = {name: dict(names) for name, names in names_on_stack(sys._getframe(), lambda file: file == HERE).items()}
    return {**found, "variable": variable}


def _asks_for_its_own() -> tuple[dict[str, Any], dict[str, Any]]:
    before = 2
    mine = locals()
    return mine, {**_names(), "before": before}


def test_a_function_that_asks_for_its_variables_is_left_alone() -> None:
    mine, found = _asks_for_its_own()
    assert mine == {"before": 2}
    assert found == {"_names()": {"variable": 1}, "variable": 1, "before": 2}
