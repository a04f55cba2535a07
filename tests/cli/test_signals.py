"""Signals that end a command."""

import os
import signal

import pytest

from ctrace.cli.signals import ending_in_order

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no such signals")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_they_raise_and_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, ending_in_order():
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is before


def test_a_hangup_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_in_order():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
