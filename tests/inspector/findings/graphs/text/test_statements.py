"""Statements of nodes, as torch writes them."""

import pytest

from ctrace.inspector.findings.graphs.text.fx import Kind
from ctrace.inspector.findings.graphs.text.statements import Call, call, placeholder, statement

FUNCTION = Kind.CALL_FUNCTION
KNOWN = {"x", "y", "q", "split", "l_x_"}


def _call(text: str) -> tuple[str, Call | None]:
    parts = statement(text)
    assert parts is not None
    return parts.name, call(parts, KNOWN)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (
            'mm: "f32[2, 3][3, 1]cpu" = torch.ops.aten.mm.default(x, y);  x = y = None',
            "mm",
            Call(FUNCTION, "torch.ops.aten.mm.default", "x, y"),
        ),
        ('q_1: "f32[2]" = x.view(-1, 4);  x = None', "q_1", Call(Kind.CALL_METHOD, "view", "x, -1, 4")),
        ('t: "f32[2]" = x.relu()', "t", Call(Kind.CALL_METHOD, "relu", "x")),
        ('m: "f32[2]" = q @ y', "m", Call(FUNCTION, "operator.matmul", "q, y")),
        ('d: "f32[2]" = q / 5.65', "d", Call(FUNCTION, "operator.truediv", "q, 5.65")),
        ('p: "f32[2]" = x ** 2', "p", Call(FUNCTION, "operator.pow", "x, 2")),
        ('c: "b8[2]" = x >= -1', "c", Call(FUNCTION, "operator.ge", "x, -1")),
        ('n: "f32[2]" = -x', "n", Call(FUNCTION, "operator.neg", "x")),
        ('i: "b8[2]" = ~x', "i", Call(FUNCTION, "operator.invert", "x")),
        ('g: "f32[2]" = split[0];  split = None', "g", Call(FUNCTION, "operator.getitem", "split, 0")),
        (
            'g: "f32[2]" = x[(slice(1, None, None), Ellipsis)]',
            "g",
            Call(FUNCTION, "operator.getitem", "x, (slice(1, None, None), Ellipsis)"),
        ),
        ('l_x_ += 1;  iadd: "f32[1][1]cpu" = l_x_;  l_x_ = None', "iadd", Call(FUNCTION, "operator.iadd", "l_x_, 1")),
        (
            "x[(slice(1, None, None), 0)] = y;  setitem = x;  x = setitem = None",
            "setitem",
            Call(FUNCTION, "operator.setitem", "x, (slice(1, None, None), 0), y"),
        ),
        ("true_graph_0 = self.true_graph_0", "true_graph_0", Call(Kind.GET_ATTR, "true_graph_0")),
        ('w: "f32[2]" = getattr(self.layers, "0").weight', "w", Call(Kind.GET_ATTR, "layers.0.weight")),
        ('w: "f32[2]" = getattr(getattr(self, "0"), "1")', "w", Call(Kind.GET_ATTR, "0.1")),
        ('o: "f32[2]" = getattr(self.layers, "0")(x, y)', "o", Call(Kind.CALL_MODULE, "layers.0", "x, y")),
        ('o: "f32[2]" = self.fc(x)', "o", Call(Kind.CALL_MODULE, "fc", "x")),
        ('t: "f32[2]" = x.T', "t", Call(FUNCTION, "getattr", "x, 'T'")),
        ("size : torch.Size = x.size()", "size", Call(Kind.CALL_METHOD, "size", "x")),
        ('s: "Sym(s77*2)" = q * 2', "s", Call(FUNCTION, "operator.mul", "q, 2")),
        ("e = enter('cpu', ';  x = None', [1, 2])", "e", Call(FUNCTION, "enter", "'cpu', ';  x = None', [1, 2]")),
        ('f: "f32[]" = torch.full((2,), nan)', "f", Call(FUNCTION, "torch.full", "(2,), nan")),
    ],
)
def test_calls(text: str, name: str, expected: Call) -> None:
    assert _call(text) == (name, expected)


@pytest.mark.parametrize(
    "text", ["x = ", "x = <object at 0x1>", "x = torch.f(y", "x = f(y) garbage", "x = self.", "x = ("]
)
def test_what_cannot_be_told_is_none(text: str) -> None:
    parts = statement(text)
    assert parts is None or call(parts, KNOWN) is None


@pytest.mark.parametrize("text", ["", "x", "class A:", "1 = 2", "x += ", "..."])
def test_what_is_no_statement(text: str) -> None:
    parts = statement(text)
    assert parts is None or call(parts, KNOWN) is None


def test_placeholders() -> None:
    parts = placeholder('L_x_: "f32[2]" = None')
    assert parts is not None
    assert (parts.name, parts.annotation, parts.value) == ("L_x_", "f32[2]", "None")
    starred = placeholder("*args")
    assert starred is not None
    assert starred.name == "args"
    assert placeholder("3 + 4") is None
