"""The one-line sentences of a check."""

import pytest

from ctrace.inspector.facts.sites import SiteKey, SiteKind
from ctrace.inspector.features.check.judging import NAMES, gone_site, named, new_site
from ctrace.inspector.features.check.policy_model import Count
from tests.support.gated import site


def test_every_count_has_a_name() -> None:
    assert NAMES.keys() == set(Count)


def test_a_site_that_came_and_one_that_went() -> None:
    key = site("if is_pad.any():", "deep/mask.py::Mask.forward", "GB0170").key
    assert new_site(key) == "+1 GB0170 deep/mask.py::Mask.forward"
    assert gone_site(key) == "-1 GB0170 deep/mask.py::Mask.forward"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (SiteKind.BREAK, "GB1+GB2"),
        (SiteKind.DISABLED, "disabled (GB1+GB2)"),
        (SiteKind.SKIP, "runs eagerly (GB1+GB2)"),
        (SiteKind.RECOMPILE, "recompile (GB1+GB2)"),
        (SiteKind.DANGER, "different results (GB1+GB2)"),
    ],
)
def test_a_site_is_named_by_its_kind(kind: SiteKind, words: str) -> None:
    key = SiteKey(kind, ("GB1", "GB2"), site().key.owner, "m.py::f", "")
    assert named(key) == f"{words} m.py::f"


def test_a_break_of_no_gb_id_is_a_break() -> None:
    assert named(SiteKey(SiteKind.BREAK, (), site().key.owner, "m.py::f", "x()")) == "break m.py::f"
