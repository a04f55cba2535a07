"""A wrong buffer as a program: it runs in plain PyTorch, and says what is wrong."""

import operator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

from ctrace.inspector.capture.comparing.judgement import Judgement  # noqa: E402
from ctrace.inspector.features.accuracy.accuracy_request import Draft  # noqa: E402
from ctrace.inspector.features.accuracy.child.kernel_judge import StoredBuffer  # noqa: E402
from ctrace.inspector.features.accuracy.child.kernel_program import drafts, stage_drafts  # noqa: E402
from ctrace.inspector.features.accuracy.child.pieces import PieceFinding  # noqa: E402
from ctrace.inspector.features.accuracy.child.stage_graphs import DynamoGraph, WrongStage  # noqa: E402
from ctrace.inspector.features.accuracy.child.watched_kernels import WatchedCall, WatchedGraph  # noqa: E402

aten = torch.ops.aten


def graph_of(x: Any, *steps: Any) -> tuple[fx.Graph, list[fx.Node]]:
    """Make a graph that calls one operator after the other."""
    graph = fx.Graph()
    node = graph.placeholder("x")
    node.meta["val"] = value = x
    nodes = [node]
    for target, args in steps:
        node = graph.call_function(target, (node, *args))
        value = target(value, *args)
        node.meta["val"] = value
        nodes.append(node)
    graph.output(node)
    return graph, nodes


def stored_in(graph: fx.Graph, node: fx.Node, known: dict[Any, Any]) -> StoredBuffer:
    watched = WatchedGraph(fx.GraphModule(torch.nn.Module(), graph), ["x"], "inference", 0)
    call = WatchedCall("cpp_fused_0", False, False, {}, {}, [])
    return StoredBuffer(watched, call, 0, node, Judgement.WRONG, 1.0, 0.0, known=known, value=node.meta["val"])


def run(draft: Draft, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: float = 0.0) -> str:
    """Run a program, with a compiler whose results are wrong by a share."""

    def compiled(function: Any) -> Any:
        return lambda *inputs: tuple(
            each * (1 + wrong) if each.is_floating_point() else each for each in function(*inputs)
        )

    monkeypatch.setattr(torch, "compile", compiled)
    exec(draft.text, {})
    return capsys.readouterr().out


STEPS = (
    (aten.mul.Tensor, (0.7,)),
    (aten.relu.default, ()),
    (torch.ops.prims.convert_element_type.default, (torch.float16,)),
)


def test_the_shortest_form_has_the_operation_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.randn(4, 8)
    graph, (placeholder, _, relu, last) = graph_of(x, *STEPS)
    found = list(drafts(stored_in(graph, last, {placeholder: x}), PieceFinding(relu), ("a = 1", "b = 2")))
    assert found[0].what == "the operation alone, on random inputs"
    assert "aten.mul" not in found[0].text
    assert "a = 1" not in found[0].text
    assert found[1].what.endswith("with settings of the run")
    assert "a = 1\nb = 2\n" in found[1].text
    assert found[-1].what.startswith("all operations of the kernel's result, on the kernel's inputs")
    for each in (found[0], found[2], found[4], found[6]):
        assert run(each, monkeypatch, capsys).startswith("off by")
        with pytest.raises(AssertionError, match="the compiled result is wrong"):
            run(each, monkeypatch, capsys, wrong=0.5)


def test_dtypes_of_the_operations_are_float64_in_the_reference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.tensor([1.0, 1 / 3, 2 / 3])
    graph, (placeholder, *_, last) = graph_of(x, *STEPS)
    text = next(drafts(stored_in(graph, last, {placeholder: x}), PieceFinding(), ())).text
    assert "float16=torch.float16" in text
    assert "float16=torch.float64" in text
    shown = run(Draft(text, ""), monkeypatch, capsys)
    assert float(shown.rpartition(" ")[2]) > 1e-6  # eager rounds to 16 bits


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(6, 4).t(),
        torch.randn(3, 1).expand(3, 5),
        torch.arange(12).view(3, 4),
        torch.rand(40, 3) > 0.5,
        torch.randn(40, 40).bfloat16(),
        torch.empty(0, 3),
        torch.tensor([float("inf"), 1.0]),
    ],
    ids=["transposed", "expanded", "integers", "truths", "bfloat16", "empty", "infinite"],
)
def test_the_inputs_keep_their_kind_and_the_real_ones_their_values(x: Any) -> None:
    graph, (placeholder, last) = graph_of(x, (aten.clone.default, ()))
    random, real = drafts(stored_in(graph, last, {placeholder: x}), PieceFinding(), ())
    for each in (random, real):
        held: dict[str, Any] = {}
        exec(each.text.partition("compiled, eager")[0], held)
        (made,) = held["inputs"]
        assert (made.shape, made.stride(), made.dtype) == (x.shape, x.stride(), x.dtype)
        if each is real:
            assert torch.equal(made, x)


def test_what_has_no_text_is_left_out() -> None:
    x = torch.randn(3)
    graph, (placeholder, last) = graph_of(x, (operator.neg, ()))
    assert list(drafts(stored_in(graph, last, {placeholder: x}), PieceFinding(), ())) == []


def test_a_wrong_backward_is_a_program_that_compares_gradients(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(x: Any, at: Any) -> Any:
        return torch.nn.functional.softplus(x.half()).float()[at]

    found = DynamoGraph(fx.symbolic_trace(called), [], inputs=[torch.randn(6, 3), torch.tensor([1, 4])])
    made = WrongStage("decomposition", "decompositions", None, (), 1.0, 0.0, stage="backward")
    random, real = stage_drafts(found, made, ())
    for each in (random, real):
        assert run(each, monkeypatch, capsys).startswith("off by")
        with pytest.raises(AssertionError, match="the compiled result is wrong"):
            run(each, monkeypatch, capsys, wrong=0.5)
