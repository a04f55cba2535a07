"""Short programs, each with one thing that torch.compile does not take whole, against what torch really does with it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrace.inspector.knowledge.releases import NEWEST, release_of, torch_version
from tests.integration.conftest import Command

HERE = Path(__file__).parent
MODELS = HERE / "models"
CASES: dict[str, dict[str, Any]] = {
    case["case"]: case for case in yaml.safe_load((HERE / "expected.yaml").read_text(encoding="utf-8"))
}


def test_each_program_has_an_expectation():
    assert {path.name for path in MODELS.glob("*.py")} == set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_situation(name: str, ctrace: Command):
    result = ctrace("explain", str(MODELS / name), "--json")
    case, report = _for_this_torch(CASES[name]), result.report
    recompiles = case["recompiles"]
    assert report["verdict"] == case["verdict"]
    assert len(report["graphs"]) == case.get("graphs", len(report["graphs"]))
    assert sorted(_break(each) for each in report["breaks"]) == sorted(_break(each) for each in case["breaks"])
    assert sorted(each["function"] for each in report["skipped"]) == sorted(case["skipped"])
    assert len(report["recompiles"]) == recompiles["count"]
    assert report["limit"]["hit"] == recompiles["limit_hit"]
    causes = [cause for each in report["recompiles"] for cause in each["causes"]]
    assert {each["kind"] for each in causes} == {each["kind"] for each in recompiles["causes"]}
    lines = {(each["kind"], each["line"]) for each in causes}
    assert {(each["kind"], each["line"]) for each in recompiles["causes"] if "line" in each} <= lines


def _for_this_torch(case: dict[str, Any]) -> dict[str, Any]:
    before, version = case.get("before", {}), torch_version()
    assert version is not None
    older = before and (release_of(version) or NEWEST) < (release_of(before["torch"]) or NEWEST)
    return {**case, **before} if older else case


def _break(each: dict[str, Any]) -> tuple[Any, ...]:
    return each["line"], each["owner"], each.get("kind", "break"), tuple(sorted(each["gb"]))
