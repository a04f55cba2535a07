"""The set of real models: its data is complete, and what it says is so."""

import pytest

from tests.real.verify import COUNTS, MODELS, differences, expected, repaired

EFFECTS = {"helps", "nothing", "worse", "raises", "vague", "right", "unknown"}
NEEDED = {"verdict", *COUNTS}


def test_each_model_is_described():
    assert {file.stem for file in MODELS.glob("*.py")} == set(expected())


@pytest.mark.parametrize("name", expected())
def test_the_data_is_complete(name: str):
    data = expected()[name].data
    assert set(data["before"]) == NEEDED
    assert data["do"]
    assert data["today"]["effect"] in EFFECTS
    assert ("repair" in data) == ("after" in data)
    assert all({"kind", "at", "why"} == set(cause) for cause in data["causes"])


@pytest.mark.parametrize("name", [name for name, model in expected().items() if "repair" in model.data])
def test_a_repair_can_be_applied_and_improves_a_count(name: str):
    model = expected()[name]
    compile(repaired(model), name, "exec")
    before, after = model.data["before"], model.data["after"]
    fewer = any(after[count] < before[count] for count in COUNTS)
    assert fewer or before["verdict"] in ("not_compiled", "failed", "partial") != after["verdict"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", expected())
def test_what_is_written_of_a_model_is_so(name: str):
    assert not list(differences(expected()[name]))
