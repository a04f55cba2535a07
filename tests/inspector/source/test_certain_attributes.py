"""Which attributes each object of a class has, and what of a change's reads is asked about for it."""

import textwrap

import pytest

from ctrace.inspector.source.absent_values import absent_values

BRANCH = """\
if h.norm() > 3:
    h = h * {read}
"""
SELECT = """\
h = torch.where(h.norm() > 3, h * {read}, h)
"""


def asked(code: str, read: str = "self.gain") -> tuple[str, ...]:
    """Return the questions about a branch at `BRANCH` that becomes torch.where."""
    return absent_values(*(_put(code, text.format(read=read)) for text in (BRANCH, SELECT)))


def _put(code: str, text: str) -> str:
    (line,) = [each for each in code.splitlines() if each.strip() == "BRANCH"]
    return code.replace(f"{line}\n", textwrap.indent(text, line.removesuffix("BRANCH")))


def net(constructor: str, *, given: str = "wide", forward: str = "BRANCH", rest: str = "", above: str = "") -> str:
    """Return a model whose constructor and forward have these statements."""
    parts = (
        f"{above}class Net(Module):\n    def __init__(self, {given}):\n{textwrap.indent(constructor, ' ' * 8)}\n",
        textwrap.indent(rest, " " * 4),
        f"    def forward(self, h):\n{textwrap.indent(forward, ' ' * 8)}\n        return h\n",
    )
    return "\n".join(parts)


@pytest.mark.parametrize(
    "constructor",
    [
        "if wide:\n    self.gain = 2.0",
        "if wide:\n    self.register_buffer('gain', torch.ones(()))",
        "if wide:\n    pass\nelse:\n    self.gain = 2.0",
        "if wide:\n    return\nself.gain = 2.0",
        "for each in wide:\n    self.gain = each",
        "while wide:\n    self.gain = wide.pop()",
        "with suppress(OSError):\n    self.gain = read(wide)",
        "try:\n    self.gain = read(wide)\nexcept OSError:\n    pass",
        "match wide:\n    case 1:\n        self.gain = 2.0",
        "def later():\n    self.gain = 2.0",
        "self.build(wide)",
    ],
)
def test_what_not_each_way_through_a_constructor_sets(constructor: str):
    rest = "def build(self, wide):\n    if wide:\n        self.gain = 2.0\n" if "build" in constructor else ""
    (question,) = asked(net(constructor, rest=rest))
    assert question.startswith("Does `self.gain` have a value in each call? By line ")


@pytest.mark.parametrize(
    "constructor",
    [
        "self.gain = 2.0",
        "self.gain: float = 2.0",
        "if wide:\n    self.gain = 2.0\nelse:\n    self.gain = 1.0",
        "if wide:\n    self.gain = 2.0\nelse:\n    raise ValueError",
        "if wide:\n    self.gain = 2.0\n    return\nself.gain = 1.0",
        "with torch.no_grad():\n    self.gain = 2.0",
        "for each in range(2):\n    self.gain = each",
        "for each in (1, 2):\n    self.gain = each",
        "try:\n    self.gain = read(wide)\nexcept OSError:\n    self.gain = 1.0",
        "try:\n    read(wide)\nfinally:\n    self.gain = 1.0",
        "match wide:\n    case 1:\n        self.gain = 2.0\n    case _:\n        self.gain = 1.0",
        "self.build(wide)",
        "super().__init__()",
    ],
)
def test_what_each_way_through_a_constructor_sets(constructor: str):
    rest = "def build(self, wide):\n    self.gain = 2.0\n" if "build" in constructor else ""
    above = "class Module:\n    def __init__(self):\n        self.gain = 1.0\n" if "super" in constructor else ""
    assert asked(net(constructor, rest=rest, above=above)) == ()


def test_only_a_method_sets_it():
    fit = "def fit(self, x):\n    self.gain = 2.0\n"
    assert len(asked(net("pass", rest=fit))) == 1
    assert asked(net("self.gain = 1.0", rest=fit)) == ()
    assert asked(net("pass", rest=f"gain = 1.0\n{fit}")) == ()
    assert asked(net("pass", rest=fit, forward="self.fit(h)\nBRANCH")) == ()
    assert asked(net("pass", rest=fit, forward="self.gain = h.mean()\nBRANCH")) == ()
    looked_for = "if not hasattr(self, 'gain'):\n    self.gain = 2.0\nBRANCH"
    assert asked(net("pass", forward=looked_for)) == ()


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        ("if self.wide:\n    BRANCH", 0),
        ("if self.wide and self.training:\n    BRANCH", 0),
        ("if not self.wide:\n    return h\nBRANCH", 0),
        ("if self.wide:\n    pass\nelse:\n    BRANCH", 1),
        ("if self.training:\n    BRANCH", 1),
        ("if hasattr(self, 'gain'):\n    BRANCH", 0),
    ],
)
def test_a_test_around_the_change_that_was_true_when_it_was_set(forward: str, count: int):
    code = net("self.wide = wide\nif wide:\n    self.gain = 2.0", forward=forward)
    assert len(asked(code)) == count


def test_a_test_of_a_parameter_that_is_kept_otherwise():
    code = net("self.wide = True\nif wide:\n    self.gain = 2.0", forward="if self.wide:\n    BRANCH")
    assert len(asked(code)) == 1


def test_a_class_derives_from_one_that_is_certain():
    base = "class Base:\n    def __init__(self, wide):\n        {}self.gain = 2.0\n\n"
    code = net("super().__init__(wide)").replace("(Module)", "(Base)")
    assert asked(base.format("") + code) == ()
    assert len(asked(base.format("if wide: ") + code)) == 1
    without = code.replace("super().__init__(wide)", "self.dim = wide")
    assert len(asked(base.format("") + without)) == 1


def test_an_attribute_of_another_object():
    shared = "class Shared:\n    def prepare(self):\n        self.gain = 2.0\n"
    code = net("self.shared = wide", above=shared)
    assert len(asked(code, "self.shared.gain")) == 1
    assert asked(code.replace("def prepare", "def __init__"), "self.shared.gain") == ()
    made = code.replace("self.shared = wide", "self.shared = Other(wide)")
    assert asked(made, "self.shared.gain") == ()


@pytest.mark.parametrize(
    ("layer", "read", "count"),
    [
        ("nn.BatchNorm1d(8, track_running_stats=wide)", "running_mean", 1),
        ("nn.BatchNorm1d(8, **wide)", "running_var", 1),
        ("nn.LayerNorm(8, elementwise_affine=wide)", "weight", 1),
        ("nn.Linear(8, 8, bias=wide)", "bias", 1),
        ("nn.Linear(8, 8, bias)", "bias", 1),
        ("nn.Linear(8, 8, bias=wide)", "weight", 0),
        ("nn.Linear(8, 8)", "bias", 0),
        ("nn.BatchNorm1d(8, track_running_stats=True)", "running_mean", 0),
    ],
)
def test_a_parameter_of_a_layer_that_an_option_leaves_out(layer: str, read: str, count: int):
    assert len(asked(net(f"self.layer = {layer}"), f"self.layer.{read}")) == count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("    if wide:\n        return 2.0\n", 1),
        ("    if wide:\n        return 2.0\n    return\n", 1),
        ("    for each in wide:\n        return each\n", 1),
        ("    try:\n        return read(wide)\n    except OSError:\n        print(wide)\n", 1),
        ("    match wide:\n        case 1:\n            return 2.0\n", 1),
        ("    if wide:\n        return 2.0\n    else:\n        return 1.0\n", 0),
        ("    if wide:\n        return 2.0\n    raise ValueError\n", 0),
        ("    with open(wide):\n        return 2.0\n", 0),
        ("    while True:\n        if wide:\n            return 2.0\n", 0),
        ("    match wide:\n        case 1:\n            return 2.0\n        case _:\n            return 1.0\n", 0),
    ],
)
def test_a_function_that_may_end_without_a_value(body: str, count: int):
    assert len(asked(net("self.gain = made(wide)", above=f"def made(wide):\n{body}"))) == count


@pytest.mark.parametrize(
    ("given", "value", "count"),
    [
        ("gains=()", "torch.tensor(gains)", 1),
        ("gains=[]", "torch.as_tensor(gains)", 1),
        ("size=0", "torch.zeros(size)", 1),
        ("gains=(1.0,)", "torch.tensor(gains)", 0),
        ("gain=0", "torch.tensor(gain)", 0),
        ("gains", "torch.tensor(gains)", 0),
    ],
)
def test_a_tensor_without_elements_by_default(given: str, value: str, count: int):
    assert len(asked(net(f"self.register_buffer('gain', {value})", given=given))) == count


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ("'x gain', defaults=(None,)", 1),
        ("['x', 'gain'], defaults=[None]", 1),
        ("'x, gain', defaults=(None,) * 2", 1),
        ("'gain x', defaults=(None,)", 0),
        ("'x gain'", 0),
    ],
)
def test_a_field_of_a_named_tuple(fields: str, count: int):
    above = f"Config = namedtuple('Config', {fields})\n"
    assert len(asked(net("self.config = wide", above=above), "self.config.gain")) == count


def test_a_name_of_another_module():
    """Files of a project that use each other are read as one text: a name of the other one stands at its top."""
    assert len(asked(net("pass", above="import settings\n") + "gain = None\n", "settings.gain")) == 1
    assert asked(net("pass", above="import settings\n") + "gain = 2.0\n", "settings.gain") == ()
    made = "class Settings:\n    gain: float | None = None\nsettings = Settings(gain=2.0)\n"
    assert len(asked(net("pass", above="from config import settings\n") + made, "settings.gain")) == 1


def test_what_only_the_thread_has_that_sets_it():
    above = "{} = {}()\n{}.gain = 2.0\n"
    assert len(asked(net("pass", above=above.format("held", "threading.local", "held")), "held.gain")) == 1
    assert asked(net("pass", above=above.format("held", "SimpleNamespace", "held")), "held.gain") == ()
    own = net("self.held = local()\nself.held.gain = 2.0")
    assert len(asked(own, "self.held.gain")) == 1
