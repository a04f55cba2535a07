"""What a proof must try, by reading: numbers and attributes of conditions, and the other writers of what changes."""

import pytest
from msgspec import json

from ctrace.inspector.facts.trial import Mined
from ctrace.inspector.features.fix.repairs.mining import mined, runs_hooks, writers
from ctrace.inspector.files.typed_json import typed

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


FURTHER = """\
FIELD = 12
UNUSED = 13


class Net(Base):
    most = 40

    def __init__(self, width=24):
        self.width = width
        self.limit = 4.5
        self.depth: int = 6

    def forward(self, x, steps=8, *, scale=0.25, flag=True):
        checks = (x.dim() == 2, x.dim() == 3, x.dim() == 4, x.dim() == 5, x.dim() == 7, x.dim() == 9, x.dim() == 64)
        if x.max() > self.limit and self.depth:
            return x[-20:, 0, 1:FIELD] * self.most
        return x[UNSET:32]
"""


def test_constants_that_stand_in_no_comparison():
    found = mined({"f.py": FURTHER}, {"f.py": [FURTHER.replace("x[UNSET:32]", "x[:32]")]})
    assert found.numbers == (2, 3, 4, 5, 7, 9)
    assert found.further[0] == 64
    assert found == typed(Mined, json.decode(json.encode(found)), "as a child reads it")
    assert {*found.further} == {64, 40, 24, 8, 0.25, 4.5, 6, 20, 32, 12}


def lines_after(old: str, new: str) -> list[str]:
    assert old in NET
    return [NET.splitlines()[each.line - 1].strip() for each in writers("f.py", NET, NET.replace(old, new))]


def test_a_number_that_becomes_a_tensor_must_not_be_changed_in_place():
    found = lines_after("self.scale.item()", "self.scale.detach()")
    assert found == ["n += 1", "self.scale.mul_(0.5)", "self.scale = torch.tensor(1.0)", "self.scale.div_(2)"]


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


BRANCH = """\
class Net(Base):
    def __init__(self, wide=True):
        self.center = torch.ones(3)
        OWN

    def forward(self, x):
        center = self.center
        ABOVE
        if x.norm() > 8:
            x = x - READ
        return x

    OTHER


CLASS
"""
PLACES = {"OWN": "        ", "ABOVE": "        ", "READ": "", "OTHER": "    ", "CLASS": ""}


def program(**parts: str) -> str:
    text = BRANCH
    for place, indent in PLACES.items():
        given = parts.get(place, "self.center" if place == "READ" else "pass")
        text = text.replace(place, given.replace("\n", f"\n{indent}"))
    return text


@pytest.mark.parametrize(
    ("above", "below", "found"),
    [
        ("x = base[:, :4]", "base.mul_(0.9)", True),
        ("x = base.view(4, -1)", "base[0] = 0", True),
        ("x = base.T", "base += 1", True),
        ("x = base * 2", "base.mul_(0.9)", False),
        ("x = torch.relu(base)", "base.mul_(0.9)", False),
        ("x = torch.relu(base); y = torch.zeros(3)", "y.mul_(0.9)", False),
        ("x = base * 2; rows = x[:2]", "rows.mul_(0.9)", True),
    ],
)
def test_what_shares_memory_with_a_name_is_written_on_a_line_that_must_run(above: str, below: str, found: bool):
    before = f"""\
def forward(self, base, step):
    {above}
    if x.norm() > 8:
        x = x * 0.5
    if step in self.milestones:
        {below}
    return x
"""
    after = before.replace(
        "    if x.norm() > 8:\n        x = x * 0.5\n", "    x = torch.where(x.norm() > 8, x * 0.5, x)\n"
    )
    assert [each.line for each in writers("f.py", before, after)] == ([6] if found else [])


def lines_of(text: str) -> list[str]:
    old = next(each for each in text.splitlines() if "if x.norm()" in each)
    body = text.splitlines()[text.splitlines().index(old) + 1]
    after = text.replace(f"{old}\n{body}", f"        x = torch.where(x.norm() > 8, {body.strip()[4:]}, x)")
    return [text.splitlines()[each.line - 1].strip() for each in writers("f.py", text, after)]


@pytest.mark.parametrize(
    "line",
    [
        "self.center = None",
        "self.center: object = None",
        "del self.center",
        "self.center.data = x.double()",
        "self.center.mul_(2)",
        "self.center[0] = 1",
        "self.other, self.center = 1, 2",
        'self.register_buffer("center", x)',
        'self.register_buffer(name="center", tensor=x)',
        'setattr(self, "center", None)',
        "setattr(self, x, None)",
        'object.__setattr__(self, "center", x)',
        'super().__setattr__("center", x)',
        'self._buffers["center"] = None',
        'self._buffers.pop("center")',
        "self.__dict__.update(x)",
        "vars(self)[x] = 3",
        "torch.add(x, 1, out=self.center)",
        "return self.center.copy_(x)",
        "other.center = None",
        'setattr(other, "center", None)',
        "with x as self.center: pass",
        "for self.center in x: pass",
    ],
)
def test_each_way_to_write_what_is_read_on_one_side(line: str):
    written = line.partition(":")[0] if line.startswith(("with", "for")) else line
    found = lines_of(program(OTHER=f"def other(self, x):\n    {line}"))
    assert [each.partition(":")[0] if line.startswith(("with", "for")) else each for each in found] == [written]
    if "self.center" not in line.replace("other", "") or "other.center" in line:
        return
    stranger = f"class Other:\n    def reset(self, x):\n        {line}"
    assert lines_of(program(CLASS=stranger)) == [], "another class has a center of its own"
    assert lines_of(program(CLASS=stranger.replace("Other", "Other(Net)"))), "a class that derives from it has not"


@pytest.mark.parametrize(
    "line",
    [
        "self.centers = None",
        "self.center.data.mul_(2)",
        "y = self.center.add(1)",
        "self.center.requires_grad = False",
        'self.register_buffer("centers", x)',
        "center = None",
        "y = self.center",
    ],
)
def test_what_leaves_an_attribute_as_it_is(line: str):
    assert lines_of(program(OTHER=f"def other(self, x):\n    {line}")) == []


@pytest.mark.parametrize("read", ["center", 'getattr(self, "center")', "self.center[0]", "(self.center if x else 0)"])
def test_each_way_to_read(read: str):
    assert lines_of(program(READ=read, OTHER="def other(self):\n    self.center = None")) == ["self.center = None"]
    assert lines_of(program(READ="self.limit", OTHER="def other(self):\n    self.center = None")) == []


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ("self.center = None", []),
        ("with torch.no_grad():\n    self.center = None", []),
        ("if wide:\n    self.center = None", ["self.center = None"]),
        ("if wide:\n    self.other = None", []),
        ("if wide:\n    self.center.zero_()", []),
        ("self.center = x if wide else None", ["self.center = x if wide else None"]),
        ("self._make()\n\ndef _make(self):\n    self.center = None".replace("\n\n", "\n"), []),
        ("self.layer.center = None", ["self.layer.center = None"]),
    ],
)
def test_a_constructor_has_run_where_nothing_chooses_what_it_does(own: str, found: list[str]):
    text = program(OWN=own.replace("\ndef _make(self):\n    self.center = None", ""))
    if "_make" in own:
        text = text.replace("    pass\n\n\n", "    def _make(self):\n        self.center = None\n\n\n")
    assert lines_of(text) == found


def test_the_only_line_of_a_constructor_that_makes_an_attribute_has_run():
    text = program(OWN="if wide:\n    self.limit = 2", READ="self.limit")
    assert lines_of(text) == []


@pytest.mark.parametrize("base", ["Net", "nets.Net", "Net[int]"])
def test_a_class_that_derives_from_a_changed_one_must_be_constructed(base: str):
    text = program(CLASS=f"class Plain({base}):\n    def __init__(self):\n        self.center = None")
    after = text.replace("        if x.norm() > 8:\n            x = x - self.center\n", "        x = x - self.center\n")
    assert [each.constructed for each in writers("f.py", text, after)] == ["Plain"]
    assert lines_of(program(CLASS=f"class Plain({base}):\n    center = None")) == ["center = None"]
    given = f"class Plain({base}):\n    @property\n    def center(self):\n        return None"
    assert lines_of(program(CLASS=given)) == ["return None"]


@pytest.mark.parametrize(
    ("above", "is_safe"),
    [
        ("if self.center is None:\n    return x", True),
        ("if x is None or self.center is None:\n    raise ValueError", True),
        ("x = x * self.center", True),
        ("x = x + self.center.sum()", True),
        ("if self.center is None:\n    x = x * 2", False),
        ("x = x * self.center if x else x", False),
        ("if x:\n    x = x * self.center", False),
    ],
)
def test_what_is_none_neither_before_nor_after_need_not_run(above: str, is_safe: bool):
    text = program(ABOVE=above, OTHER="def other(self):\n    self.center = None")
    assert lines_of(text) == ([] if is_safe else ["self.center = None"])
    text = program(ABOVE=above, OTHER="def other(self):\n    self.center = torch.zeros(3)")
    assert lines_of(text) == ["self.center = torch.zeros(3)"], "another value is no None"


def test_a_condition_around_the_change_may_exclude_none():
    text = program(OTHER="def other(self):\n    self.center = None")
    guarded = text.replace("        if x.norm() > 8:", "        if self.center is not None and x.norm() > 8:")
    after = guarded.replace(
        "        if self.center is not None and x.norm() > 8:\n            x = x - self.center\n",
        "        if self.center is not None:\n            x = torch.where(x.norm() > 8, x - self.center, x)\n",
    )
    assert after != guarded
    assert writers("f.py", guarded, after) == ()


def test_what_a_file_does_when_it_is_loaded_has_run():
    assert lines_of(program(CLASS="model = Net()\nmodel.center = torch.ones(3)")) == []
    other = program(CLASS="model = Net()\nother = Net()\nother.center = None")
    assert lines_of(other) == ["other.center = None"], "it may be another object than the one that is called"
    assert lines_of(program(CLASS="def strip(model):\n    model.center = None")) == ["model.center = None"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Net(None)", ["return Net(None)"]),
        ("Net(center=None)", ["return Net(center=None)"]),
        ("Net(x)", []),
        ("Other(None)", []),
    ],
)
def test_an_object_that_is_made_without_what_is_read(line: str, found: list[str]):
    text = program(CLASS=f"def build(x):\n    return {line}").replace("wide=True", "center")
    text = text.replace("self.center = torch.ones(3)", "self.center = center")
    assert lines_of(text) == found
    derived = text.replace(
        f"def build(x):\n    return {line}", "class Plain(Net):\n    def __init__(self):\n        LINE"
    )
    base = line.replace("Net(", "super().__init__(").replace("Other(", "Other.__init__(self, ")
    assert bool(lines_of(derived.replace("LINE", base))) == bool(found)


def test_a_parameter_that_may_be_none():
    text = program().replace("wide=True", "center=None").replace("torch.ones(3)", "center")
    assert lines_of(text) == ["self.center = center"]
    assert lines_of(text.replace("center=None", "center")) == []


def test_what_a_property_reads_is_read():
    given = "@property\ndef middle(self):\n    return self.center\n\ndef drop(self):\n    self.center = None"
    assert lines_of(program(READ="self.middle", OTHER=given)) == ["self.center = None"]


LAYERS = """\
class Layer:
    def __init__(self, lite=False):
        self.offset = torch.zeros(3)
        OWN

    def unload(self):
        pass


class Lite(Layer):
    def __init__(self):
        self.LITE = None


class Other:
    def __init__(self, lite=False):
        self.offset = None


class Net:
    def forward(self, x):
        if x.norm() > 8:
            x = x - self.layer.offset
        return x
"""


@pytest.mark.parametrize(
    ("own", "lite", "found"),
    [
        ("pass", "name", []),
        ("pass", "offset", ["self.offset = None"]),
        ("if lite:\n            self.offset = 1", "name", ["self.offset = 1"]),
        ("self.offset = 1 if lite else None", "name", ["self.offset = 1 if lite else None"]),
        ("pass\n\n    def reset(self):\n        self.offset = 2", "name", ["self.offset = 2"]),
    ],
)
def test_an_attribute_of_a_layer(own: str, lite: str, found: list[str]):
    assert lines_of(LAYERS.replace("OWN", own).replace("LITE", lite)) == found


def test_methods_that_write_what_a_change_reads_are_named():
    text = program(OTHER="def drop(self):\n    self.center = None")
    after = text.replace("        if x.norm() > 8:\n            x = x - self.center\n", "        x = x - self.center\n")
    found = mined({"f.py": text}, {"f.py": [after]})
    assert found.methods == ("drop",)
    calling = program(OTHER="def drop(self):\n    self.center = None\n\ndef prepare(self):\n    self.drop()")
    changed = calling.replace(
        "        if x.norm() > 8:\n            x = x - self.center\n", "        x = x - self.center\n"
    )
    assert set(mined({"f.py": calling}, {"f.py": [changed]}).methods) == {"drop", "prepare"}
    assert found.files == ("f.py",)


@pytest.mark.parametrize(
    "text",
    [
        "x.register_hook(report)",
        "model.register_full_backward_hook(report)",
        "class Double(torch.autograd.Function):\n    pass",
        "from torch.autograd import Function",
        "class Mode:\n    def __torch_function__(self):\n        pass",
    ],
)
def test_code_that_runs_later(text: str):
    assert runs_hooks(text)
    assert not runs_hooks("import torch\nx = torch.ones(3).sum()")


def test_functions_that_set_a_global_name_that_is_read_must_run():
    before = (
        "GAIN = 0.5\n\n\ndef set_gain(value):\n    global GAIN\n    GAIN = value\n\n\n"
        "def f(x):\n    if x.sum() > 0:\n        x = x * GAIN\n    return x\n"
    )
    after = before.replace(
        "    if x.sum() > 0:\n        x = x * GAIN\n", "    x = torch.where(x.sum() > 0, x * GAIN, x)\n"
    )
    assert [each.line for each in writers("m.py", before, after)] == [6]
