"""A call with odd inputs is ended by the time that it works, not by that of a busy machine."""

import time

import pytest

from ctrace.inspector.facts.trial import ProofRequest
from ctrace.inspector.features.fix.child import probing
from ctrace.inspector.features.fix.child.probing import CallTooLongError, ending_after, limit_of

_SHORT = 0.01


def _works_for_ever() -> None:
    while True:
        pass


def test_a_call_that_works_too_long_ends() -> None:
    with pytest.raises(CallTooLongError), ending_after(_SHORT):
        _works_for_ever()


def test_a_call_that_waits_for_a_core_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_WAITS", 1e6)
    with ending_after(_SHORT):
        time.sleep(5 * _SHORT)


def test_a_call_that_waits_for_ever_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_WAITS", 1.0)
    with pytest.raises(CallTooLongError), ending_after(_SHORT):
        time.sleep(60)


def test_what_ended_once_has_time_for_references_in_a_later_run() -> None:
    """Those are made within the same call: a call that ended just in time was refused for them."""
    first = limit_of(ProofRequest("observed.json"), slowest=1.0)
    again = limit_of(ProofRequest("observed.json", probes=("x",)), slowest=1.0)
    with_references = limit_of(ProofRequest("observed.json", against="values"), slowest=1.0)
    assert first < again < with_references
