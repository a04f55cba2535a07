"""Twelve programs whose memory goes to a line that is known by construction."""

from typing import Any

import pytest

from tests.integration.conftest import Command
from tests.integration.memory_cases import CASES

QUICK = {"cross-entropy over a large vocabulary", "kept list of outputs", "states of the optimizer"}
"""The sample that runs with each `make test`."""


def first_line(report: dict[str, Any], where: str) -> int | None:
    """Return the line that is named first: of what is alive, the one that holds most of all kinds."""
    if where == "held":
        return report["held"][0]["holder_line"]
    if where == "eager_saved":
        return max(report["lines"], key=lambda each: each["eager_saved_bytes"])["line"]
    totals: dict[int | None, int] = {}
    for each in report[where]:
        totals[each["line"]] = totals.get(each["line"], 0) + each["bytes"]
    return max(totals, key=lambda line: totals[line])


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow, id=name) for name in CASES]
)
def test_the_line_is_named_first(name: str, ctrace: Command) -> None:
    case = CASES[name]
    ctrace.write(case.name, case.source)
    result = ctrace("memory", case.name, *case.options, "--json")
    assert result.code == 0, result.err
    report = result.report
    assert first_line(report, case.where) == case.line, (report["held"], report["alive"][:4], report["saved"][:4])
    assert sum(each["bytes"] for each in report["alive"]) + report["unattributed_bytes"] == report["peak"]["bytes"]
