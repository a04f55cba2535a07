"""`check --accuracy`: what a session with accuracy facts gives the check, and when it cannot be judged."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.sites import SiteKind
from ctrace.inspector.features.check.check_model import JobKey
from ctrace.inspector.features.check.check_state import state_of
from ctrace.inspector.features.check.jobs import jobs_of
from ctrace.inspector.features.check.lock_file import lock_text, parse_lock
from ctrace.inspector.features.check.policy_file import load_policy
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.features.check.trust import untrusted
from ctrace.reports.gate.gate_findings import headline, lines
from tests.support.compared import COMPARED, NOTHING_COMPARED, RELU, RIGHT
from tests.support.gated import checked_of, lock_of, seen_of, state
from tests.support.sessions import DANGEROUS, HEALTHY

MODEL = "import torch\nmodel = torch.nn.Linear(2, 2)\ndef inputs(): return (torch.ones(2),)\n"


def compared(**parts: object) -> Session:
    return replace(HEALTHY, accuracy=replace(COMPARED, **parts))


def test_a_culprit_is_a_site_with_its_dtype() -> None:
    found = state_of(compared(), JobKey("model.py"), Path("/work"))
    (site,) = (each for each in found.sites if each.key.kind is SiteKind.CULPRIT)
    assert (site.key.causes, site.key.text, site.line) == (("float32", "aten.relu"), "h = torch.relu(x)", 14)
    assert site.key.place.startswith("model.py::")
    assert site.reason.startswith("Off by 1 where eager is off by 0, in kernel")
    assert found.counts[Count.CULPRITS] == 1
    assert any("aten.rand draws random numbers" in each for each in found.notes)


def test_only_a_comparison_counts() -> None:
    for session in (HEALTHY, replace(HEALTHY, accuracy=NOTHING_COMPARED)):
        assert Count.CULPRITS not in state(session).counts
    assert state(replace(HEALTHY, accuracy=RIGHT)).counts[Count.CULPRITS] == 0


def test_the_lock_keeps_it() -> None:
    lock = lock_of(state(compared()))
    assert parse_lock(lock_text(lock), "ctrace.lock").sections == lock.sections
    assert '"culprit": ["float32", "aten.relu"]' in lock_text(lock)


def test_one_line_in_two_dtypes_is_two_sites_and_in_two_kernels_one() -> None:
    half = replace(RELU, dtype="bfloat16")
    again = replace(RELU, name="cpp_fused_relu_1", stage="backward")
    sites = state(compared(culprits=(RELU, half, again))).sites
    found = {each.key.causes[0]: each.times for each in sites if each.key.kind is SiteKind.CULPRIT}
    assert found == {"float32": 2, "bfloat16": 1}


@pytest.mark.parametrize(
    ("parts", "kinds"),
    [
        (NOTHING_COMPARED, ["not-measured"]),
        (replace(RIGHT, equal=False, result="wrong"), ["doubt"]),
        (RIGHT, []),
        (COMPARED, []),
        (replace(RIGHT, equal=None), []),
    ],
)
def test_what_cannot_be_judged(parts: object, kinds: list[str]) -> None:
    session = replace(HEALTHY, accuracy=parts)
    assert [str(each.kind) for each in untrusted(session)] == kinds


@pytest.mark.parametrize("session", [compared(), DANGEROUS], ids=["culprit", "danger"])
def test_every_finding_has_a_headline(session: Session) -> None:
    found = checked_of(seen_of(state(session)))
    assert found.findings
    for each in found.findings:
        assert headline(each)
        assert lines(each, found, None)
    if session is not DANGEROUS:
        (only,) = found.findings
        assert headline(only).startswith(
            "new line with wrong numbers: `h = torch.relu(x)` (+1 wrong numbers (aten.relu"
        )


def test_the_policy_chooses_the_models_to_compare(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(MODEL)
    policy = tmp_path / "ctrace.yaml"
    policy.write_text(
        "accuracy: true\nmodels:\n  - one.py\n  - {path: two.py, accuracy: false}\ntargets: [cpu, h100]\n"
    )
    jobs = jobs_of(load_policy(policy), tmp_path).jobs
    assert {(each.key.model, each.key.target): each.accuracy for each in jobs} == {
        ("one.py", "cpu"): True,
        ("one.py", "h100"): False,
        ("two.py", "cpu"): False,
        ("two.py", "h100"): False,
    }
