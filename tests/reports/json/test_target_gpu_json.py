"""JSON of runs with `--target`: the basis of every figure, and comparisons of several GPUs."""

import json
from typing import Any

import pytest

from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.diagnosis.side_by_side_document import side_by_side_document
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion_view import fusion_document
from ctrace.inspector.findings.graphs.graphs_document import graphs_document
from ctrace.inspector.findings.kernels.at_line import line_document
from ctrace.inspector.findings.kernels.kernels_document import kernels_document, stage_document
from ctrace.reports.json.printer import render
from tests.support import built
from tests.support.explained import explained
from tests.support.targeted import EMITTED, NOT_ALL, ON_A100


def kernels(session: Session) -> dict[str, Any]:
    return json.loads(render(kernels_document(session)))


def test_kernels_with_a_target() -> None:
    data = kernels(EMITTED)
    gpu = data["target_gpu"]
    assert (gpu["name"], gpu["title"], gpu["capability"]) == ("h100", "NVIDIA H100 80GB HBM3", "9.0")
    row = data["parts"][0]["kernels"][0]
    assert row["basis"] == "emitted"
    assert row["bases"] == dict.fromkeys(("read", "written", "flops", "intensity", "share"), "computed")
    assert row["launches"][0]["bases"]["flops"] == "computed"
    assert data["parts"][0]["known"]["basis"] == "computed"
    compiled_ = data["built"][0]
    assert (compiled_["basis"], compiled_["bases"]) == ("emitted", {"seconds": "measured"})
    assert compiled_["occupancy"]["basis"] == "computed"
    assert data["bounds"][0]["basis"] == "computed"
    assert data["bounds"][0]["not_known_of"] == 1
    assert [each["kind"] for each in data["undecided"]] == ["padding", "autotuning", "configuration"]
    assert [each["as_target"] for each in data["asked"]] == [False, True]


def test_kernels_that_ran() -> None:
    data = kernels(built.SESSION)
    assert (data["target_gpu"], data["bounds"], data["undecided"]) == (None, [], [])
    first = data["timed"][0]
    assert first["basis"] == "measured"
    assert first["bases"] == dict.fromkeys(("memory_bound", "arithmetic_bound", "bound_set_by"), "computed")


def test_explain() -> None:
    data = explained(EMITTED)
    assert data["environment"]["device"] == "cpu"
    assert data["environment"]["target_gpu"]["sources"] == {"bandwidth": "NVIDIA H100 data sheet"}
    assert (data["time"]["basis"], data["kernels"][0]["basis"]) == ("measured", "emitted")
    assert (data["fusion"]["basis"], data["fusion"]["bases"]["bytes_fused"]) == ("emitted", "computed")
    assert explained(NOT_ALL)["not_emitted"] == ["1/0"]
    assert explained(Session())["environment"]["target_gpu"] is None


@pytest.mark.parametrize("session", [EMITTED, built.SESSION])
def test_every_report_names_the_target(session: Session) -> None:
    name = session.gpu.target if session.gpu else ""
    for text in (
        render(fusion_document(session)),
        render(graphs_document(session)),
        render(stage_document(session, "ptx")),
    ):
        target = json.loads(text)["target_gpu"]
        assert (target or {"name": ""})["name"] == name


def test_figures_of_a_line_have_a_basis() -> None:
    data = json.loads(render(line_document(EMITTED, "model.py:5")))
    assert data["kernels"][0]["work_of_it"]["basis"] == "computed"


def test_side_by_side() -> None:
    text = render(side_by_side_document({"a100": ON_A100, "h100": EMITTED}, {"b200": "no"}, explain_document))
    data = json.loads(text)
    assert list(data["targets"]) == ["a100", "h100"]
    assert data["targets"]["a100"]["environment"]["target_gpu"]["name"] == "a100"
    assert data["failed"] == {"b200": "no"}
    forward = data["compared"][0]
    assert forward["least"]["basis"] == "computed"
    assert [each["code"] for each in forward["kernels"]] == ["library", "differs", "not_everywhere"]
    assert len(forward["kernels"][1]["on"]["h100"]["configurations"]) == 2
