"""Who won, by how much, and whether the runs of the choices tell them apart."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import SelectionError
from ctrace.inspector.findings.autotuning_view import (
    Noise,
    autotuning_document,
    cost,
    margin,
    sentence,
    winner,
)
from tests.support import autotuned
from tests.support.autotuned import timed


@pytest.mark.parametrize(("loose", "noise"), [(0.01, Noise.BEYOND), (0.2, Noise.WITHIN), (None, Noise.NOT_KNOWN)])
def test_a_margin_counts_if_the_middle_halves_are_apart(loose: float | None, noise: Noise) -> None:
    found = margin((timed("a", 1e-6, loose=loose), timed("b", 1.2e-6, loose=loose)))
    assert found is not None
    assert (found.of_next, round(found.part, 9), found.noise) == ("b", 0.2, noise)


def test_there_is_no_margin_without_a_second_time() -> None:
    assert margin((timed("a", 1e-6), autotuned.MM.choices[-1])) is None
    assert margin((timed("a", 1e-6), timed("b", 2e-6)), unnamed=3) is None
    assert margin((timed("a", 0.0), timed("b", 2e-6))) is None


def test_without_times_nothing_wins() -> None:
    assert winner(autotuned.UNTIMED.choices) is None
    assert cost((autotuned.UNTIMED,)) is None
    assert sentence(autotuned.TARGET) == ""


def test_the_sentence_counts_sweeps_and_what_they_cost() -> None:
    assert sentence(autotuned.TUNED) == "2 operations autotuned, 1 from torch's cache: 12 choices in 3.4 s"


def test_an_unknown_kind_of_operation_has_a_suggestion() -> None:
    with pytest.raises(SelectionError) as caught:
        autotuning_document(autotuned.TUNED, None, "admm")
    assert caught.value.todo == "did you mean addmm?"
    autotuning_document(replace(autotuned.TUNED, tuned=()), None, None)


def test_an_unknown_graph_has_a_suggestion() -> None:
    with pytest.raises(SelectionError) as caught:
        autotuning_document(autotuned.TUNED, "0/7", None)
    assert caught.value.todo == "did you mean 0/0?"
    autotuning_document(autotuned.TUNED, "0/0", "mm")
