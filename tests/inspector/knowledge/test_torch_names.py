"""The tables of releases agree with the installed torch, and with each other."""

import re
from importlib import import_module

import pytest

from ctrace.inspector.knowledge.releases import (
    NEWEST,
    OLDEST,
    RELEASES,
    is_untried,
    release_of,
    torch_version,
    triton_of,
)
from ctrace.inspector.knowledge.torch_names import NAMES, TorchName
from ctrace.inspector.knowledge.version_differences import DIFFERENCES, VersionDifference
from tests.support.places import ROOT

OLD = TorchName("a thing", (((2, 14), "newer"), ((2, 12), "old"), ((2, 11), "")), "a.py")


def owner_of(name: TorchName) -> object:
    """Import the module that a row names, and its class, if any."""
    file, _, inside = name.source.partition(", ")
    module = import_module(f"torch.{file.removesuffix('.py').replace('/', '.')}")
    return getattr(module, inside) if inside else module


def in_release(name: TorchName, version: str) -> str:
    """Return the name in a release; empty if the release has no such thing. An unknown version counts as the newest."""
    release = release_of(version)
    return next((spelled for since, spelled in name.spelled if release is None or since <= release), "")


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.what)
def test_the_installed_torch_has_the_name_that_its_row_says(name: TorchName) -> None:
    version = torch_version()
    assert version is not None
    assert (name.of(owner_of(name)) or "") == in_release(name, version)


class Owner:
    old = newer = 1


@pytest.mark.parametrize(
    ("version", "name"), [("2.11.0", ""), ("2.12.1", "old"), ("2.13.0", "old"), ("2.15.0", "newer"), ("git", "newer")]
)
def test_a_release_has_the_newest_name_that_it_knows(version: str, name: str) -> None:
    assert in_release(OLD, version) == name


def test_the_first_name_that_is_there_counts() -> None:
    assert OLD.of(Owner) == "newer"
    assert OLD.of(object()) is None
    with pytest.raises(AttributeError, match=r"this torch has no newer or old: a thing \(a.py\)"):
        OLD.needed_of(object())


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.what)
def test_rows_begin_with_the_newest_release_and_reach_the_oldest(name: TorchName) -> None:
    releases = [since for since, _ in name.spelled]
    assert releases == sorted(releases, reverse=True)
    assert releases[-1] == OLDEST
    assert releases[0] <= NEWEST


@pytest.mark.parametrize("each", DIFFERENCES, ids=lambda each: each.name)
def test_a_difference_begins_or_ends_with_a_supported_release(each: VersionDifference) -> None:
    assert each.since or each.until
    for release in filter(None, (each.since, each.until)):
        assert OLDEST <= release <= NEWEST
    assert each.what.endswith(".")
    assert each.effect.endswith(".")
    since = each.since or OLDEST
    assert each.holds(f"{since[0]}.{since[1]}.0")


def test_a_difference_holds_from_its_first_release_to_its_last() -> None:
    each = VersionDifference("x", (2, 12), (2, 14), "A.", "B.", "c.py")
    assert [each.holds(version) for version in ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "git")] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert each.range == "2.12 to before 2.14"


def test_releases_are_in_order_and_the_constraints_name_one_of_them() -> None:
    assert [each.minor for each in RELEASES] == sorted(each.minor for each in RELEASES)
    pinned = dict(re.findall(r"^(torch|triton)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert pinned in [{"torch": each.torch, "triton": each.triton} for each in RELEASES]


@pytest.mark.parametrize(
    ("version", "triton"), [("2.13.0+cpu", "3.7.1"), ("2.15.0", "3.9.0"), ("2.12.0", None), ("2.99", None), ("", None)]
)
def test_a_torch_names_its_triton(version: str, triton: str | None) -> None:
    assert triton_of(version) == triton


def test_what_is_newer_is_untried() -> None:
    assert (is_untried("2.15.3+cpu"), is_untried("2.16.0a0"), is_untried("local")) == (False, True, False)
    assert (release_of("2.15.0+cu132"), release_of("main")) == ((2, 15), None)
