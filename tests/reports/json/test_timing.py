"""`ctrace time --json` and `ctrace cudagraphs --json`."""

import json
from functools import cache

import jsonschema
import pytest
import schemas

from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphReason, CudaGraphStatus
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.features.time.timing_differences import timing_document
from ctrace.inspector.features.time.timing_model import Timings
from ctrace.inspector.findings.cuda_graph_view import cuda_graphs_document
from ctrace.reports.json.printer import render
from tests.support import sessions, timings


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schemas.closed(schemas.schema_of("time")))


@pytest.mark.parametrize("name", timings.ALL)
def test_one_configuration_matches_its_schema(name: str) -> None:
    data = json.loads(render(timing_document(Timings("model.py", (timings.ALL[name],)))))
    validator().validate(data)


@pytest.mark.parametrize("name", timings.TABLES)
def test_a_table_matches_its_schema(name: str) -> None:
    data = json.loads(render(timing_document(timings.TABLES[name])))
    validator().validate(data)
    assert [each["name"] for each in data["configurations"]]


def test_fixed_names() -> None:
    data = json.loads(render(timing_document(Timings("model.py", (timings.TRAIN,)))))
    assert data["speedup"]["verdict"] == "faster"
    assert data["eager"].keys() >= {"median", "low", "high", "rounds"}
    assert data["scenario"] == "base"
    assert data["break_even_calls"] > 0
    assert [(each["name"], each["part"]) for each in data["scenarios"]] == [
        ("base", "step"),
        ("base", "forward"),
        ("base", "backward"),
        ("wide", "step"),
    ]
    assert data["scenarios"][0]["peak_memory"] == {"eager": 12 << 20, "compiled": 8 << 20}
    assert data["scenarios"][1]["peak_memory"] == {"eager": None, "compiled": None}
    assert data["failures"][0]["line"] == 7


def test_the_table_names_the_best_and_why() -> None:
    data = json.loads(render(timing_document(timings.MODES)))
    assert data["best"] == "reduce-overhead"
    assert data["configurations"][1]["cuda_graphs"] == {
        "status": "recorded", "recordings": 1, "pool_bytes": None, "reasons": []
    }  # fmt: skip
    assert data["configurations"][3]["eager"] is None
    assert {each["other"] for each in data["differences"]} == {"default", "max-autotune"}


def test_cuda_graphs() -> None:
    from msgspec.structs import replace

    reason = CudaGraphReason("mutated inputs", f"{sessions.CWD}/model.py", 7)
    # fmt: off
    graphs = (
        CudaGraph("0/0", Stage.INFERENCE, CudaGraphStatus.RECORDED, recordings=2, inputs=("[8]", "[16]"),
                  again=(reason,), pool_bytes=2048, replay=1e-5, launched=4e-5, limits={"a_limit": 8}),
        CudaGraph("1/0", Stage.FORWARD, CudaGraphStatus.SKIPPED, (reason,), (reason,), untimed="it changes its inputs"),
    )
    # fmt: on
    data = json.loads(render(cuda_graphs_document(replace(sessions.ALL["healthy"], cuda_graphs=graphs))))
    jsonschema.validate(data, schemas.closed(schemas.schema_of("cudagraphs")))
    assert data["graphs"][0]["recordings"] == 2
    assert data["graphs"][1]["reasons"] == [{"text": "mutated inputs", "file": "model.py", "line": 7}]
    assert data["graphs"][1]["recordings"] is None
