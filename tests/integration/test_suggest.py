"""`ctrace check --suggest`: a proved repair beside a new finding, in all reports of one check."""

import json
from pathlib import Path

import pytest

from tests.integration.conftest import Command
from tests.integration.test_fix import BRANCH
from tests.reports.gate.test_sarif import VALIDATOR
from tests.reports.gate.test_suggestions import applied

pytestmark = pytest.mark.integration

PRINT = BRANCH.replace("        if h.sum() > 0:\n            y = h * 2\n        else:\n            y = h * 3\n", "")
PRINT = PRINT.replace("        return y\n", "        print('mean')\n        return h\n")


@pytest.mark.long
def test_a_new_break_gets_its_repair(ctrace: Command, tmp_path: Path):
    (tmp_path / "net.py").write_text(BRANCH)
    ran = ctrace("check", "net.py", "--suggest", "--json", "-o", "r.json", "--sarif", "s.sarif", "--summary", "s.md")
    assert ran.code == 1, ran.err
    (finding,) = json.loads((tmp_path / "r.json").read_text())["jobs"][0]["findings"]
    found = finding["suggestion"]
    assert (found["proved"], found["repair"], found["kind"]) == (True, "tensor_branch", "source")
    assert "ctrace fix net.py --only tensor_branch --finding net.py:11 --apply" in found["command"]
    sarif = json.loads((tmp_path / "s.sarif").read_text())
    VALIDATOR.validate(sarif)
    (result,) = sarif["runs"][0]["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    after = applied(BRANCH, change["replacements"])
    assert "y = torch.where(h.sum() > 0, h * 2, h * 3)" in after
    assert "```suggestion\n        y = torch.where(" in (tmp_path / "s.md").read_text()
    assert (tmp_path / "net.py").read_text() == BRANCH
    (tmp_path / "net.py").write_text(after)
    assert ctrace("check", "net.py").code == 0


@pytest.mark.long
def test_a_repair_with_a_question_is_no_fix(ctrace: Command, tmp_path: Path):
    (tmp_path / "net.py").write_text(PRINT)
    ran = ctrace("check", "net.py", "--suggest", "--sarif", "s.sarif")
    assert ran.code == 1, ran.err
    (result,) = json.loads((tmp_path / "s.sarif").read_text())["runs"][0]["results"]
    text = " ".join(ran.out.split())
    assert ("fixes" in result) == ("→ Proved repair:" in text)
    assert "Proved" in text


@pytest.mark.long
def test_a_budget_that_is_too_small_is_said(ctrace: Command, tmp_path: Path):
    (tmp_path / "net.py").write_text(BRANCH)
    ran = ctrace("check", "net.py", "--suggest", "--budget", "0.1s", "--json")
    found = json.loads(ran.out)["jobs"][0]["findings"][0]["suggestion"]
    assert ran.code == 1
    assert not found["proved"]
    assert found["why"]
