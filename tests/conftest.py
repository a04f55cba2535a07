"""Process-wide settings for all tests."""

import gc
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The time of an example depends on the machine.
settings.register_profile("ctrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("ctrace"), max_examples=20)  # for `make check`
settings.load_profile("ctrace")

# A shell starts background jobs with Ctrl-C ignored, and child processes would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


gc.set_threshold(200_000, 100, 1000)  # while tests are collected: they stay alive to the end


def pytest_collection_finish() -> None:
    """Make full garbage collections rare: each looks at all that 14,000 tests and their sessions keep alive."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(autouse=True, scope="session")
def _state_of_tests(tmp_path_factory: pytest.TempPathFactory):
    """Keep the key that proves the origin of runs out of the user's home folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def warm_server() -> Iterator[Any]:
    """The server of forks for this process's tests; None where such forks would differ from new processes."""
    if sys.platform != "linux":
        yield None
        return
    warm = import_module("tests.support.warm")
    try:
        server = warm.WarmServer()
    except warm.RefusedError as refused:
        warnings.warn(f"each capture is a new process, which takes longer: {refused}", stacklevel=1)
        yield None
        return
    yield server
    server.close()


def _chromium() -> str | None:
    return os.environ.get("CTRACE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser: one for all tests, since Playwright starts once in a process; they are skipped without it."""
    sync = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install ctrace[browser])")
    path = _chromium()
    if path is None:
        pytest.skip("needs Chromium")
    with sync.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that ends with the test; one that is left open goes on asking a server that has ended."""
    opened = browser.new_page()
    yield opened
    opened.close()
