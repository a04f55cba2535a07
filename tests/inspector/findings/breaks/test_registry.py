"""Torch's own registry of graph breaks."""

import json
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.findings.breaks import advice_lookup
from ctrace.inspector.findings.breaks.advice_lookup import Registered, registered, registered_ids

Install = Callable[[Any], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Pretend to have a torch whose registry contains this data, or text that is not JSON."""

    def make(data: Any) -> None:
        folder = tmp_path / "torch" / "_dynamo"
        folder.mkdir(parents=True)
        (folder / "graph_break_registry.json").write_text(data if isinstance(data, str) else json.dumps(data))
        find(lambda _name: ModuleSpec("torch", None, origin=str(tmp_path / "torch" / "__init__.py")))

    def find(finder: Callable[[str], ModuleSpec | None]) -> None:
        monkeypatch.setattr(advice_lookup, "find_spec", finder)
        advice_lookup._registry.cache_clear()

    yield make
    advice_lookup._registry.cache_clear()


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Have no torch."""
    monkeypatch.setattr(advice_lookup, "find_spec", lambda _name: None)
    advice_lookup._registry.cache_clear()
    yield monkeypatch
    advice_lookup._registry.cache_clear()


def entry(title: str = "Print", explanation: str = "Dynamo cannot print.", hints: tuple[str, ...] = ()) -> Any:
    return {"Gb_type": title, "Context": "", "Explanation": explanation, "Hints": list(hints)}


def test_the_newest_entry_of_an_id(install: Install):
    install({"GB0059": [entry("Print", hints=("Avoid it.",)), entry("An older name")], "GB0124": [entry("Item")]})
    assert registered("GB0059") == Registered("GB0059", "Print", "Dynamo cannot print.", ("Avoid it.",))
    assert registered_ids() == ("GB0059", "GB0124")


@pytest.mark.parametrize("gb", ["GB9999", "gb0059", "", "GB0002"])
def test_an_id_that_is_not_there(install: Install, gb: str):
    install({"GB0059": [entry()], "GB0002": []})
    assert registered(gb) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot trace {fn.__name__} here", "cannot trace … here"),
        ('"Detected it. "      "More."', "Detected it. More."),
        ("two\n  lines", "two lines"),
        ("a \\\\ b", "a b"),
        ("plain", "plain"),
    ],
)
def test_texts_are_made_readable(install: Install, text: str, shown: str):
    install({"GB0059": [entry(text, text, (text,))]})
    assert registered("GB0059") == Registered("GB0059", shown, shown, (shown,))


@pytest.mark.parametrize(
    ("pieces", "hints"),
    [
        ((), ()),
        (("One.", "Two."), ("One.", "Two.")),
        (("Set the ", "switch ", "on.", "Or not."), ("Set the switch on.", "Or not.")),
        (("Unfinished ",), ("Unfinished",)),
        (("",), ()),
    ],
)
def test_pieces_of_a_hint_are_put_together(install: Install, pieces: tuple[str, ...], hints: tuple[str, ...]):
    install({"GB0059": [entry(hints=pieces)]})
    found = registered("GB0059")
    assert found is not None
    assert found.hints == hints


def test_an_entry_without_explanation_and_hints(install: Install):
    install({"GB0059": [{"Gb_type": "Print"}]})
    assert registered("GB0059") == Registered("GB0059", "Print", "", ())


@pytest.mark.parametrize("text", ["", "{", "no json"])
def test_a_damaged_registry_has_no_entries(install: Install, text: str):
    install(text)
    assert registered_ids() == ()
    assert registered("GB0059") is None


def test_a_torch_without_a_registry(no_torch: pytest.MonkeyPatch, tmp_path: Path):
    spec = ModuleSpec("torch", None, origin=str(tmp_path / "torch" / "__init__.py"))
    no_torch.setattr(advice_lookup, "find_spec", lambda _name: spec)
    assert registered_ids() == ()


@pytest.mark.usefixtures("no_torch")
def test_no_torch_at_all():
    assert registered_ids() == ()
    assert registered("GB0059") is None


@pytest.mark.parametrize(
    "spec", [ModuleSpec("torch", None), ValueError("torch.__spec__ is None")], ids=["folder", "no spec"]
)
def test_something_else_that_is_called_torch(no_torch: pytest.MonkeyPatch, spec: ModuleSpec | ValueError):
    def find(_name: str) -> ModuleSpec:
        if isinstance(spec, ValueError):
            raise spec
        return spec

    no_torch.setattr(advice_lookup, "find_spec", find)
    assert registered_ids() == ()


def test_the_torch_that_is_installed():
    if not registered_ids():
        pytest.skip("torch is not installed")
    found = registered("GB0170")
    assert found is not None
    assert found.title == "Data-dependent branching"
    assert len(registered_ids()) > 300
