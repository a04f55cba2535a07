"""What a proof must try, by reading: numbers and attributes of conditions, and the other writers of what changes."""

import pytest

from ctrace.inspector.features.fix.repairs.mining import mined, writers

NET = """\
LIMIT = 64


class Net(Base):
    def __init__(self):
        self.scale = torch.tensor(2.0)

    def forward(self, x):
        n = self.scale.item()
        if self.warm and x.shape[0] > LIMIT:
            self.scale.mul_(0.5)
        if self.cfg.kind == "big":
            n += 1
        return x * n

    def reset(self):
        self.other.zero_()
        self.scale = torch.tensor(1.0)


class Child(Net):
    def halve(self):
        self.scale.div_(2)


class Stranger:
    def halve(self):
        self.scale.div_(2)
"""


def test_constants_and_attributes_of_conditions():
    found = mined({"f.py": NET}, {"f.py": [NET.replace(".item()", ".detach()")]})
    assert found.numbers == (64,)
    assert found.texts == ("big",)
    assert found.attributes == ("warm", "cfg.kind")


def lines_after(old: str, new: str) -> list[str]:
    assert old in NET
    return [NET.splitlines()[each.line - 1].strip() for each in writers("f.py", NET, NET.replace(old, new))]


def test_a_number_that_becomes_a_tensor_must_not_be_changed_in_place():
    assert lines_after("self.scale.item()", "self.scale.detach()") == ["n += 1"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.scale = torch.tensor(2.0)", "self.scale = 2"),
        ("self.scale = torch.tensor(2.0)", 'self.register_buffer("scale", torch.tensor(2.0))'),
        (
            "        n = self.scale.item()\n",
            "        n = 1\n        c = copy.deepcopy(self.scale)\n        self.scale = c\n",
        ),
    ],
)
def test_all_writers_of_an_attribute_in_the_class_and_in_classes_that_derive_from_it(old: str, new: str):
    found = lines_after(old, new)
    assert [each for each in found if "scale" in each] == [
        "self.scale.mul_(0.5)",
        "self.scale = torch.tensor(1.0)",
        "self.scale.div_(2)",
    ]


def test_a_text_that_is_no_python_has_neither():
    assert writers("f.py", "def f(:", "x") == ()
    assert mined({"f.py": "def f(:"}, {"f.py": ["x"]}).numbers == ()
