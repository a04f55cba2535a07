"""How a gate says things in one line."""

import pytest

from ctrace.inspector.findings import Cost
from ctrace.inspector.gate.model import Count, SiteKey, SiteKind
from ctrace.inspector.gate.sentences import NAMES, more_times, named, new_site, short_place
from tests.gated import site


def test_every_count_has_a_name() -> None:
    assert NAMES.keys() == set(Count)


@pytest.mark.parametrize(
    ("cost", "graphs", "rest"),
    [
        (Cost(14, 1), 3, " splits 2 graphs into 3, 14 ops now eager"),
        (Cost(1, 1), 2, " splits 1 graph into 2, 1 op now eager"),
        (Cost(None, 1), None, ""),
        (Cost(0, 0), 3, ""),
        (Cost(None, 3), 3, ""),
    ],
)
def test_a_new_site_is_said_with_what_it_costs(cost: Cost, graphs: int | None, rest: str) -> None:
    found = site("if is_pad.any():", "deep/mask.py::Mask.forward", "GB0170", cost=cost)
    assert new_site(found, graphs) == f"+1 GB0170 mask.py::Mask.forward `if is_pad.any():`{rest}"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (SiteKind.BREAK, "GB1+GB2"),
        (SiteKind.DISABLED, "disabled (GB1+GB2)"),
        (SiteKind.SKIP, "left in eager (GB1+GB2)"),
        (SiteKind.RECOMPILE, "recompile (GB1+GB2)"),
        (SiteKind.DANGER, "other results (GB1+GB2)"),
    ],
)
def test_a_site_is_named_by_its_kind(kind: SiteKind, words: str) -> None:
    key = SiteKey(kind, ("GB1", "GB2"), site().key.owner, "m.py::f", "")
    assert named(key) == f"{words} m.py::f"


def test_a_break_of_no_gb_id_is_a_break() -> None:
    assert named(SiteKey(SiteKind.BREAK, (), site().key.owner, "m.py::f", "x()")) == "break m.py::f `x()`"


def test_a_place_without_a_file_is_its_name() -> None:
    assert short_place("::f") == "f"


def test_more_times_says_both_numbers() -> None:
    assert more_times(site(times=3), 2) == "GB0059 model.py::Net.forward `print(x)` happens 3 times, not 2"
