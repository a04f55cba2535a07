"""What the user wrote at a place, from the text of a file."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.source.constructs import Construct, construct_at
from tests.support.helpers import fuzzing


def look(body: str, piece: str, *, columns: bool = True) -> Construct:
    """Find the construct in a function's body, with torch's columns of its first line or without columns."""
    text = f"def forward(self, x):\n{textwrap.indent(body, '    ')}\n"
    before, line = text[: text.index(piece)], piece.partition("\n")[0]
    begin = len(before.rpartition("\n")[2].lstrip())
    return construct_at(text, before.count("\n") + 1, (begin, begin + len(line)) if columns else None)


@pytest.mark.parametrize(
    ("body", "piece", "kind"),
    [
        ("if x.sum() > 0:\n    x = -x", "x.sum() > 0", "if"),
        ("if not x.any():\n    x = -x", "x.any()", "if"),
        ("if self.training and x.any():\n    x = -x", "x.any()", "if"),
        ("if self.flag:\n    pass\nelif x.any():\n    x = -x", "x.any()", "if"),
        ("if x.isnan().any():\n    raise ValueError", "x.isnan().any()", "check"),
        ("if x.isnan().any():\n    y = x\n    raise ValueError(y)", "x.isnan().any()", "check"),
        ("while x.sum() < 9:\n    x = x + 1", "x.sum() < 9", "while"),
        ("assert x.sum() > 0, 'no'", "x.sum() > 0", "assert"),
        ("return x if x.sum() > 0 else -x", "x.sum() > 0", "ternary"),
        ("print(x)", "print(x)", "print"),
        ("y = print(x) or x", "print(x)", "print"),
        ("print(x), print(y)", "print(x), print(y)", "print"),
        ("print(x), log.info(y)", "print(x), log.info(y)", ""),
        ("y = float(x), float(z)", "float(x), float(z)", ""),
        ("logger.info('%s', x)", "logger.info('%s', x)", "log"),
        ("self.log.debug(x)", "self.log.debug(x)", "log"),
        ("logging.warning(x)", "logging.warning(x)", "log"),
        ("logging.getLogger(__name__).error(x)", "logging.getLogger(__name__).error(x)", "log"),
        ("self._train_logger.warning_once(x)", "self._train_logger.warning_once(x)", "log"),
        ("self.catalog.info(x)", "self.catalog.info(x)", ""),
        ("pprint.pprint(x)", "pprint.pprint(x)", ""),
        ("warnings.warn('slow')", "warnings.warn('slow')", "warn"),
        ("warn('slow')", "warn('slow')", "warn"),
        ("start = time.perf_counter()", "time.perf_counter()", "clock"),
        ("start = monotonic()", "monotonic()", "clock"),
        ("y = float(x.sum())", "float(x.sum())", "cast"),
        ("if bool(x.any()):\n    x = -x", "bool(x.any())", "cast"),
        ("y = f'{x}'", "f'{x}'", "format"),
        ("y = NAMES[i]", "NAMES[i]", "index"),
        ("y = self.acts[i](x)", "self.acts[i](x)", "index"),
        ("y = x[:, :n]", "x[:, :n]", ""),
        ("y = x[0]", "x[0]", ""),
    ],
)
def test_what_it_is(body: str, piece: str, kind: str):
    found = look(body, piece)
    assert (found.kind, found.expression) == (kind, piece)


@pytest.mark.parametrize(
    ("body", "piece"),
    [
        ("y = x.item()", "x.item()"),
        ("if self.training:\n    y = x.item()", "x.item()"),
        ("while self.training:\n    y = x.item()", "x.item()"),
        ("assert self.training, x.item()", "x.item()"),
        ("return x.item() if self.training else 0", "x.item()"),
        ("self.print(x)", "self.print(x)"),
        ("y = x.log()", "x.log()"),
        ("y = x.float()", "x.float()"),
        ("y = clock.time()", "clock.time()"),
        ("y = lambda: x.item()", "x.item()"),
        ("if self.any(lambda: 1):\n    return x.item()", "x.item()"),
    ],
)
def test_most_code_is_nothing_special(body: str, piece: str):
    found = look(body, piece)
    assert (found.kind, found.expression) == ("", piece)


@pytest.mark.parametrize(
    ("body", "kind", "expression"),
    [
        ("if x.sum() > 0:\n    x = -x", "if", "x.sum() > 0"),
        ("if x.isnan().any():\n    raise ValueError", "check", "x.isnan().any()"),
        ("while x.sum() < 9:\n    x = x + 1", "while", "x.sum() < 9"),
        ("assert x.sum() > 0, 'no'", "assert", "x.sum() > 0"),
        ("print(x)", "print", "print(x)"),
        ("y = float(x)", "cast", "float(x)"),
        ("y += x.item()", "", "x.item()"),
        ("y: float = x.item()", "", "x.item()"),
        ("return x.item()", "", "x.item()"),
        ("for v in x.tolist():\n    pass", "", "x.tolist()"),
        ("with open(x) as file, self.lock:\n    pass", "", "open(x)"),
        ("import fast", "import", ""),
        ("from fast import kernel", "import", ""),
        ("raise ValueError(x)", "", ""),
        ("y: float", "", ""),
    ],
)
def test_without_columns_it_is_the_part_that_decides_or_acts(body: str, kind: str, expression: str):
    found = look(body, body.partition("\n")[0], columns=False)
    assert (found.kind, found.expression) == (kind, expression)


@pytest.mark.parametrize(
    ("body", "piece"),
    [
        ("if x.any(): x = -x", "x.any()"),
        ("print(1); y = x.item()", "x.item()"),
        ("for v in x: v.item()", "v.item()"),
        ("y = [x.item(), x.sum().item()]", "x.sum().item()"),
        ("y = f(k=x.item())", "x.item()"),
        ('print("größe", 1); y = x.item()', "x.item()"),
        ('y = {"🙂": x.item(), "字": 1}', "x.item()"),
        ("größe = x.item()", "x.item()"),
        ("if self.on:\n\ty = x.item()", "x.item()"),
    ],
)
def test_columns_tell_what_else_is_in_the_line(body: str, piece: str):
    line = next(line.strip() for line in body.splitlines() if piece in line)
    found = look(body, piece)
    assert found.expression == piece
    assert found.span is not None
    assert line[slice(*found.span)] == piece


def test_an_update_by_a_constant_is_shown_whole():
    """Python 3.11 places the addition of `x += 1` at the 1."""
    assert look("Clip.calls += 1", "1").expression == "Clip.calls += 1"
    assert look("Clip.calls += f(1)", "f(1)").expression == "f(1)"


def test_torchs_columns_may_reach_beyond_a_condition():
    found = look("if x.sum() > 0: x = -x", "x.sum() > 0:")
    assert (found.kind, found.expression) == ("if", "x.sum() > 0")


@pytest.mark.parametrize(
    ("branches", "kind", "expression"),
    [(True, "ternary", "x.any()"), (False, "", "x if x.any() else -x")],
)
def test_where_python_branches_a_conditional_expression_means_its_condition(branches: bool, kind: str, expression: str):
    text = "def forward(x):\n    return x if x.any() else -x\n"
    found = construct_at(text, 2, None, branches=branches)
    assert (found.kind, found.expression) == (kind, expression)


def test_a_statement_on_several_lines_is_one():
    body = "y = f(\n    x,\n    x.item(),\n)"
    assert look(body, "x.item()").expression == "x.item()"
    for line in ("y = f(", "x.item()"):
        found = look(body, line, columns=False)
        assert (found.expression, found.span) == ("f( x, x.item(), )", None)


def test_a_condition_below_its_if():
    body = "if (\n    x.sum()\n    > 0\n):\n    pass"
    assert look(body, "x.sum()").kind == "if"
    assert look(body, "if (", columns=False).expression == ""


def test_the_columns_of_a_piece_without_any_are_those_of_the_expression():
    assert look("y = x.item()", "y = x.item()", columns=False).span == (4, 12)


def test_a_long_expression_is_cut():
    expression = look(f"y = {' + '.join(['x.item()'] * 9)}", "y", columns=False).expression
    assert len(expression) == 60
    assert expression.endswith("…")


@pytest.mark.parametrize(
    ("body", "piece", "around"),
    [
        ("f(x)", "f(x)", ()),
        ("if self.on:\n    f(x)", "f(x)", ()),
        ("for v in x:\n    f(v)", "f(v)", ("for",)),
        ("for v in x:\n    pass\nelse:\n    f(x)", "f(x)", ("for",)),
        ("while self.on:\n    f(x)", "f(x)", ("while",)),
        ("while f(x):\n    pass", "f(x)", ("while",)),
        ("try:\n    f(x)\nexcept OSError:\n    pass", "f(x)", ("try",)),
        ("try:\n    pass\nexcept OSError:\n    f(x)", "f(x)", ("try",)),
        ("try:\n    pass\nfinally:\n    f(x)", "f(x)", ("try",)),
        ("try:\n    f(x)\nexcept* OSError:\n    pass", "f(x)", ("try",)),
        ("with self.lock:\n    f(x)", "f(x)", ("with",)),
        ("y = [f(v) for v in x]", "f(v)", ("comprehension",)),
        ("y = {f(v) for v in x}", "f(v)", ("comprehension",)),
        ("y = {v: f(v) for v in x}", "f(v)", ("comprehension",)),
        ("y = [v for v in x if f(v)]", "f(v)", ("comprehension",)),
        ("y = [[f(w) for w in v] for v in x]", "f(w)", ("comprehension", "comprehension")),
        ("y = sum(f(v) for v in x)", "f(v)", ("generator",)),
        ("for v in x:\n    with self.lock:\n        f(v)", "f(v)", ("with", "for")),
        ("for v in x:\n    if v:\n        f(v)", "f(v)", ("for",)),
    ],
)
def test_what_is_around(body: str, piece: str, around: tuple[str, ...]):
    assert look(body, piece).around == around


@pytest.mark.parametrize(
    ("body", "piece"),
    [
        ("for v in f(x):\n    pass", "f(x)"),
        ("with f(x):\n    pass", "f(x)"),
        ("with self.lock, f(x) as y:\n    pass", "f(x)"),
    ],
)
@pytest.mark.parametrize("columns", [True, False])
def test_the_head_of_a_block_is_not_inside_of_it(body: str, piece: str, columns: bool):
    assert look(body, piece, columns=columns).around == ()
    inner = textwrap.indent(body, "    ")
    assert look(f"for w in x:\n{inner}", piece, columns=columns).around == ("for",)


@pytest.mark.parametrize(
    ("body", "piece"),
    [
        ("for v in x:\n    def inner():\n        f(v)", "f(v)"),
        ("for v in x:\n    async def inner():\n        f(v)", "f(v)"),
        ("for v in x:\n    class Inner:\n        f(v)", "f(v)"),
        ("for v in x:\n    self.apply(lambda: f(v))", "f(v)"),
    ],
)
def test_blocks_end_at_the_function(body: str, piece: str):
    assert look(body, piece).around == ()


TEXT = "import torch\n\n@torch.compile\ndef forward(x):\n    # why\n    return x\n"


@pytest.mark.parametrize("line", [0, -1, 2, 7, 10**9])
def test_a_line_without_code_is_nothing(line: int):
    assert construct_at(TEXT, line, None) == construct_at(TEXT, line, (0, 3)) == Construct()


@pytest.mark.parametrize("line", [4, 5])
def test_the_head_of_a_function_and_a_comment_have_no_expression(line: int):
    assert construct_at(TEXT, line, None) == Construct()


@pytest.mark.parametrize("text", ["", "\n", "def f(x:\n", "print 'x'\n", "x\0", "\ud800", "(" * 1000, "not " * 20_000])
def test_text_that_does_not_parse_is_nothing(text: str):
    assert construct_at(text, 1, None) == construct_at(text, 1, (0, 3)) == Construct()


PIECES = (
    "def f(x):", "    if x.sum() > 0: return", "    for v in g(", "        x):", "        print(v)", "    try:",
    "    except* OSError as e:", "    finally:", "    with a as b, c:", "    y = [w.item() for w in x if w]", "    match x:",
    "        case [1, *_]: pass", "    é = lambda: (yield)", "    return f'{x!r:>{9}}'", "\tassert x, '🙂'", "", "    x: int",
    "@g", "async def h(*a, k=1):", "    async with a: await b", "    async for v in x: pass", "class C(B, k=f(1)):", "\f",
    '    """', "    \\", "    )", "    # note", "    logging.getLogger('a').info(1)", "    import a.b as c", "    del x",
)  # fmt: skip


@fuzzing
@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map("\n".join) | st.text(max_size=40),
    st.integers(-1, 9),
    st.none() | st.tuples(st.integers(-3, 40), st.integers(-3, 40)),
)
def test_any_place_in_any_text_is_no_error(text: str, line: int, span: tuple[int, int] | None):
    found = construct_at(text, line, span)
    assert len(found.expression) <= 60
    assert found.span is None or found.span[0] <= found.span[1]


@pytest.mark.parametrize("name", ["for", "while", "try", "with"])
@fuzzing
@given(line=st.integers(1, 9), span=st.none() | st.tuples(st.integers(0, 30), st.integers(0, 30)))
def test_any_place_in_sound_code_is_no_error(name: str, line: int, span: tuple[int, int] | None):
    head = {"for": "for v in x:", "while": "while x:", "try": "try:", "with": "with x as v:"}[name]
    tail = "    finally: x.item()\n" if name == "try" else ""
    text = f"class Net:\n  def forward(self, x):\n    {head}\n        y = [f(\n  w) for w in x]\n{tail}    print(x)\n"
    assert set(construct_at(text, line, span).around) <= {name, "comprehension"}


BODY = """\
for y in x:
    if y.sum() > 0: out.append(y)
while x.any(): x = x - 1
z = x * x.sum().item() + 2 if x.max() > 1 else 3
w = x.item() + y.item()
"""


@pytest.mark.parametrize(
    ("line", "kind", "expression"),
    [(2, "if", "y.sum() > 0"), (3, "while", "x.any()"), (4, "ternary", "x.max() > 1"), (5, "", "x.item() + y.item()")],
)
def test_a_branch_without_columns_is_the_condition_of_its_line(line: int, kind: str, expression: str):
    found = construct_at(BODY, line, None, branches=True)
    assert (found.kind, found.expression) == (kind, expression)


@pytest.mark.parametrize(
    ("line", "callee", "expression"),
    [
        (4, "item", "x.sum().item()"),
        (5, "item", "x.item() + y.item()"),
        (2, "append", "out.append(y)"),
        (5, "", "x.item() + y.item()"),
    ],
)
def test_a_call_without_columns_is_the_only_one_of_its_name(line: int, callee: str, expression: str):
    assert construct_at(BODY, line, None, callee=callee).expression == expression


def test_columns_that_reach_beyond_the_condition_are_cut():
    # Torch's columns of a branch extend to the end of the executed code (2.13).
    found = construct_at("if x.sum() > 0: x = x / 2\n", 1, (3, 25))
    assert (found.kind, found.expression, found.span) == ("if", "x.sum() > 0", (3, 14))


@pytest.mark.parametrize(
    ("line", "callee", "expression", "kind"),
    [
        ("self.dt = time.perf_counter() - start", "perf_counter", "time.perf_counter()", "clock"),
        ("scale = x.abs().max().item() / 127", "item", "x.abs().max().item()", ""),
        ("twice = x.item() + x.item()", "item", "x.item() + x.item()", ""),
        ("low = x.item() < 3", "other", "x.item() < 3", ""),
    ],
)
def test_columns_that_extend_to_an_operation_on_the_result_are_those_of_the_call(line, callee, expression, kind):
    begin = line.index("= ") + 2
    found = construct_at(f"{line}\n", 1, (begin, len(line)), callee=callee)
    assert (found.expression, found.kind) == (expression, kind)


COMPUTED = """def forward(self, x, mode):
    y = self.net(x)
    n = 3
    key = {expression}
    z = self.net(x)
    return key
"""


@pytest.mark.parametrize(
    ("expression", "names", "is_constant"),
    [
        ("str(y.sum().item())[:3]", ("y",), False),
        ("str(x.sum().item())", (), False),
        ("str(mode)", (), False),
        ("str(n)", (), True),
        ("str(z)", (), True),  # assigned later
        ("pack(self.embed(x), mode)", ("self.embed(x)",), False),
        ("self.match(x)", (), False),
        ("crc32(b'abc')", (), True),
    ],
)
def test_what_an_expression_needs_of_what_its_function_computes(expression, names, is_constant):
    found = construct_at(COMPUTED.format(expression=expression), 4, (6, 6 + len(expression)))
    assert (found.needs, found.is_constant) == (names, is_constant)
