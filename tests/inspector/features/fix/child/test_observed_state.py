"""What a checkpoint of a model's state tells of a later one."""

import gc
import weakref
from typing import Any

import numpy as np
import torch

from ctrace.inspector.features.fix.child.observed_state import StateCheckpoint


class Key:
    """A key that is neither text nor a number."""

    def __repr__(self) -> str:
        return "Key()"


class Net(torch.nn.Module):
    """A model with state of many kinds."""

    def __init__(self, key: Key) -> None:
        super().__init__()
        self.table: dict[Any, Any] = {key: 1, (1, 2): 2.5, "a": float("nan"), 1: True}
        self.items: list[Any] = [1, [2], (4, torch.ones(2))]
        self.kept: Any = None


def test_changes_are_listed_by_path_with_the_values_before_and_after() -> None:
    key = Key()
    model = Net(key)
    before = StateCheckpoint(model)
    model.table |= {key: 2, "a": float("nan"), 1: 1, "new": (1, 2)}
    del model.table[1, 2]
    model.items[1].append(3)
    model.items[2][1].mul_(3)
    model.kept = torch.zeros(1)
    model.eval()
    found = {path: values for path, *values in before.changes(StateCheckpoint(model))}
    weights = found.pop("attribute model.items[2][1]")  # in a tuple, which can be changed through its items only
    assert [each[:3] for each in weights] == [["Tensor", "torch.float32", [2]]] * 2
    assert found.pop("attribute model.kept")[0] == ["NoneType", "None"]
    assert found == {
        "attribute model.items[1]": [["list", 1], ["list", 2]],
        "attribute model.items[1][1]": [["not set"], ["int", "3"]],
        "attribute model.table['new']": [["not set"], ["tuple", "(1, 2)"]],
        "attribute model.table[(1, 2)]": [["float", "2.5"], ["not set"]],
        "attribute model.table[1]": [["bool", "True"], ["int", "1"]],
        "attribute model.table[Key()]": [["int", "1"], ["int", "2"]],
        "attribute model.training": [["bool", "True"], ["bool", "False"]],
    }


def test_a_checkpoint_keeps_no_object_of_the_program_alive() -> None:
    model = Net(Key())
    key = weakref.ref(next(iter(model.table)))
    checkpoint = StateCheckpoint(model)
    model.table.clear()
    gc.collect()
    assert key() is None
    assert checkpoint.changes(StateCheckpoint(model))


def test_state_that_no_container_shows_is_seen() -> None:
    model = Net(Key())
    model.kept = torch.Generator()
    model.items = [np.zeros(3), iter([1, 2, 3]), bytearray(b"ab")]
    before = StateCheckpoint(model)
    assert before.changes(StateCheckpoint(model)) == []
    torch.rand(1, generator=model.kept)
    model.items[0][1] = 2
    next(model.items[1])
    model.items[2][0] = 0
    found = [path for path, *_ in before.changes(StateCheckpoint(model))]
    assert found == ["hidden model.items[0]", "hidden model.items[1]", "hidden model.items[2]", "hidden model.kept"]
