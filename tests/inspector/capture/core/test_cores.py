"""Sharing cores among forks."""

import os
from pathlib import Path

import pytest

from ctrace.inspector.capture.core.forks import Cores

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs descriptors")


def test_it_leaves_no_descriptor() -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(10):
        Cores().close()
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_it_closes_nothing_of_the_programs() -> None:
    cores = Cores()
    pair = (cores._free, cores._back)
    for end in pair:
        os.close(end)
    file = os.open(os.devnull, os.O_RDONLY)
    assert file in pair
    cores.close()
    os.close(file)


def test_no_more_than_so_many_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    monkeypatch.delenv("CTRACE_CORES", raising=False)
    cores = Cores(3)
    assert [cores.take() for _ in range(3)] == [True, True, False]
    cores.release()
    assert cores.take()
    cores.close()
