"""Which values a change reads in more calls than before, and may be None or missing there."""

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
    return absent_values(*(code.replace("        BRANCH\n", text.format(read=read)) for text in (BRANCH, SELECT)))


def net(constructor: str, *, given: str = "gain", rest: str = "", above: str = "") -> str:
    return (
        f"{above}class Net(Module):\n    def __init__(self, {given}):\n        {constructor}\n\n"
        f"{rest}    def forward(self, h):\n        BRANCH\n        return h\n"
    )


@pytest.mark.parametrize(
    "code",
    [
        net("self.gain = None", rest="    def fit(self, x):\n        self.gain = x.mean()\n\n"),
        net("self.gain = gain", given="gain=None"),
        net("self.gain = gain", given="dim, *, gain=None"),
        net("self.gain = gain", given="gain: float | None"),
        net("self.gain = gain", given="gain: 'Optional[float]'"),
        net("self.gain: float | None = gain", given="gain=None"),
        net("self.gain, self.dim = gain, dim", given="dim, gain=None"),
        net("self.register_buffer('gain', gain)", given="gain=None"),
        net("self.gain = torch.empty(0)"),
        net("self.gain = torch.tensor([])"),
        net("self.gain = options.get('gain')", given="options"),
        net("self.gain = getattr(options, 'gain', None)", given="options"),
        net("self.gain = next(iter(options), None)", given="options"),
        net("self.gain = options['gain']", given="options", above="PLAIN = {'gain': None}\n"),
        net("self.gain = gain", above="PLAIN = {'gain': None}\n"),
        net("self.gain = gain") + "plain = Net(None)\n",
        net("self.gain = gain") + "plain = partial(Net, None)\n",
        net("self.gain = gain") + "class Lite(Net):\n    def __init__(self):\n        super().__init__(None)\n",
        net("self.gain = GAINS[mode]", given="mode", above="GAINS = {0: None, 1: 2.0}\n"),
        net("self.gain = made(gain)", above="def made(gain):\n    if gain:\n        return gain\n    return None\n"),
        net("self.gain = gain or None"),
        net("pass", rest="    gain: float | None = 1.0\n"),
        net("pass", rest="    gain = None\n"),
        net("self.options = {}", rest="    def __getattr__(self, name):\n        return self.options[name]\n\n"),
        net("self.gain = gain") + "def off(net):\n    net.gain = None\n",
    ],
)
def test_an_attribute_that_may_be_none_for_another_object(code: str):
    (question,) = asked(code)
    assert question.startswith("Does `self.gain` have a value in each call? By line ")


@pytest.mark.parametrize(
    "code",
    [
        net("self.gain = gain", given="gain=0.5"),
        net("self.gain = gain", given="gain: float"),
        net("self.gain = torch.tensor(0)"),
        net("self.register_buffer('gain', torch.ones(()))"),
        net("self.gain = gain or 1.0", given="gain=None"),
        net("self.gain = options.get('gain', 1.0)", given="options"),
        net("self.gain = gain") + "class Other(Module):\n    def __init__(self):\n        self.gain = None\n",
        net("self.gain = gain") + "other = Other(None)\n",
        net("self.gain = gain", above="def attend(q, gain=None):\n    return q\n"),
        net("self.gain = GAINS[mode]", given="mode", above="GAINS = {0: 1.0, 1: 2.0}\n"),
    ],
)
def test_an_attribute_that_is_there(code: str):
    assert asked(code) == ()


@pytest.mark.parametrize(
    ("above", "is_asked"),
    [
        ("        h = h + self.gain\n", False),
        ("        if self.gain is None:\n            return h\n", False),
        ("        keep(self.gain)\n", True),
        ("        h = h + other.gain\n", True),
    ],
)
def test_what_a_line_above_says(above: str, is_asked: bool):
    code = net("self.gain = gain", given="gain=None").replace("        BRANCH\n", f"{above}        BRANCH\n")
    assert bool(asked(code)) is is_asked


def test_what_both_sides_or_the_condition_read_is_read_as_before():
    code = net("self.gain = gain", given="gain=None")
    both = "        if h.norm() > 3:\n            h = h * self.gain\n        else:\n            h = h + self.gain\n"
    selected = "        h = torch.where(h.norm() > 3, h * self.gain, h + self.gain)\n"
    assert absent_values(*(code.replace("        BRANCH\n", text) for text in (both, selected))) == ()
    test = "        if h.norm() > self.gain:\n            h = h * self.gain\n"
    selected = "        h = torch.where(h.norm() > self.gain, h * self.gain, h)\n"
    assert absent_values(*(code.replace("        BRANCH\n", text) for text in (test, selected))) == ()


@pytest.mark.parametrize(
    "above",
    [
        "class Config(NamedTuple):\n    gain: float | None = None\n",
        "@dataclass\nclass Config:\n    gain: Optional[float] = 1.0\n",
        "plain = Config(gain=None)\n",
        "plain = dict(gain=None)\n",
        "class Config(dict):\n    def __getattr__(self, name):\n        return self[name]\n",
    ],
)
def test_a_field_of_a_configuration(above: str):
    (question,) = asked(net("self.config = config", given="config", above=above), "self.config.gain")
    assert question.startswith("Does `self.config.gain` have a value")
    assert asked(net("self.config = config", given="config"), "self.config.gain") == ()


def test_an_argument_and_a_local_name():
    code = net("pass").replace("self, h)", "self, h, gain=None)")
    assert len(asked(code, "gain")) == 1
    assert not asked(code.replace("gain=None", "gain=1.0"), "gain")
    local = net("pass").replace("        BRANCH\n", "        g = self.table.get('g')\n        BRANCH\n")
    assert len(asked(local, "g")) == 1


def test_a_text_that_is_no_python_is_not_read():
    assert absent_values("if", "if") == ()


# Where another object, or an earlier call, has none

INNER = """\
def make(gain{default}):
    def forward(h):
        BRANCH
        return h
    return forward
"""


@pytest.mark.parametrize(
    ("code", "read"),
    [
        (net("self.dim = gain") + "def attach(net, value):\n    net.gain = value\n", "self.gain"),
        (net("self.dim = gain") + "class Fast(Net):\n    gain = 0.5\n", "self.gain"),
        (
            net("for name, value in given.items():\n            setattr(self, name, value)", given="**given"),
            "self.gain",
        ),
        (net("self.__dict__.update(given)", given="**given"), "self.gain"),
        (net("self.dim = gain", above="GAIN = None\n"), "GAIN"),
        (INNER.format(default="=None").replace("        BRANCH", "        BRANCH"), "gain"),
        (
            net(
                "self.options = options",
                given="options",
                above="class Options:\n    gain: float = field(default=None)\n",
            ),
            "self.options.gain",
        ),
    ],
)
def test_what_another_object_may_not_have(code: str, read: str):
    (question,) = asked(code, read)
    assert f"`{read}`" in question


LOOP = """\
class Net(Module):
    def __init__(self, gains):
        self.gains = {gains}

    def parts(self):
        if self.dim:
            return None, 1
        return 0.5, 1

    def forward(self, h):
        {bound}
        BRANCH
        return h
"""


@pytest.mark.parametrize(
    ("gains", "bound", "count"),
    [
        ("[None if each else 1.0 for each in gains]", "for layer, gain in zip(self.layers, self.gains): pass", 1),
        ("[None, 1.0]", "for at, gain in enumerate(self.gains): pass", 1),
        ("[None, 1.0]", "for gain in self.gains: pass", 1),
        ("[2.0, 1.0]", "for gain in self.gains: pass", 0),
        ("[2.0, 1.0]", "for gain, layer in zip(self.gains, self.gains): pass", 0),
        ("[2.0, 1.0]", "for layer, gain in zip(self.layers, self.gains): pass", 1),  # there may be no layers
        ("[]", "gain, _ = self.parts()", 1),
        ("[]", "_, gain = self.parts()", 0),
    ],
)
def test_one_of_several_values(gains: str, bound: str, count: int):
    assert len(asked(LOOP.format(gains=gains, bound=bound), "gain")) == count


@pytest.mark.parametrize(
    ("code", "read"),
    [
        (net("self.gain = 2.0") + "def attach(net, value):\n    net.gain = value\n", "self.gain"),
        (net("self.gain = 2.0") + "class Fast(Net):\n    gain = 0.5\n", "self.gain"),
        (net("self.dim = gain", above="class Base:\n    gain = 0.5\n").replace("Module", "Base"), "self.gain"),
        (net("self.dim = gain").replace("Module", "Pretrained") + "class Fast(Net):\n    gain = 0.5\n", "self.gain"),
        (net("self.dim = gain"), "self.gain"),
        (net("self.dim = gain", above="GAIN = 2.0\n"), "GAIN"),
        (INNER.format(default=""), "gain"),
        (INNER.format(default="=None").replace("        BRANCH", "        gain = 2.0\n        BRANCH"), "gain"),
    ],
)
def test_what_each_object_has(code: str, read: str):
    assert asked(code, read) == ()
