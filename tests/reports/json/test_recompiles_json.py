"""`ctrace recompiles --json`."""

import json
from typing import Any

import pytest

from ctrace.inspector.diagnosis.recompiles_document import recompiles_document
from ctrace.inspector.facts.session import Session
from ctrace.reports.json.printer import render
from tests.support import recompiled, sessions
from tests.support.explained import explained
from tests.support.helpers import recorded
from tests.support.places import DATA
from tests.support.sampling import sampled

ALL = {**sessions.ALL, **recompiled.ALL}


def _data(session: Session) -> Any:
    text = render(recompiles_document(session))
    assert text.endswith("}\n")
    return json.loads(text)


@pytest.mark.parametrize("name", ALL)
def test_names(name: str) -> None:
    data = _data(ALL[name])
    assert list(data) == ["schema", "verdict", "recompiles", "advice", "groups", "caches", "problems"]
    whole = explained(ALL[name])
    assert {key: data[key] for key in ("schema", "verdict", "recompiles", "problems")} == {
        key: whole[key] for key in ("schema", "verdict", "recompiles", "problems")
    }


def test_a_cause_and_its_outlook() -> None:
    first, second, third, *_, last = _data(recompiled.SEVERAL)["groups"]
    assert (first["cause"]["subject"], first["values"], first["outlook"]) == (
        "mask.size(0)",
        ["2", "3", "5"],
        "diverges",
    )
    assert (first["file"], first["line"], first["seconds"]) == ("model.py", 15, 3.0)
    assert (second["cause"]["subject"], len(second["compilations"])) == ("self.number", 9)
    assert second["why"].endswith("the limit of 10 was hit, and further values run eagerly")
    assert second["cause"]["advice"]["switch"].startswith("torch._dynamo.config")
    assert (third["cause"]["subject"], third["cause"]["others"], third["also"]) == ("x.dtype", 51, ["how"])
    assert third["outlook"] == "finite"
    assert (last["expected"], last["outlook"], last["cause"]["open"]) == (True, "settles", True)


def test_a_recompile() -> None:
    found = _data(recompiled.SEVERAL)["recompiles"][2]
    assert (found["compilation"], found["scenario"], found["call"], found["nearest"]) == ("0/3", "base", 3, "0/1")
    (cause,) = found["causes"]
    assert (cause["file"], cause["line"], cause["others"], cause["open"]) == ("model.py", 15, 0, False)
    assert _data(recompiled.SEVERAL)["recompiles"][0]["why_expected"] == "Its first change is left open."


def test_caches() -> None:
    net, block = _data(recompiled.SEVERAL)["caches"]
    assert (net["line"], net["used"], net["of"], net["refused"], net["ops_in_eager"]) == (14, 5, 8, False, 0)
    assert (block["used"], block["of"], block["refused"], block["ops_in_eager"]) == (10, 10, True, 4)
    assert block["objects"][:2] == ["Block 0", "Block 1"]
    first = {"compilation": "1/0", "scenario": "base", "call": 0, "seconds": 0.4, "nearest": None, "distances": {}}
    assert block["entries"][0] == first
    assert net["entries"][3]["nearest"] == "0/1"
    assert net["entries"][3]["distances"] == {"0/2": 53, "0/1": 1, "0/0": 2}


def test_unknown_values_are_null() -> None:
    data = _data(recompiled.TOLD_BY_TORCH)
    (cache,) = data["caches"]
    assert [each["nearest"] for each in data["recompiles"]] == ["0/0", None]
    assert [each["distances"] for each in cache["entries"]] == [{}, {}, {}]
    assert (cache["ops_in_eager"], cache["entries"][0]["seconds"], data["groups"][0]["seconds"]) == (None, None, None)


@pytest.mark.parametrize("name", sampled(sorted(path.stem for path in DATA.glob("*.log"))))
def test_recorded_logs(name: str) -> None:
    session = recorded(name)
    seen = [group["compilations"] for group in _data(session)["groups"]]
    assert {id_ for ids in seen for id_ in ids} == {each.compilation for each in session.recompiles}
