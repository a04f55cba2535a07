"""`ctrace shapes --json`."""

import json

from ctrace.inspector.findings.shapes_document import shapes_document
from ctrace.reports.json.printer import render
from tests.support import sizes
from tests.support.explained import explained


def test_sizes() -> None:
    data = json.loads(render(shapes_document(sizes.SIZES)))
    assert list(data) == ["schema", "verdict", "functions", "violations", "marks", "problems"]
    forward, looped, paired = data["functions"]
    assert (forward["compilation"], forward["compilations"], forward["complete"]) == ("0/1", 2, True)
    x, mask, number, weight = forward["tensors"]
    assert (x["name"], x["source"], x["role"], weight["role"], number["dims"][0]["index"]) == (
        "x", "L['x']", "input", "parameter", None,
    )  # fmt: skip
    first = x["dims"][0]
    assert (first["kind"], first["policy"], first["low"], first["took"]) == ("symbolic", "automatic", 4, ["4", "8"])
    assert first["conditions"][0]["file"] == "model.py"
    assert mask["dims"][0]["equals"] == "x.size(0)"
    assert forward["unbacked"][0]["line"] == 14
    assert looped["tensors"][0]["dims"][0]["fixed"]["line"] == 12
    assert looped["tensors"][0]["dims"][0]["one_graph_each"]
    assert paired["tensors"][0]["dims"][0]["same_as"] == ["y.size(1)"]


def test_marks_are_whole_lines() -> None:
    data = json.loads(render(shapes_document(sizes.SIZES, "looped")))
    assert [each["function"] for each in data["functions"]] == ["looped"]
    assert data["marks"] == [
        {
            "line": None,
            "note": "Marking x.size(0) of looped dynamic raises ConstraintViolationError until line 12 changes.",
        }
    ]


def test_the_error_of_explain_says_why() -> None:
    (because,) = explained(sizes.VIOLATED)["error"]["because"]
    assert because.startswith("x.size(0) is marked dynamic")
