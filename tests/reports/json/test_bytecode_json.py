"""`ctrace bytecode --json`."""

import json
from typing import Any

from ctrace.inspector.features.bytecode.bytecode_view import function_codes
from ctrace.reports.json.bytecode_json import render_bytecode_json
from tests.support import sessions
from tests.support.helpers import recorded

SESSION = recorded("rewritten")
FOUND = tuple(each for function in function_codes(SESSION) for each in function.all)


def _data(**more: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(render_bytecode_json(SESSION, FOUND, **more))
    return data


def test_functions() -> None:
    forward, inner = _data()["functions"]
    assert (forward["function"], forward["file"], forward["line"]) == ("Net.forward", "rewritten.py", 14)
    assert [each["resumes_at"] for each in forward["resume_functions"]] == [18, 19, 22]
    assert inner["compilations"] == [{"compilation": "4/0", "before": 15, "after": 122}]


def test_a_compilation() -> None:
    first = _data()["compilations"][0]
    assert (first["compilation"], first["before"], first["after"], first["python"]) == ("0/0", 74, 152, "3.11")
    changes = [row["change"] for row in first["diff"]]
    assert changes.count("same") + changes.count("removed") == 74
    assert changes.count("same") + changes.count("added") == 152
    (call,) = [each for each in first["pieces"] if each["text"] == "calls graph 0/0 with 3 inputs"]
    assert (call["kind"], call["link"], call["last"] - call["first"]) == ("graph", ["0/0"], 1)


def test_one_line() -> None:
    assert {row["line"] for each in _data(line=17)["compilations"] for row in each["diff"]} == {17}


def test_nothing() -> None:
    data = json.loads(render_bytecode_json(sessions.NOTHING, ()))
    assert (data["functions"], data["compilations"]) == ([], [])


def test_source_only_on_request() -> None:
    chosen = function_codes(SESSION)[0].all[:1]
    assert "source" not in json.loads(render_bytecode_json(SESSION, chosen))["compilations"][0]
    made = json.loads(render_bytecode_json(SESSION, chosen, source=True))["compilations"][0]
    assert (made["source"] or "").startswith("def ") or made["source_refused"]
