"""The JSON report: names are fixed, and everything in it is plain data."""

import json

import pytest

from ctrace.reports.json import as_data, render_json
from tests import sessions

# design: these names may be added to, never renamed
NAMES = {
    "schema", "verdict", "environment", "target", "error", "scenarios", "graphs", "coverage", "breaks", "skipped",
    "recompiles", "limit", "fusion", "kernels", "time", "problems",
}  # fmt: skip
INNER = {
    "environment": {"ctrace", "torch", "triton", "python", "device", "backend"},
    "target": {"path", "name"},
    "coverage": {"ops", "compiled"},
    "limit": {"hit", "functions"},
    "fusion": {"rounds", "nodes_before", "nodes_after"},
    "time": {"total", "phases"},
}
ITEMS = {
    "scenarios": {"name", "calls"},
    "graphs": {"id", "function", "file", "line", "ops"},
    "breaks": {"gb", "kind", "owner", "file", "line", "function", "source", "reason", "fix", "times", "compilations"},
    "skipped": {"function", "file", "line", "reason", "break"},
    "recompiles": {"compilation", "function", "file", "line", "expected", "causes"},
    "kernels": {"graph", "name", "language", "ops", "lines"},
}


@pytest.mark.parametrize("name", sessions.ALL)
def test_every_session_round_trips(name: str) -> None:
    session = sessions.ALL[name]
    assert json.loads(render_json(session)) == json.loads(json.dumps(as_data(session)))


@pytest.mark.parametrize("name", sessions.ALL)
def test_top_level_names(name: str) -> None:
    assert set(as_data(sessions.ALL[name])) >= NAMES


def test_inner_names() -> None:
    data = as_data(sessions.HEALTHY)
    for name, inner in INNER.items():
        assert set(data[name]) >= inner, name


@pytest.mark.parametrize("name", ITEMS)
def test_item_names(name: str) -> None:
    items = [item for session in (sessions.HEALTHY, sessions.PARTIAL) for item in as_data(session)[name]]
    assert items
    for item in items:
        assert set(item) >= ITEMS[name]


def test_causes() -> None:
    cause = as_data(sessions.PARTIAL)["recompiles"][0]["causes"][0]
    assert cause == {
        "kind": "size", "subject": "x.size(0)", "was": "4", "now": "8", "line": None, "fix": "Mark the dimension dynamic.",
    }  # fmt: skip


def test_paths_in_the_working_directory_are_relative() -> None:
    assert as_data(sessions.HEALTHY)["graphs"][0]["file"] == "model.py"


def test_no_fusion_is_null_and_not_zero() -> None:
    assert as_data(sessions.NOTHING)["fusion"] is None


def test_a_failure_says_what_and_where() -> None:
    assert as_data(sessions.FAILED)["error"] == {
        "phase": "eager", "type": "ValueError", "message": "no such luck\nat all", "file": "model.py", "line": 12,
    }  # fmt: skip
