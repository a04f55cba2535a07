"""The working directory of all reports of a check."""

from pathlib import Path

import pytest

from ctrace.reports.gate import gate_words
from tests.support.outcomes import CWD


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_words, "cwd", lambda: Path(CWD))
