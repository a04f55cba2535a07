"""What stays alive, call after call, and the line that puts it there."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ctrace.inspector.features.memory.child.call_growth import GrowingCalls, TensorHolder, holders_of, line_that_adds
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
        ((8, 16, 24), "model.cache.keys", True),
        ((8, 16, 16), "model.cache.keys", False),
        ((8, 16), "model.cache.keys", False),
        ((8, 16, 24), "x", False),  # a variable of a program, whose inputs become longer
    ],
)
def test_a_tensor_that_replaces_a_smaller_one_after_each_call_grows(
    sizes: tuple[int, ...], holder: str, grows: bool
) -> None:
    growth = GrowingCalls(Ledger(), OperatorLines())
    place = CodeOrigin("model.py", 3)[:2]
    growth._sizes = [{place: size} for size in sizes]
    assert growth._grows(place, TensorHolder(holder, holder.rpartition(".")[2])) is grows


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
    ((holder, some),) = growth._kept(grouped)
    assert holder is not None
    assert (holder.text, holder.name, len(some)) == ("records", "records", 3)
