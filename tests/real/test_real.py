"""The set of real models: its data is complete and true."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command
from tests.real import advice, verify
from tests.real.advice import Effect
from tests.real.verify import COUNTS, MODELS, Expected, changed, differences, expected, repaired
from tests.support.warm import WarmServer

NEEDED = {"verdict", *COUNTS}
QUICK = ("assert_constant",)
LEAST_GOOD = 25


def test_each_model_is_described():
    assert {file.stem for file in MODELS.glob("*.py")} == set(expected())


@pytest.mark.parametrize("name", expected())
def test_the_data_is_complete(name: str):
    data = expected()[name].data
    assert set(data["before"]) == NEEDED
    assert data["do"]
    assert data["advice"]["text"]
    assert len({"nothing", "is_repair", "edits", "options"} & set(data["advice"])) == 1
    assert ("repair" in data) == ("after" in data)
    assert all({"kind", "at", "why"} == set(cause) for cause in data["causes"])


@pytest.mark.parametrize("name", [name for name, model in expected().items() if "repair" in model.data])
def test_a_repair_can_be_applied_and_improves_a_count(name: str):
    model = expected()[name]
    compile(repaired(model), name, "exec")
    before, after = model.data["before"], model.data["after"]
    fewer = any(after[count] < before[count] for count in COUNTS)
    assert fewer or before["verdict"] in ("not_compiled", "failed", "partial") != after["verdict"]


def recorded(model: Expected) -> Effect:
    """Judge the advice by the counts of expected.yaml."""
    if model.advice.get("nothing"):
        return Effect.RIGHT
    before = {**model.data["before"], "error": "raised" if model.data["before"]["verdict"] == "failed" else None}
    return advice.effect(before, {**model.advice_after, "error": None})


@pytest.mark.parametrize("name", expected())
def test_the_first_line_of_advice_is_good(name: str):
    model = expected()[name]
    compile(changed(name, model.text, model.advised[0]) if not model.advice.get("nothing") else "", name, "exec")
    assert recorded(model).is_good


def test_enough_models_have_good_advice():
    assert sum(recorded(model).is_good for model in expected().values()) >= LEAST_GOOD


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        ((3, 2, 0), (1, 0, 0), Effect.HELPS),
        ((0, 1, 0), (2, 1, 1), Effect.HELPS),
        ((3, 1, 2), (3, 1, 2), Effect.NOTHING),
        ((4, 1, 0), (10, 7, 0), Effect.WORSE),
        ((4, 1, 2), (2, 2, 0), Effect.WORSE),
        ((2, 4, 0), (0, 0, 0), Effect.WORSE),
        ((2, 1, 0), None, Effect.RAISES),
        (None, None, Effect.NOTHING),
        (None, (1, 0, 0), Effect.HELPS),
    ],
)
def test_advice_is_judged_by_counts(before, after, effect):
    def counts(numbers):
        return {**dict(zip(COUNTS, numbers or (0, 0, 0), strict=True)), "error": None if numbers else "raised"}

    assert advice.effect(counts(before), counts(after)) is effect


def test_the_first_item_is_read_without_its_number():
    assert advice.first_item("PARTIAL\n\nWhat to do\n 1. Do this.\n    checked: 1\n 2. Or that.\n") == "Do this."
    assert advice.first_item("What to do\n Nothing to fix.\n") == "Nothing to fix."
    assert advice.first_item("COMPILED\n") == ""


@pytest.mark.integration
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICK)
def test_the_first_advice_of_a_quick_model_helps(
    name: str, warm_server: WarmServer | None, monkeypatch: pytest.MonkeyPatch
):
    def forked(command: list[str], folder: Path, **variables: Any) -> str:
        ctrace = Command(folder, warm_server)
        if command[1] == "-m":
            return ctrace(*command[3:], **variables).out
        return ctrace.python(*command[1:], **variables).stdout

    monkeypatch.setattr(verify, "_run", forked)
    model = expected()[name]
    assert not list(advice.differences(model, advice.outcome(model)))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", expected())
def test_the_first_advice_helps(name: str):
    model = expected()[name]
    assert not list(advice.differences(model, advice.outcome(model)))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", expected())
def test_a_models_description_is_true(name: str):
    assert not list(differences(expected()[name]))
