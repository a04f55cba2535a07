"""`place.py` of a package finds its region in graphs with dynamic sizes."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.reports.dump.templates import rendered

torch = pytest.importorskip("torch")

STEP = "    Step('mul', 'aten.mul.Tensor', (V('x'), 2.0), {}),"


@pytest.fixture
def placing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return what makes the module of a region that doubles `x`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(
        *sizes: str | int, symbols: str = "{'m': ('x', 1), 'n': None}", outputs: Any = None, steps: str = STEP
    ) -> Any:
        written = rendered(
            "package_place",
            name="doubled",
            namespace="ejected",
            inputs=[("x", "float32", sizes)],
            sizes=symbols,
            outputs=list((outputs or {"mul": sizes}).items()),
            steps=[steps.strip().removesuffix(",")],
        )
        package = tmp_path / "doubling"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "op.py").touch()
        (package / "place.py").write_text(written)
        (package / "sources.py").write_text(rendered("package_sources"))
        return importlib.import_module("doubling.place")

    yield made
    for name in [each for each in sys.modules if each.split(".")[0] == "doubling"]:
        del sys.modules[name]


def graph_of(function: Callable[[Any], Any], *shape: int) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function, tracing_mode="symbolic")(torch.randn(shape)).graph


def halved(x: Any) -> Any:
    return x[: x.shape[0] // 2] * 2.0


def test_a_size_that_occurs_only_in_expressions_is_found(placing: Callable[..., Any]) -> None:
    """It is passed as a node that computes it: Inductor takes no SymInt of another graph."""
    place = placing("n // 2", "m")
    graph = graph_of(halved, 8, 4)
    (match,), why = place.find(graph)
    assert not why
    x = graph.find_nodes(op="placeholder")[0]
    assert place._same(match.sizes["n"], x.meta["val"].shape[0])
    argument = place._argument(graph, match.sizes["n"], match)
    assert isinstance(argument, torch.fx.Node)
    assert place._same(argument.meta["val"], match.sizes["n"])
    graph.lint()


def test_a_size_that_does_not_depend_on_the_symbol_says_nothing_about_it(placing: Callable[..., Any]) -> None:
    place = placing("m", "n // 2", symbols="{'m': ('x', 0), 'n': None}")
    graph = graph_of(lambda x: x[:, : x.shape[1] // 2] * 2.0, 6, 8)
    (match,), _why = place.find(graph)
    assert place._same(match.sizes["n"], graph.find_nodes(op="placeholder")[0].meta["val"].shape[1])


def test_a_size_that_no_symbol_gives_is_named(placing: Callable[..., Any]) -> None:
    place = placing("n // 3", "m")
    assert place.find(graph_of(halved, 8, 4)) == ([], "the size n cannot be found in this graph")
    assert place.find(graph_of(halved, 8, 4), {"n": 12})[0] == []


def test_other_dimensions_are_named(placing: Callable[..., Any]) -> None:
    place = placing("n", 4, symbols="{'n': ('x', 1)}")
    matches, why = place.find(graph_of(lambda x: x * 2.0, 8))
    assert not matches
    assert "has 1 dimensions, not 2" in why


def test_strides_that_torch_cannot_order_are_left_alone(placing: Callable[..., Any]) -> None:
    """With them, Inductor fails, so a model that compiles would not any more."""
    place = placing("n // 2 + 1", "n // 2 + 1", "n // 2 + 1")
    graph = graph_of(lambda x: x.new_ones([x.shape[0] // 2 + 1] * 3) * 2.0, 8)
    matches, why = place.find(graph)
    assert not matches
    assert "cannot order the strides" in why


@pytest.fixture
def operator_with() -> Iterator[Callable[[str, Callable[..., Any]], None]]:
    """Return what registers `torch.ops.ejected.doubled` with a schema, as the package's `op.py` does."""
    made = torch.library.Library("ejected", "FRAGMENT")

    def defined(schema: str, compute: Callable[..., Any]) -> None:
        made.define(f"doubled{schema}")
        made.impl("doubled", compute, "CompositeExplicitAutograd")

    yield defined
    made._destroy()


def size_after(graph: Any, node: Any, val: Any) -> Any:
    """Insert a node that computes a size after another node, and depends on it."""
    with graph.inserting_after(node):
        made = graph.call_function(torch.ops.aten.sym_size.int, (node, 0))
    made.meta["val"] = val
    return made


def test_a_place_may_use_the_result_of_another_place(placing: Callable[..., Any], operator_with: Any) -> None:
    operator_with("(Tensor x) -> Tensor", lambda x: x * 2.0)
    place = placing("m", symbols="{'m': ('x', 0)}")
    graph = graph_of(lambda x: (x * 2.0) * 2.0 + 1.0, 8)
    matches, _ = place.find(graph)
    calls = place.replace_all(graph, matches)
    graph.lint()
    assert len(calls) == 2
    assert calls[1].args[0] is calls[0]
    assert not [node for node in graph.nodes if "mul" in str(node.target)]
    x = torch.randn(8)
    assert torch.equal(torch.fx.GraphModule({}, graph)(x), x * 4.0 + 1.0)


def test_places_that_overlap_are_not_both_replaced(placing: Callable[..., Any], operator_with: Any) -> None:
    operator_with("(Tensor x) -> Tensor", lambda x: x * 4.0)
    steps = (
        "Step('inner', 'aten.mul.Tensor', (V('x'), 2.0), {}), Step('mul', 'aten.mul.Tensor', (V('inner'), 2.0), {}),"
    )
    place = placing("m", symbols="{'m': ('x', 0)}", steps=steps)
    graph = graph_of(lambda x: x * 2.0 * 2.0 * 2.0, 8)
    matches, _ = place.find(graph)
    assert len(place.replace_all(graph, matches)) == 1
    graph.lint()
    x = torch.randn(8)
    assert torch.equal(torch.fx.GraphModule({}, graph)(x), x * 8.0)


def test_places_of_which_each_needs_the_other_are_not_both_replaced(
    placing: Callable[..., Any], operator_with: Any
) -> None:
    """Each alone has an order of the nodes, both together have none."""
    operator_with("(Tensor x, Tensor y) -> (Tensor, Tensor)", lambda x, y: (x * 2.0, y * 2.0 + x))
    steps = (
        "Step('mul', 'aten.mul.Tensor', (V('x'), 2.0), {}), Step('twice', 'aten.mul.Tensor', (V('y'), 2.0), {}), "
        "Step('add', 'aten.add.Tensor', (V('twice'), V('x')), {}),"
    )
    place = placing("m", symbols="{'m': ('x', 0)}", steps=steps, outputs={"mul": ("m",), "add": ("m",)})
    place.INPUTS["y"] = place.INPUTS["x"]

    def function(x: Any) -> Any:
        p, q = torch.sin(x), torch.cos(x)
        a, c = p * 2.0, q * 2.0  # the first results of both places, from x alone
        b = torch.exp(c) * 2.0 + p  # the second result of the first place needs the second place
        d = torch.exp(a) * 2.0 + q
        return b + d

    graph = graph_of(function, 8)
    matches, _ = place.find(graph)
    assert len(matches) == 2
    assert len(place.replace_all(graph, matches)) == 1
    graph.lint()


def test_a_size_that_only_a_later_node_computes_is_taken_from_an_input(
    placing: Callable[..., Any], operator_with: Any
) -> None:
    """The later node depends on the op, which would then depend on itself."""
    operator_with("(Tensor x, SymInt n) -> Tensor", lambda x, n: x * 2.0)
    place = placing("n // 2", "m")
    traced = graph_of(halved, 8, 4)
    values = {node.name: node.meta["val"] for node in traced.nodes if node.op != "output"}
    graph = torch.fx.Graph()
    nodes = []
    for name, of in (("x", "x_1"), ("half", "slice_1")):
        nodes.append(graph.placeholder(name))
        nodes[-1].meta["val"] = values[of]
    mul = graph.call_function(torch.ops.aten.mul.Tensor, (nodes[1], 2.0))
    mul.meta["val"] = values["mul"]
    later = size_after(graph, mul, values["x_1"].shape[0])
    graph.output((mul, later))
    matches, why = place.find(graph)
    assert not why
    (call,) = place.replace_all(graph, matches)
    graph.lint()
    assert call.args[1].args == (nodes[0], 0)


def test_a_size_that_depends_on_the_result_is_named(placing: Callable[..., Any]) -> None:
    steps = (
        "Step('mul', 'aten.mul.Tensor', (V('x'), 2.0), {}), Step('scaled', 'aten.mul.Tensor', (V('x'), S('n')), {}),"
    )
    symbols = "{'m': ('x', 0), 'n': None}"
    place = placing("m", symbols=symbols, steps=steps, outputs={"mul": ("m",), "scaled": ("m",)})
    graph = graph_of(lambda x: (x * 2.0, x * (x.shape[0] + 1)), 8)
    assert len(place.find(graph)[0]) == 1
    size = next(node for node in graph.nodes if "sym_size" in str(node.target))
    mul = next(node for node in graph.nodes if node.name == "mul")
    mul.append(size)
    size.args = (mul, 0)
    matches, why = place.find(graph)
    assert not matches
    assert why.startswith("the size n, s")
    assert why.endswith(" + 1, is computed only from the result")


def test_of_several_sizes_that_fit_one_expression_the_one_that_fits_all_is_taken(placing: Callable[..., Any]) -> None:
    place = placing("n // 2", "n + 1", symbols="{'n': None}")
    graph = graph_of(lambda x: x.new_ones([x.shape[0] // 2, x.shape[0] + 1]) * 2.0, 8)
    x = graph.find_nodes(op="placeholder")[0]
    with graph.inserting_before(x):
        even = graph.placeholder("even")
    size = x.meta["val"].shape[0]
    even.meta["val"] = size // 2 * 2  # which fits n // 2, too
    (match,), why = place.find(graph)
    assert not why
    assert place._same(match.sizes["n"], size)


def test_two_sizes_that_occur_only_in_expressions_are_found(placing: Callable[..., Any]) -> None:
    place = placing("(n + 2 * m) // 3", "n // 2", symbols="{'m': None, 'n': None}")
    graph = graph_of(lambda x: x.new_ones([(x.shape[0] + 2 * x.shape[1]) // 3, x.shape[0] // 2]) * 2.0, 8, 6)
    (match,), why = place.find(graph)
    assert not why
    shape = graph.find_nodes(op="placeholder")[0].meta["val"].shape
    assert place._same(match.sizes["n"], shape[0])
    assert place._same(match.sizes["m"], shape[1])


def test_a_size_that_two_ops_take_is_the_same_in_both(placing: Callable[..., Any]) -> None:
    steps = (
        "Step('scaled', 'aten.mul.Tensor', (V('x'), S('n')), {}), "
        "Step('mul', 'aten.mul.Tensor', (V('scaled'), S('n')), {}),"
    )
    place = placing("m", "k", symbols="{'m': ('x', 0), 'k': ('x', 1), 'n': None}", steps=steps)
    assert len(place.find(graph_of(lambda x: x * x.shape[0] * x.shape[0], 8, 6))[0]) == 1
    matches, why = place.find(graph_of(lambda x: x * x.shape[0] * x.shape[1], 8, 6))
    assert not matches
    assert "a size, n, is" in why


def test_results_of_other_sizes_are_named(placing: Callable[..., Any]) -> None:
    place = placing("m", symbols="{'m': ('x', 0)}", outputs={"mul": ("2 * m",)})
    matches, why = place.find(graph_of(lambda x: x * 2.0, 8))
    assert not matches
    assert "mul has the sizes" in why


def test_an_edit_while_the_program_runs_does_not_change_the_key_of_its_caches(placing: Callable[..., Any]) -> None:
    """The program has the kernel of before in its graphs: under the new key, the next process would find it."""
    place = placing("m", symbols="{'m': ('x', 0)}")
    place.op.KERNEL = ()
    before = place.Placement().uuid()
    kernel = Path(place.__file__).with_name("op.py")
    kernel.write_text("KERNEL = ()  # edited\n")
    assert place.Placement().uuid() == before
    assert importlib.reload(place).Placement().uuid() != before


def test_results_that_share_no_value_are_found(placing: Callable[..., Any]) -> None:
    """One kernel counts the batches of two norms."""
    steps = "    Step('a', 'aten.mul.Tensor', (V('x'), 2.0), {}),\n    Step('b', 'aten.mul.Tensor', (V('y'), 2.0), {}),"
    place = placing("m", symbols="{'m': ('x', 0)}", outputs={"a": ("m",), "b": ("m",)}, steps=steps)
    place.INPUTS["y"] = place.INPUTS["x"]

    def counted(x: Any) -> Any:
        return tuple(x.narrow(0, at, 2) * 2.0 for at in range(4))

    matches, why = place.find(graph_of(counted, 8))
    assert why == ""
    assert [len({match.nodes["a"], match.nodes["b"]}) for match in matches] == [2, 2]
    assert len({match.nodes[name] for match in matches for name in "ab"}) == 4
