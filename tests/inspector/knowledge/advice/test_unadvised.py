"""Every gb id has an entry of advice or a line that says why there is none."""

import pytest
import yaml

from ctrace.inspector.findings.breaks.advice_lookup import registered_ids
from ctrace.inspector.knowledge.advice import Lifetime, entries, files_of, known_ids, lifetime, unadvised
from ctrace.inspector.knowledge.releases import NEWEST, release_of, torch_version

LISTED = [
    gb
    for kind, ids in yaml.safe_load(files_of("unadvised")[0].read_text(encoding="utf-8")).items()
    if kind in ("internal", "plain")
    for gb in ids
]
ADVISED = {key[:6] for key in entries("breaks") if key.startswith("GB")}


def test_every_id_is_in_exactly_one_place():
    assert len(LISTED) == len(set(LISTED))
    assert ADVISED.isdisjoint(LISTED)
    assert ADVISED | set(LISTED) <= set(known_ids())
    assert [gb for gb in known_ids() if gb not in ADVISED and unadvised(gb) is None] == []


def test_the_installed_torch_has_no_id_that_is_unknown():
    """Ids that a newer torch adds are unknown, and `--explain` says so; those of a supported torch are listed."""
    release = release_of(torch_version() or "")
    if release is None or release > NEWEST:
        pytest.skip("no torch, or one that is newer than the lists")
    assert set(registered_ids()) - set(known_ids()) == set()


def test_the_versions_of_an_id_are_those_of_the_installed_registry():
    release = release_of(torch_version() or "")
    if release is None or release > NEWEST:
        pytest.skip("no torch, or one that is newer than the lists")
    version = ".".join(map(str, release))
    there = {gb for gb in known_ids() if (life := lifetime(gb)) and not life.absence(version)}
    assert there == set(registered_ids())


def test_a_line_is_one_sentence_or_two():
    for gb in LISTED:
        why = unadvised(gb)
        assert why is not None
        assert why.line.endswith("."), gb
        assert why.line[0].isupper() or why.line.split("(")[0].split(" ")[0].isidentifier() or "." in why.line, gb
        assert len(why.line) <= 140, gb


@pytest.mark.parametrize(
    ("gb", "kind"), [("GB0027", "internal"), ("GB0304", "plain"), ("GB0023", "retired"), ("GB0075", "retired")]
)
def test_the_three_kinds(gb: str, kind: str):
    found = unadvised(gb)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize("gb", ["GB0170", "GB9999", "loop", ""])
def test_an_id_with_advice_and_an_unknown_one_have_no_line(gb: str):
    assert unadvised(gb) is None


@pytest.mark.parametrize(
    ("life", "torch", "absence"),
    [
        (Lifetime("2.14"), "2.13", "torch 2.14 and newer have it"),
        (Lifetime("2.14"), "2.14", ""),
        (Lifetime("2.9"), "2.13", ""),
        (Lifetime("2.11", last="2.13"), "2.15", "torch 2.13 and older have it"),
        (Lifetime("2.11", last="2.13"), "2.13", ""),
    ],
)
def test_when_a_torch_does_not_have_an_id(life: Lifetime, torch: str, absence: str):
    assert life.absence(torch) == absence


def test_an_id_that_torch_no_longer_raises():
    assert "until 2.12" in Lifetime("2.11", raised_until="2.12").retirement()
    assert "do not raise" in Lifetime("2.11", raised_until="none").retirement()
    assert Lifetime("2.11").retirement() == ""
