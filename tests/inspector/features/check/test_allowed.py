"""Entries of a policy that allow sites."""

from datetime import date, timedelta

import pytest

from ctrace.inspector.facts.sites import SiteKind
from ctrace.inspector.features.check.policy_model import Allow, allowing, allows, useless
from tests.support.gated import GB, TODAY, site

KEY = site("print('mean', x.mean())", "models/mask.py::Mask.forward").key


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        (Allow("", gb=GB), True),
        (Allow("", gb="GB0001"), False),
        (Allow("", place="models/mask.py::Mask.forward"), True),
        (Allow("", place="mask.py::Mask.forward"), True),
        (Allow("", place="ask.py::Mask.forward"), False),
        (Allow("", place="mask.py::Mask.*"), True),
        (Allow("", place="mask.py::M?sk.forward"), True),
        (Allow("", place="mask.py::[M]ask.forward"), False),
        (Allow("", place="*"), True),
        (Allow("", place=""), False),
        (Allow("", text='print("mean"'), True),
        (Allow("", text="x.mean( )"), True),
        (Allow("", text="x.sum()"), False),
        (Allow("", text=""), False),
        (Allow("", text="  "), False),
        (Allow("", gb=GB, text="x.sum()"), False),
        (Allow("", gb=GB, place="mask.py::*", text="x.mean()"), True),
        (Allow(""), False),
    ],
)
def test_all_that_an_entry_says_must_fit(entry: Allow, fits: bool) -> None:
    assert allows(entry, KEY) is fits


def test_brackets_of_a_folder_are_brackets() -> None:
    assert allows(Allow("", place="[a]/m.py::f"), site(place="x/[a]/m.py::f").key)


def test_one_of_several_gb_ids_is_enough() -> None:
    several = site().key.__class__(SiteKind.BREAK, ("GB0001", GB), KEY.owner, KEY.place, KEY.text)
    assert allows(Allow("", gb=GB), several)


@pytest.mark.parametrize(("days", "holds"), [(-1, False), (0, True), (1, True)])
def test_an_entry_holds_up_to_its_last_day(days: int, holds: bool) -> None:
    entry = Allow("", gb=GB, expires=TODAY + timedelta(days))
    assert allowing([entry], KEY, TODAY) == (entry if holds else None)


def test_an_entry_that_expired_does_not_stand_before_one_that_holds() -> None:
    old, new = Allow("old", gb=GB, expires=date(2020, 1, 1)), Allow("new", gb=GB)
    assert allowing([old, new], KEY, TODAY) is new


def test_entries_of_no_use_are_said() -> None:
    entries = [
        Allow("", gb=GB, line=3),
        Allow("", gb="GB0001", text="x", line=5),
        Allow("", gb=GB, expires=date(2020, 1, 1), line=7),
        Allow("", place="a.py::f", expires=date(2020, 1, 1), line=9),
    ]
    assert list(useless(entries, [KEY], TODAY)) == [
        "the allow entry in line 5 (GB0001 `x`) no longer matches anything; remove it",
        "the allow entry in line 7 (GB0059) expired on 2020-01-01: its site still exists",
        "the allow entry in line 9 (a.py::f) expired on 2020-01-01: nothing matches it; remove it",
    ]


def test_of_a_part_of_the_sites_nothing_is_said_that_the_rest_could_match() -> None:
    entries = [Allow("", gb="GB0001", line=5), Allow("", gb="GB0001", expires=date(2020, 1, 1), line=9)]
    assert list(useless(entries, [KEY], TODAY, are_all=False)) == [
        "the allow entry in line 9 (GB0001) expired on 2020-01-01"
    ]
