"""The JSON report: names are fixed, and everything in it is plain data."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.breaks_document import breaks_document
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.breaks.advice_lookup import CauseCase, CauseLesson, Lesson, Registered
from ctrace.inspector.knowledge.advice import AdviceEntry, Lifetime, Unadvised
from ctrace.reports.json.printer import render
from tests.support import sessions
from tests.support.explained import explained

# design: new names may come, old ones never change
NAMES = {
    "schema", "verdict", "environment", "target", "error", "scenarios", "graphs", "compilations", "coverage", "functions",
    "breaks", "skipped", "recompiles", "dangers", "limit", "fusion", "kernels", "time", "problems", "unknown",
    "causes", "advice",
}  # fmt: skip
INNER = {
    "environment": {"ctrace", "torch", "triton", "python", "device", "backend", "fast", "not_looked_at"},
    "target": {"path", "name"},
    "coverage": {"ops", "compiled"},
    "limit": {"hit", "functions"},
    "fusion": {"rounds", "nodes_before", "nodes_after"},
    "time": {"total", "phases"},
}
ITEMS = {
    "scenarios": {
        "name", "calls", "ops", "compiled", "kind", "outcome", "message", "recompiles", "compared", "not_compared",
    },
    "graphs": {"id", "function", "file", "line", "ops"},
    "functions": {"function", "file", "line", "graphs", "asked_for", "ops", "compiled"},
    "breaks": {
        "gb", "kind", "owner", "file", "line", "function", "source", "reason", "fix", "times", "compilations",
        "expression", "columns", "cost", "advice",
    },
    "skipped": {"function", "file", "line", "reason", "break", "rule", "fix", "cost"},
    "recompiles": {"compilation", "function", "file", "line", "expected", "causes"},
    "kernels": {"graph", "name", "language", "ops", "lines"},
}  # fmt: skip


@pytest.mark.parametrize("name", sessions.ALL)
def test_top_level_names(name: str) -> None:
    assert set(explained(sessions.ALL[name])) >= NAMES


def test_inner_names() -> None:
    data = explained(sessions.HEALTHY)
    for name, inner in INNER.items():
        assert set(data[name]) >= inner, name


@pytest.mark.parametrize("name", ITEMS)
def test_item_names(name: str) -> None:
    items = [item for session in (sessions.HEALTHY, sessions.PARTIAL) for item in explained(session)[name]]
    assert items
    for item in items:
        assert set(item) >= ITEMS[name]


def test_dangers() -> None:
    first, second = explained(sessions.DANGEROUS)["dangers"]
    assert (first["kind"], first["subject"], first["was"], first["now"]) == ("environment", "SCALE", "'1'", "'2'")
    assert (first["file"], first["line"], first["calls"], first["proven"]) == ("model.py", 9, 2, True)
    assert (second["subject"], second["file"], second["proven"]) == (None, None, False)


def test_results_not_compared_with_eager_are_null() -> None:
    assert explained(sessions.HEALTHY)["dangers"] is None
    assert explained(sessions.HEALTHY)["scenarios"][0]["compared"] is None


def test_scenarios_have_their_settings_and_outcomes() -> None:
    by_name = {each["name"]: each for each in explained(sessions.DANGEROUS)["scenarios"]}
    assert [by_name[name]["kind"] for name in ("base", "scaled", "eval")] == ["base", "given", "provoked"]
    assert [by_name[name]["recompiles"] for name in ("base", "dim0=1")] == [0, 1]
    assert by_name["dtype=float64"]["outcome"] == "not_taken"
    assert by_name["dim1=8"]["message"].startswith("ValueError")


def test_causes() -> None:
    cause = explained(sessions.PARTIAL)["recompiles"][0]["causes"][0]
    assert cause == {
        "kind": "size", "subject": "x.size(0)", "was": "4", "now": "8", "file": None, "line": None,
        "others": 0, "open": False, "fix": "Mark the dimension dynamic.",
        "reason": "", "expected": "", "advice": {"before": "", "after": "", "switch": "", "risk": ""},
    }  # fmt: skip


def test_paths_in_the_working_directory_are_relative() -> None:
    assert explained(sessions.HEALTHY)["graphs"][0]["file"] == "model.py"


def test_no_fusion_is_null_and_not_zero() -> None:
    assert explained(sessions.NOTHING)["fusion"] is None


def test_a_failure_says_what_and_where() -> None:
    assert explained(sessions.FAILED)["error"] == {
        "phase": "eager", "type": "ValueError", "message": "no such luck\nat all", "file": "model.py", "line": 12,
        "because": [],
    }  # fmt: skip


def test_a_break_has_its_cost_and_its_advice() -> None:
    found = explained(sessions.PARTIAL)["breaks"][0]
    assert (found["cost"], found["columns"]) == ({"ops": 2, "graphs": 1}, [0, 23])
    assert set(found["advice"]) == {"before", "after", "switch", "risk"}
    assert found["advice"]["after"] == "x = x + 1\nreturn x * 2\n"


def test_unknown_columns_and_costs_are_null() -> None:
    (found,) = explained(Session(breaks=(sessions.bare_break(),)))["breaks"]
    assert (found["columns"], found["cost"]) == (None, {"ops": None, "graphs": 0})


def test_a_skip_says_which_break_or_rule_it_is_for() -> None:
    caused, alone = explained(sessions.PARTIAL)["skipped"]
    assert (caused["break"], caused["rule"], caused["cost"]) == (1, "loop", {"ops": 6, "graphs": 1})
    assert (alone["break"], alone["rule"], alone["cost"]) == (None, "generator", {"ops": 1, "graphs": 0})


def test_functions() -> None:
    assert explained(sessions.PARTIAL)["functions"][1] == {
        "function": "slow", "file": "model.py", "line": 21, "graphs": 0, "asked_for": True, "ops": 8, "compiled": 2,
    }  # fmt: skip


class TestBreaks:
    def data(self, session: Session, owner: Owner | None = None) -> Any:
        text = render(breaks_document(session, owner))
        assert text.endswith("}\n")
        return json.loads(text)

    @pytest.mark.parametrize("name", sessions.ALL)
    def test_names(self, name: str) -> None:
        data = self.data(sessions.ALL[name])
        assert list(data) == ["schema", "verdict", "coverage", "breaks", "advice", "skipped", "functions", "problems"]
        whole = explained(sessions.ALL[name])
        same = [key for key in data if key not in ("breaks", "advice")]
        assert {key: data[key] for key in same} == {key: whole[key] for key in same}

    @pytest.mark.parametrize("name", sessions.ALL)
    def test_advice_is_that_of_explain_on_the_same_causes(self, name: str) -> None:
        whole = explained(sessions.ALL[name])
        kinds = ("break", "skip")
        ids = {one["id"] for one in whole["causes"] if any(each["what"] in kinds for each in one["symptoms"])}
        assert self.data(sessions.ALL[name])["advice"] == [
            each for each in whole["advice"] if ids & set(each["causes"])
        ]

    def test_the_costliest_break_is_first_and_keeps_its_number(self) -> None:
        found = self.data(sessions.PARTIAL)["breaks"]
        assert [(each["break"], each["line"]) for each in found] == [(1, 24), (0, 10)]
        whole = explained(sessions.PARTIAL)["breaks"]
        for each in found:
            assert {name: each[name] for name in whole[0]} == whole[each["break"]]

    def test_eager_ops_are_part_of_the_cost(self) -> None:
        worst, _ = self.data(sessions.PARTIAL)["breaks"]
        assert (worst["cost"], worst["cost_with_skips"]) == ({"ops": 0, "graphs": 0}, {"ops": 6, "graphs": 1})

    def test_every_path(self) -> None:
        assert self.data(sessions.PARTIAL)["breaks"][1]["paths"] == [
            [
                {"file": "train.py", "line": 31, "function": "main"},
                {"file": "model.py", "line": 10, "function": "forward"},
            ],
            [
                {"file": "evaluate.py", "line": 12, "function": "<module>"},
                {"file": "model.py", "line": 10, "function": "forward"},
            ],
        ]

    def test_breaks_of_one_owner(self) -> None:
        assert [each["break"] for each in self.data(sessions.PARTIAL, Owner.LIBRARY)["breaks"]] == [1]
        assert self.data(sessions.PARTIAL, Owner.TORCH)["breaks"] == []


class TestLessons:
    ENTRY = AdviceEntry("a branch", "It branches.", "Use torch.where.", "it", "a\n", "b\n", "torch.x = 1", "It may.")
    TOLD = Registered("GB0170", "Branching", "No.", ("Use `torch.cond`.",))

    def test_every_known_field(self) -> None:
        text = render(Lesson("GB0170", self.ENTRY, {"assert": self.ENTRY}, self.TOLD))
        entry = {
            "title": "a branch",
            "reason": "It branches.",
            "fix": "Use torch.where.",
            "advice": {"before": "a\n", "after": "b\n", "switch": "torch.x = 1", "risk": "It may."},
        }
        torch = {"title": "Branching", "explanation": "No.", "hints": ["Use `torch.cond`."]}
        known = {"unadvised": None, "versions": None, "torch": torch}
        assert json.loads(text) == {"schema": 1, "id": "GB0170", **entry, "cases": {"assert": entry}, **known}
        assert text.endswith("}\n")

    def test_unknown_fields_are_null(self) -> None:
        data = json.loads(render(Lesson("GB9999", None)))
        assert data == {
            "schema": 1, "id": "GB9999", "title": None, "reason": None, "fix": None, "advice": None, "cases": {},
            "unadvised": None, "versions": None, "torch": None,
        }  # fmt: skip

    def test_missing_advice_has_a_reason_and_versions(self) -> None:
        why, life = Unadvised("internal", "Torch checks itself."), Lifetime("2.14")
        data = json.loads(render(Lesson("GB9999", None, {}, None, why, "2.13", life)))
        assert data["unadvised"] == {"kind": "internal", "line": "Torch checks itself."}
        assert data["versions"] == {"installed": "2.13", "first": "2.14", "last": None, "raised_until": None}

    def test_a_kind_of_cause(self) -> None:
        cause = replace(self.ENTRY, expected="It happens once.")
        data = json.loads(render(CauseLesson("size", cause, {"size/rank": CauseCase(self.ENTRY)})))
        entry = {
            "title": "a branch",
            "reason": "It branches.",
            "fix": "Use torch.where.",
            "advice": {"before": "a\n", "after": "b\n", "switch": "torch.x = 1", "risk": "It may."},
        }
        cases = {"size/rank": {**entry, "expected": ""}}
        assert data == {"schema": 1, "kind": "size", **entry, "expected": "It happens once.", "cases": cases}
