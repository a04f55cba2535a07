"""Checkpoints of what a model can read, and the search for the change that matters."""

import importlib
import inspect
import os
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from ctrace.inspector.capture.comparing.dangers import culprits, place_of
from ctrace.inspector.capture.comparing.world import A_TENSOR, MISSING, ItemChange, look

SETTINGS = {"scale": 1, "unused": 1}
HISTORY: list[int] = []
COUNT = 0


class Net(torch.nn.Module):
    factor = 2
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(2))
        self.config = SimpleNamespace(depth=3, sizes=[1, 2])

    def forward(self, x: Any) -> Any:
        return self.fc(x) * SETTINGS["scale"] * float(os.environ.get("CTRACE_TEST", "1"))


def changed(model: Any, *actions: Any) -> dict[str, tuple[Any, Any]]:
    """Collect facts, run the actions, and return the changes, keyed by path; then restore everything."""
    before = look(model)
    facts = before.facts()
    for action in actions:
        action()
    found = {change.path: (change.was, change.now) for change in look(model).differing(facts)}
    assert before.restore() == ()
    assert look(model).differing(facts) == []
    return found


def test_nothing_changes_by_looking():
    assert changed(Net()) == {}


class LazyTable(OrderedDict[str, int]):
    """As transformers' tables of classes: to look at it loads what it names, which may fail."""

    def keys(self) -> Any:
        raise ValueError("cannot be loaded")

    __len__ = __iter__ = items = values = keys

    def __getitem__(self, key: str) -> int:
        raise ValueError("cannot be loaded")


class LazyList(list[int]):
    def __len__(self) -> int:
        raise ValueError("cannot be loaded")

    __iter__ = __len__  # type: ignore[assignment]


class LazySet(set[int]):
    def __len__(self) -> int:
        raise ValueError("cannot be loaded")

    __iter__ = __len__  # type: ignore[assignment]


def test_looking_runs_no_method_of_a_container():
    model: Any = Net()
    model.tables = [table := LazyTable(), LazyList([1]), LazySet([2])]
    found = changed(model, lambda: OrderedDict.__setitem__(table, "new", 1))
    assert [now for _, now in found.values()] == [1]


def test_state_of_every_kind_is_found_and_put_back(monkeypatch: pytest.MonkeyPatch):
    model = Net()
    monkeypatch.setenv("CTRACE_TEST", "1")
    here = __name__
    found = changed(
        model,
        lambda: os.environ.update(CTRACE_TEST="2"),
        lambda: setattr(model, "training", False),
        lambda: setattr(model.config, "depth", 4),
        lambda: model.config.sizes.extend((7, 8)),
        lambda: SETTINGS.update(scale=5),
        lambda: SETTINGS.pop("unused"),
        lambda: HISTORY.append(1),
        lambda: setattr(Net, "factor", 3),
        lambda: torch.set_default_dtype(torch.float64),
    )
    assert found == {
        "os.environ['CTRACE_TEST']": ("1", "2"),
        "model.training": (True, False),
        "model.config.depth": (3, 4),
        "model.config.sizes[2]": (MISSING, 7),
        "model.config.sizes[3]": (MISSING, 8),
        f"{here}.SETTINGS['scale']": (1, 5),
        f"{here}.SETTINGS['unused']": (1, MISSING),
        f"{here}.HISTORY[0]": (MISSING, 1),
        "Net.factor": (2, 3),
        "torch.get_default_dtype()": (torch.float32, torch.float64),
    }
    assert (model.config.sizes, SETTINGS, HISTORY) == ([1, 2], {"scale": 1, "unused": 1}, [])


def test_hooks_and_replaced_methods_are_found():
    model = Net()
    forward = torch.nn.Linear.forward

    def other(self: Any, x: Any) -> Any:
        return x

    found = changed(
        model,
        lambda: model.fc.register_forward_hook(lambda *_: None),
        lambda: setattr(torch.nn.Linear, "forward", other),
    )
    hook = next(path for path in found if path.startswith("model._modules['fc']._forward_hooks["))
    assert found[hook][0] is MISSING
    assert found["Linear.forward"] == (forward, other)
    assert not model.fc._forward_hooks
    assert torch.nn.Linear.forward is forward


def test_what_a_function_closes_over_is_found():
    count = 1

    def model(x: Any) -> Any:
        return x * count

    def change() -> None:
        nonlocal count
        count = 2

    (found,) = changed(model, change).items()
    assert found[0].startswith("count of ")
    assert found[1] == (1, 2)
    assert count == 1


def test_a_tensor_that_changed_is_put_back():
    model = Net()
    before = look(model)
    model.seen.add_(1)
    assert before.restore() == ()
    assert model.seen.tolist() == [0, 0]


def test_a_parameter_that_changed_cannot_be_put_back():
    model = Net()
    before = look(model)
    with torch.no_grad():
        model.fc.weight.add_(1)
    assert before.restore() == (A_TENSOR,)


def test_objects_are_no_facts():
    model = Net()
    model.config.thing = object()
    assert not any(isinstance(value, torch.nn.Module | SimpleNamespace) for value in look(model).facts().values())
    assert "thing" not in {key for _, key in look(model).facts()}


class TestCulprits:
    def found(self, needed: set[str], *, spoilers: frozenset[str] = frozenset()) -> list[str]:
        """Change five items; `needed` explains the difference, unless a spoiler is restored, too."""
        model = SimpleNamespace(**dict.fromkeys("abcde", 1))
        earlier = look(model).facts()
        for name in "abcde":
            setattr(model, name, 2)

        def experiment(changes: list[ItemChange]) -> bool:
            names = {change.key for change in changes}
            return needed <= names and not names & spoilers

        return sorted(change.key for change in culprits(look(model), [earlier], experiment))

    def test_one_of_many(self):
        assert self.found({"d"}) == ["d"]

    def test_several_that_explain_only_together(self):
        assert self.found({"a", "e"}) == ["a", "e"]

    def test_one_where_another_spoils_the_rest(self):
        assert self.found({"c"}, spoilers=frozenset("b")) == ["c"]

    def test_none(self):
        assert self.found({"z"}) == []

    def test_a_change_is_undone_by_its_old_value(self):
        model = SimpleNamespace(a=1)
        earlier = look(model).facts()
        model.a, model.new = 2, 3
        for change in look(model).differing(earlier):
            change.undo()
        assert vars(model) == {"a": 1}


def test_where_it_is_read(monkeypatch: pytest.MonkeyPatch):
    model = Net()
    monkeypatch.delenv("CTRACE_TEST", raising=False)
    earlier = look(model).facts()
    monkeypatch.setenv("CTRACE_TEST", "2")
    monkeypatch.setitem(SETTINGS, "scale", 2)
    now = look(model)
    lines = {change.path: place_of(change, now) for change in now.differing(earlier)}
    line = inspect.getsourcelines(Net.forward)[1] + 1
    assert set(lines.values()) == {(__file__, line)}


def test_what_dynamo_stores_in_a_module_is_not_state(monkeypatch: pytest.MonkeyPatch):
    word = "installed"
    names = [f"_{id(word)}_c0", f"___stream_{id(word)}_c1", "_12_c0"]  # the last is a user's
    found = changed(Net(), *(lambda name=name: monkeypatch.setitem(globals(), name, word) for name in names))
    assert list(found) == [f"{__name__}._12_c0"]


def test_a_submodule_that_an_import_bound_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """NumPy imports `numpy.ma` on first use; without the name in its package it would import it without end."""
    (tmp_path / "lazily").mkdir()
    (tmp_path / "lazily" / "__init__.py").write_text(
        "def __getattr__(name):\n    import lazily.ma as ma\n    return ma\n"
    )
    (tmp_path / "lazily" / "ma.py").write_text("known = {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("lazily")

    class Reading(Net):
        def forward(self, x: Any) -> Any:
            return package.ma.known, super().forward(x)

    monkeypatch.setitem(Reading.forward.__globals__, "package", package)
    changed(Reading(), lambda: package.ma)
    assert "ma" in vars(package)
