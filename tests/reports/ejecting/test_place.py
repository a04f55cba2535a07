"""`place.py` of a package finds its region in graphs with dynamic sizes."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.reports.ejecting.texts import text

torch = pytest.importorskip("torch")


@pytest.fixture
def placing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return what makes the module of a region that doubles `x`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(*sizes: str | int, symbols: str = "{'m': ('x', 1), 'n': None}") -> Any:
        fields = {
            "NAME": "doubled",
            "NAMESPACE": "ejected",
            "INPUTS": f"{{'x': (torch.float32, {sizes!r})}}",
            "SIZES": symbols,
            "OUTPUTS": "['mul']",
            "STEPS": "    Step('mul', 'aten.mul.Tensor', (V('x'), 2.0), {}),",
        }
        written = text("place")
        for name, value in fields.items():
            written = written.replace(f"${name}$", value)
        package = tmp_path / "doubling"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "op.py").touch()
        (package / "place.py").write_text(written)
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
    argument = place._argument(graph, match.sizes["n"])
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
