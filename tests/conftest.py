"""Process-wide settings for all tests."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# The time of an example depends on the machine.
settings.register_profile("ctrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ctrace")

# A shell starts background jobs with Ctrl-C ignored, and child processes would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _state_of_tests(tmp_path_factory: pytest.TempPathFactory):
    """Keep the key that proves the origin of runs out of the user's home folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
