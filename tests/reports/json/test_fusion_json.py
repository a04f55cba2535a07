"""Fusion as JSON."""

import json
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion_view import fusion_document
from ctrace.reports.json.printer import render
from tests.support.explained import explain_markdown, explained
from tests.support.fusions import EAGER, FUSED, OLD, ROW, SEVERAL, SIZE
from tests.support.sessions import HEALTHY


def _parts(session: Session) -> list[dict[str, Any]]:
    data: dict[str, Any] = json.loads(render(fusion_document(session)))
    assert (data["schema"], data["verdict"]) == (1, "compiled")
    parts: list[dict[str, Any]] = data["fusion"]
    return parts


def test_a_part() -> None:
    part = _parts(FUSED)[0]
    assert (part["graph"], part["stage"], part["nodes_before"], part["nodes_after"]) == ("0/0", "forward", 5, 4)
    assert part["bytes"]["fused"] == 9 * SIZE + 2 * ROW
    assert part["end"] == "nothing more could be fused"
    assert part["kinds_before"] == {"pointwise": 3, "external": 1, "reduction": 1}
    assert part["result"][1]["lines"] == ["model.py:9", "model.py:10"]
    assert part["buffers"][0]["role"] == "input"
    assert part["pairs_without_shared_data"] == 3


def test_rounds() -> None:
    first, second, last = _parts(FUSED)[0]["rounds"]
    assert [each["fused"] for each in first["candidates"]] == [["op1", "op2"], None]
    assert first["candidates"][0]["before_next"] == "shared"
    assert first["candidates"][0]["score"]["shared"] == SIZE
    assert second["refused"][0]["reason"].startswith("numel/rnumel mismatch")
    assert (first["reorder"], last["reorder"]) == (False, True)


def test_missed_fusions_are_sorted_by_bytes() -> None:
    missed = _parts(FUSED)[0]["missed"]
    assert [each["bytes"] for each in missed] == sorted((each["bytes"] for each in missed), reverse=True)
    assert missed[0]["nodes"] == ["op1_op2", "op3"]
    assert missed[0]["torch"] == "memory deps did not match"
    assert missed[0]["shared"][0] == {
        "buffer": "buf1",
        "read": SIZE,
        "written": SIZE,
        "produced": True,
        "perhaps": 0,
    }


def test_values_missing_in_an_old_log_are_null() -> None:
    part = _parts(replace(SEVERAL, fusions=(OLD,)))[0]
    assert part["rounds"][0]["fused"] == [["op0", "op1"]]
    assert [part[name] for name in ("bytes", "nodes", "missed", "pairs_without_shared_data")] == [None] * 4


def test_without_inductor_there_are_no_parts() -> None:
    assert _parts(EAGER) == []
    assert explained(EAGER)["fusion"] is None


def test_explain_sums_all_parts() -> None:
    fusion = explained(FUSED)["fusion"]
    assert (fusion["rounds"], fusion["nodes_before"], fusion["nodes_after"]) == (2, 5, 4)
    assert (fusion["bytes_unfused"], fusion["bytes_fused"], fusion["bytes_least"]) == (
        10 * SIZE + 2 * ROW,
        9 * SIZE + 2 * ROW,
        4 * SIZE,
    )
    assert fusion["missed"]["graph"] == "0/0"
    assert fusion["missed"]["lines"] == [["model.py:9", "model.py:10"], ["model.py:11"]]


def test_explain_of_an_old_log_has_no_bytes() -> None:
    fusion = explained(HEALTHY)["fusion"]
    assert (fusion["nodes_before"], fusion["bytes_fused"], fusion["missed"]) == (7, None, None)


def test_markdown_has_bytes_and_the_most_expensive_missed_fusion() -> None:
    text = explain_markdown(FUSED)
    assert "| bytes | 36.0 MiB moved; 40.0 MiB without fusion, lower bound 16.0 MiB |" in text
    assert "| missed fusion | exp, sum and div (model.py:9,10,11), 8.0 MiB extra memory traffic: " in text
    assert "missed fusion" not in explain_markdown(HEALTHY)
