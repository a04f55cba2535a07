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
    ("code", "read", "before", "asks"),
    [
        (net("self.teacher = weakref.ref(teacher)", given="teacher"), "guide.gain", "guide = self.teacher()", True),
        (net("self.teacher = ref(teacher)", given="teacher"), "self.teacher().gain", "pass", True),
        (net("self.teacher = Teacher()", given=""), "guide.gain", "guide = self.teacher()", False),
        (net("pass", above="GAIN = ContextVar('gain')\n"), "gain", "gain = GAIN.get()", True),
        (net("pass", above="GAIN = Setting('gain')\n"), "gain", "gain = GAIN.get()", False),
    ],
)
def test_what_is_gone_or_belongs_to_another_context_has_no_value(code: str, read: str, before: str, asks: bool):
    assert bool(asked(code.replace("        BRANCH", f"        {before}\n        BRANCH"), read)) is asks


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


# Names


SHARED = """\
RATE = 0.5

class Net(Module):
    def forward(self, h, mode, style=None):
        {above}
        BRANCH
        return h
"""


def above(*lines: str) -> str:
    return SHARED.format(above="\n        ".join(lines))


@pytest.mark.parametrize(
    "code",
    [
        above("if style is not None:", "    gain = style * 2"),
        above("if mode:", "    gain = 2", "elif style:", "    gain = 1"),
        above("for layer in self.layers:", "    gain = layer(h)"),
        above("for gain in self.layers:", "    pass"),
        above("while mode > 1:", "    gain = 2", "    mode = mode - 1"),
        above("try:", "    gain = self.gains[mode]", "except KeyError:", "    pass"),
        above("with suppress(KeyError):", "    gain = self.gains[mode]"),
        above("match mode:", "    case 1:", "        gain = 2", "    case 2:", "        gain = 3"),
        above("gain = 2", "if mode:", "    del gain"),
        above("for layer in range(3):", "    if mode:", "        break", "    gain = 2"),
    ],
)
def test_a_name_that_not_each_way_binds(code: str):
    (question,) = asked(code, "gain")
    assert question.startswith("Does `gain` have a value in each call? By line ")


@pytest.mark.parametrize(
    "code",
    [
        above("if style is not None:", "    gain = style * 2", "else:", "    gain = 1"),
        above("if mode:", "    gain = 2", "else:", "    raise ValueError"),
        above("if mode:", "    return h", "gain = 2"),
        above("for layer in range(3):", "    gain = layer", "    h = h + gain"),
        above("while True:", "    gain = 2", "    if mode:", "        break"),
        above("try:", "    gain = self.gains[mode]", "except KeyError:", "    gain = 1"),
        above("try:", "    gain = self.gains[mode]", "except KeyError:", "    raise", "finally:", "    mode = 1"),
        above("with self.lock:", "    gain = 2"),
        above("match mode:", "    case 1:", "        gain = 2", "    case _:", "        gain = 3"),
        above("gain: float = 2"),
        above("first, (gain, *rest) = mode"),
        above("if (gain := mode) > 1:", "    pass"),
        above("import gain"),
        above("from rates import slow as gain"),
        above("def gain(): pass"),
        above("if mode:", "    gain = 2").replace("return h", "return h * gain"),  # each call reads it anyhow
    ],
)
def test_a_name_that_each_way_binds(code: str):
    assert asked(code, "gain") == ()


GUARDED = """\
def forward(h, style=None):
    if style is not None:
        gain = style * 2
    if {test}:
        {line}
    return h
"""


@pytest.mark.parametrize(("test", "count"), [("style is not None", 0), ("h.is_cuda", 1)])
def test_the_test_around_a_name_may_say_that_it_is_bound(test: str, count: int):
    branch, select = "h = h * gain if h.norm() > 3 else h", "h = torch.where(h.norm() > 3, h * gain, h)"
    texts = (GUARDED.format(test=test, line=line) for line in (branch, select))
    assert len(absent_values(*texts)) == count


CLOSURE = """\
def stepper(layer, mode):
    {above}

    def step(h):
        BRANCH
        return h

    return step
"""


@pytest.mark.parametrize(
    ("bound", "count"), [("if mode: gain = 2", 1), ("gain = 2", 0), ("gain = 2 if mode else 1", 0)]
)
def test_a_name_of_the_function_around(bound: str, count: int):
    assert len(asked(CLOSURE.format(above=bound), "gain")) == count


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("if os.environ.get('TINY') is None:\n    GAIN = 2.0\n", 1),
        ("if __name__ == '__main__':\n    GAIN = 2.0\n", 1),
        ("try:\n    from rates import GAIN\nexcept ImportError:\n    pass\n", 1),
        ("def configure(gain):\n    global GAIN\n    GAIN = gain\n", 1),
        ("try:\n    from rates import GAIN\nexcept ImportError:\n    GAIN = 1.0\n", 0),
        ("GAIN = 1.0\ndef configure(gain):\n    global GAIN\n    GAIN = gain\n", 0),
        ("from rates import *\nif GAIN:\n    GAIN = 2.0\n", 0),
        ("if TINY:\n    GAIN = 2.0\nelse:\n    GAIN = 1.0\n", 0),
    ],
)
def test_a_name_of_the_file(code: str, count: int):
    assert len(asked(code + above("pass"), "GAIN")) == count


# Options of a command line


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("parser.add_argument('--gain', type=float)", 1),
        ("parser.add_argument('-g', '--gain', default=None)", 1),
        ("parser.add_argument('-g', dest='gain', type=float)", 1),
        ("parser.add_argument('gain', nargs='?')", 1),
        ("parser.add_option('--gain', type='float')", 1),
        ("click.option('--gain', type=float)", 1),
        ("parser.add_argument('--gain', type=float, default=1.0)", 0),
        ("parser.add_argument('--gain', type=float, required=True)", 0),
        ("parser.add_argument('--gain', action='store_true')", 0),
        ("parser.add_argument('gain', type=float)", 0),
        ("parser.add_argument('--other-gain', type=float)", 0),
    ],
)
def test_an_option_without_a_default(made: str, count: int):
    code = net("self.gain = args.gain", given="args") + f"def options(parser):\n    {made}\n"
    assert len(asked(code)) == count


# Layers that something else chooses


TABLE = "NORMS = {'batch': nn.BatchNorm1d, 'none': nn.Identity}\n"
FACTORY = "def made(kind):\n    if kind:\n        return nn.BatchNorm1d(8)\n    return nn.Identity()\n"


@pytest.mark.parametrize(
    ("constructor", "given", "top", "read", "count"),
    [
        ("self.norm = NORMS[kind](8)", "kind", TABLE, "self.norm.running_mean", 1),
        ("self.norm = made(kind)", "kind", FACTORY, "self.norm.running_mean", 1),
        ("self.norm = norm", "norm", "", "self.norm.bias", 1),
        ("self.norm = norm(8)", "norm=nn.BatchNorm1d", "", "self.norm.weight", 1),
        ("self.norm = nn.BatchNorm1d(8)", "dim", "", "self.norm.running_mean", 0),
        ("self.norm = norm", "norm", "", "self.norm.shape", 0),
    ],
)
def test_a_layer_that_something_else_chooses(constructor: str, given: str, top: str, read: str, count: int):
    assert len(asked(net(constructor, given=given, above=top), read)) == count


# Attributes that other objects get from outside


KEPT = "self.stats = Stats()"
STATS = "class Stats:\n    def __init__(self):\n        {}\n\n"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        (net(KEPT, rest="    def fit(self, x):\n        self.stats.gain = x.mean()\n\n"), 1),
        (net(KEPT) + "def fitted(net, x):\n    net.stats.gain = x.mean()\n    return net\n", 1),
        (net(f"{KEPT}; self.stats.gain = 1.0", rest="    def fit(self, x):\n        self.stats.gain = x\n\n"), 0),
        (net(f"{KEPT}; self.fit(1)", rest="    def fit(self, x):\n        self.stats.gain = x\n\n"), 0),
        (net(KEPT, above=STATS.format("self.gain = 1.0")) + "def fitted(net, x):\n    net.stats.gain = x\n", 0),
        (net("self.stats = stats", given="stats") + "stats = Stats()\nstats.gain = 1.0\n", 0),
        (net("self.stats = stats", given="stats", rest="    def fit(self, x):\n        self.stats.gain = x\n\n"), 0),
        (net("self.stats = made()") + "def made():\n    stats = Stats()\n    stats.gain = 1.0\n    return stats\n", 0),
    ],
)
def test_an_attribute_that_only_a_later_call_sets(code: str, count: int):
    assert len(asked(code, "self.stats.gain")) == count


DECORATOR = """\
def clipped(forward):
    def wrapped(self, h):
        BRANCH
        return h
    return wrapped

class Net(Module):
    gain = 2.0

    @clipped
    def forward(self, h):
        return h

class Calm(Module):
    {}

    @clipped
    def forward(self, h):
        return h
"""


@pytest.mark.parametrize(("body", "count"), [("rate = 1.0", 1), ("gain = 1.0", 0)])
def test_a_decorator_reads_an_attribute_of_each_class_that_it_decorates(body: str, count: int):
    assert len(asked(DECORATOR.format(body))) == count


# Containers that something fills later, layers in containers, arguments of helpers, files of settings


FIT = "    def fit(self, x):\n        self.gains{}\n\n"


@pytest.mark.parametrize(
    ("constructor", "filled", "read", "count"),
    [
        ("self.gains = []", ".append(x.mean())", "self.gains[-1]", 1),
        ("self.gains = {}", "['first'] = x.mean()", "self.gains['first']", 1),
        ("self.gains = nn.ModuleList()", ".append(x)", "self.gains[0].weight", 1),
        ("self.gains = []; self.gains.append(1.0)", ".append(x.mean())", "self.gains[-1]", 0),
        ("self.gains = {}; self.gains['first'] = 1.0", "['first'] = x.mean()", "self.gains['first']", 0),
        ("self.gains = []; self.fit(gain)", ".append(x.mean())", "self.gains[-1]", 0),
        ("self.gains = [1.0, 2.0]", ".append(x.mean())", "self.gains[-1]", 0),
    ],
)
def test_a_container_that_only_a_later_call_fills(constructor: str, filled: str, read: str, count: int):
    assert len(asked(net(constructor, rest=FIT.format(filled)), read)) == count


MAKER = "def made(dim, learn=True):\n    return nn.LayerNorm(dim, elementwise_affine=learn)\n\n"
NORMS = """\
class Net(Module):
    def __init__(self, affine=True):
        self.norms = nn.ModuleList({})

    def forward(self, h):
        for norm in self.norms:
            h = norm(h)
        BRANCH
        return h
"""


@pytest.mark.parametrize(
    ("code", "read", "count"),
    [
        (NORMS.format("nn.LayerNorm(8, elementwise_affine=affine) for _ in range(2)"), "norm.weight", 1),
        (NORMS.format("[nn.LayerNorm(8, elementwise_affine=affine)]"), "norm.weight", 1),
        (NORMS.format("[nn.LayerNorm(8, elementwise_affine=affine)]"), "self.norms[0].weight", 1),
        (NORMS.format("nn.LayerNorm(8) for _ in range(2)"), "norm.weight", 0),
        (NORMS.format("[nn.LayerNorm(8)]"), "self.norms[0].weight", 0),
        (net("self.norm = made(8, learn)", given="learn=True", above=MAKER), "self.norm.weight", 1),
        (net("self.norm = made(8)", above=MAKER.replace("learn)", "True)")), "self.norm.weight", 0),
    ],
)
def test_a_parameter_of_a_layer_in_a_container_or_from_a_function(code: str, read: str, count: int):
    found = asked(code, read)
    assert len([each for each in found if f"`{read}`" in each]) == count


HELPER = """\
def scaled(h, gain):
        BRANCH
        return h

class Net(Module):
    def __init__(self, wide=True):
        self.gain = {}

    def forward(self, h):
        return scaled(h, self.gain)
"""


STATIC = """\
class Net(Module):
    def __init__(self, wide=True):
        self.gain = {}

    @staticmethod
    def scaled(h, gain):
        BRANCH
        return h

    def forward(self, h):
        return self.scaled(h, self.gain)
"""


@pytest.mark.parametrize(("gain", "count"), [("0.5 if wide else None", 1), ("0.5", 0)])
def test_an_argument_of_a_static_method(gain: str, count: int):
    assert len(asked(STATIC.format(gain), "gain")) == count


@pytest.mark.parametrize(("gain", "count"), [("0.5 if wide else None", 1), ("0.5", 0), ("0.5 if wide else 1.0", 0)])
def test_an_argument_that_may_be_none_where_a_method_passes_it(gain: str, count: int):
    assert len(asked(HELPER.format(gain), "gain")) == count


READ = "def read(path):\n    found = Namespace()\n    for name, value in lines(path):\n        setattr(found, name, value)\n    return found\n\n"


@pytest.mark.parametrize(
    ("code", "read", "count"),
    [
        (net("self.gain = given['gain']", given="given") + "net = Net(json.loads(text))\n", "self.gain", 1),
        (net("self.gain = given['net']['gain']", given="given") + "net = Net(safe_load(text))\n", "self.gain", 1),
        (net("self.given = given", given="given") + "n = Net(Namespace(**json.load(f)))\n", "self.given.gain", 1),
        (net("self.given = given", given="given") + "n = Net(read('a'))\n" + READ, "self.given.gain", 1),
        (net("self.given = Namespace(**{**PLAIN, **given})", given="**given"), "self.given.gain", 1),
        (net("self.gain = gain") + "net = Net(**json.loads(text))\n", "self.gain", 1),
        (net("self.gain = gain") + "def made(f):\n    given = json.load(f)\n    return Net(**given)\n", "self.gain", 1),
        (
            net(
                "self.gain = gain",
                rest="    @classmethod\n    def read(cls, f):\n        return cls(**json.load(f))\n\n",
            ),
            "self.gain",
            1,
        ),
        (net("self.gain = gain", given="gain: float") + "net = Net(**json.loads(text))\n", "self.gain", 0),
        (net("self.gain = gain") + "net = Net(**{'gain': 0.5})\n", "self.gain", 0),
        (net("self.gain = float(given['gain'])", given="given") + "net = Net(json.loads(text))\n", "self.gain", 0),
        (net("self.gain = given['gain']", given="given") + "net = Net({'gain': 0.5})\n", "self.gain", 0),
        (net("self.given = given", given="given") + "net = Net(Namespace(gain=0.5))\n", "self.given.gain", 0),
        (
            net("self.given = given", given="given", above="class Given:\n    gain: float = 0.5\n\n")
            + "net = Net(Given(**json.load(f)))\n",
            "self.given.gain",
            0,
        ),
    ],
)
def test_a_field_of_settings_that_a_file_has(code: str, read: str, count: int):
    assert len(asked(code, read)) == count


PARTS = "def stats(kind):\n    if kind:\n        return 0.5, 0.1\n    return None, 0.1\n\n"


@pytest.mark.parametrize(
    ("code", "read", "count"),
    [
        (net("pass", above="GAIN = 0.5 if wide else None\n"), "GAIN", 1),
        (net("pass", above="GAIN = os.environ.get('GAIN')\n"), "GAIN", 1),
        (net("pass", above="GAIN = 0.5 if wide else 1.0\n"), "GAIN", 0),
        (net("self.gain = gain", given="gain=GAIN", above="GAIN = None\n"), "self.gain", 1),
        (net("self.gain = gain", given="gain=GAIN", above="GAIN = 0.5\n"), "self.gain", 0),
        (net("self.gain, self.dim = stats(gain)", above=PARTS), "self.gain", 1),
        (net("self.dim, self.gain = stats(gain)", above=PARTS), "self.gain", 0),
    ],
)
def test_a_none_by_way_of_a_name_or_of_a_tuple(code: str, read: str, count: int):
    assert len(asked(code, read)) == count


def test_what_torch_has_is_there_whatever_class_of_the_file_has_getattr():
    above = "import torch\nclass Config(dict):\n    def __getattr__(self, name):\n        return self[name]\n\n"
    assert not asked(net("self.gain = 2.0", above=above), "torch.pi")
