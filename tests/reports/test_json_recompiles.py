"""What `ctrace recompiles --json` holds."""

import json
from typing import Any

import pytest

from ctrace.inspector.model import Session
from ctrace.reports.json import as_data
from ctrace.reports.json_recompiles import render_recompiles_json
from tests import recompiled, sessions
from tests.helpers import DATA, recorded

ALL = {**sessions.ALL, **recompiled.ALL}


def _data(session: Session) -> Any:
    text = render_recompiles_json(session)
    assert text.endswith("}\n")
    return json.loads(text)


@pytest.mark.parametrize("name", ALL)
def test_names(name: str) -> None:
    data = _data(ALL[name])
    assert list(data) == ["schema", "verdict", "causes", "recompiles", "caches", "limit", "problems"]
    explained = as_data(ALL[name])
    assert {key: data[key] for key in ("schema", "verdict", "limit", "problems")} == {
        key: explained[key] for key in ("schema", "verdict", "limit", "problems")
    }
    for told, more in zip(explained["recompiles"], data["recompiles"], strict=True):
        assert more.items() >= told.items()


def test_a_cause_and_what_becomes_of_it() -> None:
    first, second, third, *_, last = _data(recompiled.SEVERAL)["causes"]
    assert (first["subject"], first["values"], first["outlook"]) == ("mask.size(0)", ["2", "3", "5"], "diverges")
    assert (first["file"], first["line"], first["fixed_here"], first["seconds"]) == ("model.py", 15, True, 3.0)
    assert (second["subject"], len(second["compilations"]), second["outlook"]) == ("self.number", 9, "diverges")
    assert second["why"].endswith("the limit of 10 was hit, and further values run eagerly")
    assert second["advice"]["switch"].startswith("torch._dynamo.config")
    assert (third["subject"], third["others"], third["also"], third["outlook"]) == ("x.dtype", 51, ["how"], "finite")
    assert (last["expected"], last["why_expected"], last["outlook"]) == (
        True,
        "Its first change is left open.",
        "settles",
    )


def test_a_recompile_and_the_entries_it_was_held_against() -> None:
    found = _data(recompiled.SEVERAL)["recompiles"][2]
    assert (found["compilation"], found["scenario"], found["call"]) == ("0/3", "base", 3)
    assert (found["nearest"], found["distances"]) == ("0/1", {"0/2": 53, "0/1": 1, "0/0": 2})
    (cause,) = found["causes"]
    assert (cause["file"], cause["line"], cause["others"], cause["open"]) == ("model.py", 15, 0, False)


def test_caches() -> None:
    net, block = _data(recompiled.SEVERAL)["caches"]
    assert (net["line"], net["used"], net["of"], net["refused"], net["ops_left"]) == (14, 5, 8, False, 0)
    assert (block["used"], block["of"], block["refused"], block["ops_left"]) == (10, 10, True, 4)
    assert block["objects"][:2] == ["Block 0", "Block 1"]
    assert block["entries"][0] == {"id": "1/0", "seconds": 0.4}


def test_what_is_not_known_is_null() -> None:
    data = _data(recompiled.TOLD_BY_TORCH)
    assert [(each["nearest"], each["distances"]) for each in data["recompiles"]] == [("0/0", {}), (None, {})]
    (cache,) = data["caches"]
    assert (cache["ops_left"], cache["entries"][0]["seconds"]) == (None, None)
    assert data["causes"][0]["seconds"] is None


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.log")))
def test_of_recorded_logs(name: str) -> None:
    session = recorded(name)
    told = [cause["compilations"] for cause in _data(session)["causes"]]
    assert {id_ for ids in told for id_ in ids} == {each.compilation for each in session.recompiles}
