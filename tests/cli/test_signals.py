"""Signals that end a command."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ctrace.cli import main
from ctrace.cli.streams import ending_in_order
from tests.support import inprocess
from tests.support.places import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no such signals")


@contextmanager
def handled(number: signal.Signals, by: signal.Handlers) -> Iterator[None]:
    """Start with a known handler, since the tests may run under nohup, which ignores a signal."""
    before = signal.signal(number, by)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_raise_and_handlers_are_restored(number: signal.Signals) -> None:
    with handled(number, signal.SIG_DFL):
        with pytest.raises(SystemExit) as ended, ending_in_order():
            signal.raise_signal(number)
        assert ended.value.code == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL


def test_a_hangup_that_is_ignored_stays_so() -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN), ending_in_order():
        signal.raise_signal(signal.SIGHUP)


class _Interrupted:
    """A class attribute whose name is set when a Ctrl-C arrives."""

    def __set_name__(self, _owner: type, _name: str) -> None:
        signal.raise_signal(signal.SIGINT)


def test_a_signal_during_an_import_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_prog_name: str | None) -> None:
        type("Imported", (), {"attribute": _Interrupted()})

    monkeypatch.setattr(main, "_run", run)
    ended = inprocess.ctrace("doctor")
    assert ended.code == 128 + signal.SIGINT
    assert ended.err == "ctrace: ended by SIGINT\n"


def test_a_failure_while_ending_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_prog_name: str | None) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise ValueError("broken")

    monkeypatch.setattr(main, "_run", run)
    ended = inprocess.ctrace("doctor")
    assert ended.code == 70
    assert "ValueError: broken" in ended.err


def test_ctrl_c_during_the_imports_shows_no_traceback() -> None:
    code = (
        f"import sys, types, signal; sys.path.insert(0, {str(ROOT)!r})\n"
        "sys.modules['ctrace.cli.main'] = types.SimpleNamespace(app=lambda **_: signal.raise_signal(signal.SIGINT))\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import ctrace.__main__\nctrace.__main__.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
