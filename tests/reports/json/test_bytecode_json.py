"""`ctrace bytecode --json`."""

import json
from typing import Any

from ctrace.inspector.features.bytecode.bytecode_view import BytecodeFilter, bytecode_document
from ctrace.reports.json.printer import render
from tests.support import sessions
from tests.support.helpers import recorded

SESSION = recorded("rewritten")


def _data(*, source: bool = False, **choice: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(render(bytecode_document(SESSION, BytecodeFilter(**choice), source=source)))
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
    data = json.loads(render(bytecode_document(sessions.NOTHING)))
    assert (data["functions"], data["compilations"]) == ([], [])


def test_source_only_on_request() -> None:
    assert "source" not in _data(graph="0/0")["compilations"][0]
    (made,) = _data(graph="0/0", source=True)["compilations"]
    assert (made["source"] or "").startswith("def ") or made["source_refused"]
