"""Where findings are."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.sites import Site
from ctrace.inspector.features.check.check_model import CheckedJob, CheckOutcome, FindingKind, GateFinding, JobKey, Lock
from ctrace.inspector.features.check.policy_model import CheckPolicy
from ctrace.reports.gate.gate_words import Spot, model_file, near, own_spot, site_spot, spot
from tests.support.outcomes import BRANCH, CWD, HOLDS, NOTHING

BELOW = CheckOutcome(CheckPolicy(file=f"{CWD}/ci/ctrace.yaml"), Lock(file="ci/ctrace.lock"))


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        (f"{CWD}/models/a.py", "models/a.py"),
        (f"{CWD}-other/a.py", f"{CWD}-other/a.py"),
        ("/usr/lib/x.py", "/usr/lib/x.py"),
        ("models/a.py", "ci/models/a.py"),
        ("../models/a.py", "models/a.py"),
        (f"{CWD}/ci/ctrace.yaml", "ci/ctrace.yaml"),
        ("ci/ctrace.lock", "ci/ctrace.lock"),
    ],
)
def test_a_file_is_shown_from_the_working_directory(file: str, shown: str) -> None:
    assert near(file, BELOW) == shown


def test_columns_count_from_the_start_of_the_line() -> None:
    at = site_spot(BRANCH, HOLDS)
    assert at == Spot("models/mask.py", 14, (12, 24))
    assert BRANCH.source[11:23] == "is_pad.any()"


@pytest.mark.parametrize(
    "site", [replace(BRANCH, source=""), replace(BRANCH, span=None), replace(BRANCH, span=(400, 410)), replace(BRANCH, span=(3, 3))]
)  # fmt: skip
def test_unknown_columns_are_left_out(site: Site) -> None:
    assert site_spot(site, HOLDS) == Spot("models/mask.py", 14)


def test_an_unknown_line_is_none() -> None:
    assert site_spot(replace(BRANCH, line=0), HOLDS) == Spot("models/mask.py")
    assert site_spot(replace(BRANCH, file=""), HOLDS) is None


def test_a_finding_without_a_place_is_at_its_model_or_the_policy() -> None:
    finding = GateFinding(FindingKind.TIMEOUT, "too slow")
    assert own_spot(finding, HOLDS) is None
    assert spot(finding, CheckedJob(JobKey("models/a.py:net")), BELOW) == Spot("ci/models/a.py")
    assert spot(finding, CheckedJob(JobKey("pack.net:model")), BELOW) == Spot("ci/ctrace.yaml")
    assert spot(finding, None, NOTHING) is None


@pytest.mark.parametrize(
    ("model", "file"),
    [("a.py", "a.py"), ("m/a.py:net", "m/a.py"), ("pack.net:model", None), ("pack.py:x.py", "pack.py"), ("m", None)],
)
def test_model_file(model: str, file: str | None) -> None:
    assert model_file(JobKey(model)) == file
