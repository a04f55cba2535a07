"""Graphs as torch prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.findings.graphs.fx import At, FxGraph, FxNodeKind, Output, TensorType
from ctrace.inspector.findings.graphs.parse import NodeCall, call, input_names, parse, placeholder, statement
from tests.support.helpers import fuzzing, recorded

TRACED = """\
class GraphModule(torch.nn.Module):
    def forward(self, s77: "Sym(s77)", L_x_: "f32[s77, 4][4, 1]cpu", L_n_ = None):
        l_x_ = L_x_

        # File: /a in b:3/model.py:9 in forward, code: y = x.relu()  # File: no.py:3 in f, code: z
        y: "f32[s77, 4][4, 1]cpu" = l_x_.relu();  l_x_ = None

        # No stacktrace found for following nodes
        true_0 = self.true_0
        cond = torch.ops.higher_order.cond(L_n_, true_0, (y,));  L_n_ = true_0 = y = None
        getitem: "f32[s77, 4][4, 1]cpu" = cond[0];  cond = None
        return (getitem, 3, None)

    class true_0(torch.nn.Module):
        def forward(self, y: "f32[s77, 4][4, 1]cpu"):
            # ac_graph_id: 2 - MUST_SAVE File: /model.py:10 in branch, code: return y.sin()
            sin: "f32[s77, 4][4, 1]cpu" = y.sin();  y = None
            return [sin]


 # graph id: 1397
"""
JOINT = """\
class inner_f(torch.nn.Module):
    def forward(
        self,
        primals,
        tangents,
    ):
        primals_1: "f32[2][1]cpu"  # PlainAOTInput(idx=0)
        tangents_1: "f32[2][1]cpu"  # TangentAOTInput(output=PlainAOTOutput(idx=0))
        primals_1, primals_2, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
        # File: /model.py:9 in forward, code: return x * 2
        mul: "f32[2][1]cpu" = torch.ops.aten.mul.Tensor(tangents_1, 2)
        return pytree.tree_unflatten([
            primals_1,  # PlainAOTOutput(idx=0)
            None,  # None
            mul,  # GradAOTOutput(grad_of=PlainAOTInput(idx=0))
        ], self._out_spec)
"""
FORWARD = """\
class <lambda>(torch.nn.Module):
    def forward(
        self,
        arg0_1: "f32[2][1]cpu",  # PlainAOTInput(idx=0)
        arg1_1,
    ):
        mul: "f32[2][1]cpu" = torch.ops.aten.mul.Tensor(arg0_1, other = arg1_1, mode = 'arg1_1')
        bad: "f32[2]" = torch.ops.aten.odd(<Thing arg0_1>
        long: "f32[2]" = torch.ops.aten.long(Thing(
          1), mul)
        return (
            mul,  # PlainAOTOutput(idx=0)
        )
"""


def _graph(text: str) -> FxGraph:
    graph = parse(text)
    assert graph is not None
    return graph


def test_a_traced_graph() -> None:
    graph = _graph(TRACED)
    assert [(node.name, node.kind) for node in graph.nodes] == [
        ("s77", FxNodeKind.PLACEHOLDER),
        ("l_x_", FxNodeKind.PLACEHOLDER),
        ("L_n_", FxNodeKind.PLACEHOLDER),
        ("y", FxNodeKind.CALL_METHOD),
        ("true_0", FxNodeKind.GET_ATTR),
        ("cond", FxNodeKind.CALL_FUNCTION),
        ("getitem", FxNodeKind.CALL_FUNCTION),
        ("output", FxNodeKind.OUTPUT),
    ]
    assert graph.nodes[0].symbol == "s77"
    assert graph.nodes[1].target == "L_x_"
    assert graph.nodes[3].type == TensorType("f32", ("s77", "4"), ("4", "1"), "cpu")
    code = "y = x.relu()  # File: no.py:3 in f, code: z"
    assert graph.nodes[3].at == At("/a in b:3/model.py", 9, "forward", code)
    assert graph.nodes[5].at is None
    assert graph.nodes[5].uses == ("L_n_", "true_0", "y")
    assert [output.text for output in graph.outputs] == ["getitem", "3", "None"]
    assert graph.unread == ()


def test_a_graph_within() -> None:
    (inside,) = _graph(TRACED).graphs
    assert inside.name == "true_0"
    assert [node.name for node in inside.nodes] == ["y", "sin", "output"]
    assert inside.nodes[1].tag == "MUST_SAVE"
    assert inside.nodes[1].at == At("/model.py", 10, "branch", "return y.sin()")


def test_a_joint_graph_has_its_inputs_in_the_body() -> None:
    graph = _graph(JOINT)
    first, second, third = graph.placeholders()
    assert (first.name, first.described) == ("primals_1", "PlainAOTInput(idx=0)")
    assert first.type is not None
    assert (second.name, second.type) == ("primals_2", None)
    assert third.described.startswith("TangentAOTInput(")
    assert graph.outputs == (
        Output("primals_1", "PlainAOTOutput(idx=0)"),
        Output("None", "None"),
        Output("mul", "GradAOTOutput(grad_of=PlainAOTInput(idx=0))"),
    )
    assert graph.nodes[-1].uses == ("primals_1", "mul")


def test_a_line_that_cannot_be_read_costs_itself_only() -> None:
    graph = _graph(FORWARD)
    assert [node.name for node in graph.nodes] == ["arg0_1", "arg1_1", "mul", "long", "output"]
    assert [line.partition(":")[0] for line in graph.unread] == ["bad"]
    assert graph.nodes[2].uses == ("arg0_1", "arg1_1")
    assert graph.outputs == (Output("mul", "PlainAOTOutput(idx=0)"),)


def test_a_graph_that_takes_its_inputs_as_a_list() -> None:
    text = """class G(torch.nn.Module):
    def forward(self, args_list):
        args_iter = iter(args_list)
        a = next(args_iter)
        b = next(args_iter)
        args_list.clear()
        add = a + b;  a = b = None
        return add
"""
    graph = _graph(text)
    assert [node.name for node in graph.nodes] == ["a", "b", "add", "output"]
    assert graph.outputs == (Output("add"),)


@pytest.mark.parametrize("text", ["", "def forward(self):\n    return 1", "class A:\n  pass", "\n\n"])
def test_no_graph(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize("text", ["class A(torch.nn.Module):", "class A(torch.nn.Module):\n    def forward(self"])
def test_next_to_nothing(text: str) -> None:
    assert _graph(text).nodes == ()


def test_deep_nesting_is_flat_reading() -> None:
    text = "".join(f"{'    ' * depth}class A{depth}(torch.nn.Module):\n" for depth in range(3000))
    assert len(list(_graph(text).whole())) == 3000


def texts() -> list[str]:
    return [each.text for graphs in recorded("trained").printed.values() for each in graphs.printed]


def test_recorded_graphs_are_read_whole() -> None:
    assert len(texts()) == 18
    for text in texts():
        assert all(graph.unread == () for graph in _graph(text).whole())


@fuzzing
@given(
    st.sampled_from([TRACED, JOINT, FORWARD]),
    st.lists(st.tuples(st.integers(0, 2000), st.text(max_size=5)), max_size=6),
)
def test_damaged_text_is_never_an_error(text: str, changes: list[tuple[int, str]]) -> None:
    for place, new in changes:
        at = place % len(text)
        text = text[:at] + new + text[at + len(new) :]
    graph = parse(text)
    if graph is not None:
        assert all(isinstance(line, str) for each in graph.whole() for line in each.unread)


@fuzzing
@given(st.sampled_from([TRACED, JOINT, FORWARD]), st.integers(0, 2000), st.integers(0, 2000))
def test_a_text_cut_anywhere(text: str, start: int, end: int) -> None:
    parse(text[start % len(text) : end % len(text)])


@given(st.sampled_from([TRACED, JOINT, FORWARD]), st.integers(0, 2000), st.integers(0, 2000))
def test_names_of_inputs_are_those_of_the_parsed_graph(text: str, start: int, length: int):
    damaged = text[:start] + text[start + length :]
    graph = parse(damaged)
    assert input_names(damaged) == (tuple(node.name for node in graph.placeholders()) if graph else ())


FUNCTION = FxNodeKind.CALL_FUNCTION
KNOWN = {"x", "y", "q", "split", "l_x_"}


def _call(text: str) -> tuple[str, NodeCall | None]:
    parts = statement(text)
    assert parts is not None
    return parts.name, call(parts, KNOWN)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (
            'mm: "f32[2, 3][3, 1]cpu" = torch.ops.aten.mm.default(x, y);  x = y = None',
            "mm",
            NodeCall(FUNCTION, "torch.ops.aten.mm.default", "x, y"),
        ),
        ('q_1: "f32[2]" = x.view(-1, 4);  x = None', "q_1", NodeCall(FxNodeKind.CALL_METHOD, "view", "x, -1, 4")),
        ('t: "f32[2]" = x.relu()', "t", NodeCall(FxNodeKind.CALL_METHOD, "relu", "x")),
        ('m: "f32[2]" = q @ y', "m", NodeCall(FUNCTION, "operator.matmul", "q, y")),
        ('d: "f32[2]" = q / 5.65', "d", NodeCall(FUNCTION, "operator.truediv", "q, 5.65")),
        ('p: "f32[2]" = x ** 2', "p", NodeCall(FUNCTION, "operator.pow", "x, 2")),
        ('c: "b8[2]" = x >= -1', "c", NodeCall(FUNCTION, "operator.ge", "x, -1")),
        ('n: "f32[2]" = -x', "n", NodeCall(FUNCTION, "operator.neg", "x")),
        ('i: "b8[2]" = ~x', "i", NodeCall(FUNCTION, "operator.invert", "x")),
        ('g: "f32[2]" = split[0];  split = None', "g", NodeCall(FUNCTION, "operator.getitem", "split, 0")),
        (
            'g: "f32[2]" = x[(slice(1, None, None), Ellipsis)]',
            "g",
            NodeCall(FUNCTION, "operator.getitem", "x, (slice(1, None, None), Ellipsis)"),
        ),
        (
            'l_x_ += 1;  iadd: "f32[1][1]cpu" = l_x_;  l_x_ = None',
            "iadd",
            NodeCall(FUNCTION, "operator.iadd", "l_x_, 1"),
        ),
        (
            "x[(slice(1, None, None), 0)] = y;  setitem = x;  x = setitem = None",
            "setitem",
            NodeCall(FUNCTION, "operator.setitem", "x, (slice(1, None, None), 0), y"),
        ),
        ("true_graph_0 = self.true_graph_0", "true_graph_0", NodeCall(FxNodeKind.GET_ATTR, "true_graph_0")),
        ('w: "f32[2]" = getattr(self.layers, "0").weight', "w", NodeCall(FxNodeKind.GET_ATTR, "layers.0.weight")),
        ('w: "f32[2]" = getattr(getattr(self, "0"), "1")', "w", NodeCall(FxNodeKind.GET_ATTR, "0.1")),
        ('o: "f32[2]" = getattr(self.layers, "0")(x, y)', "o", NodeCall(FxNodeKind.CALL_MODULE, "layers.0", "x, y")),
        ('o: "f32[2]" = self.fc(x)', "o", NodeCall(FxNodeKind.CALL_MODULE, "fc", "x")),
        ('t: "f32[2]" = x.T', "t", NodeCall(FUNCTION, "getattr", "x, 'T'")),
        ("size : torch.Size = x.size()", "size", NodeCall(FxNodeKind.CALL_METHOD, "size", "x")),
        ('s: "Sym(s77*2)" = q * 2', "s", NodeCall(FUNCTION, "operator.mul", "q, 2")),
        ("e = enter('cpu', ';  x = None', [1, 2])", "e", NodeCall(FUNCTION, "enter", "'cpu', ';  x = None', [1, 2]")),
        ('f: "f32[]" = torch.full((2,), nan)', "f", NodeCall(FUNCTION, "torch.full", "(2,), nan")),
    ],
)
def test_calls(text: str, name: str, expected: NodeCall) -> None:
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
