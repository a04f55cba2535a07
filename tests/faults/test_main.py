"""The command that runs all studies."""

from tests.faults.__main__ import studies


def test_it_finds_every_study():
    assert len(studies()) == 12
