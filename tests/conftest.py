"""What all tests need of the process that they run in."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is a matter of the machine.
settings.register_profile("ctrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ctrace")

# A shell starts what it runs in the background with Ctrl-C switched off, and our children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _state_of_tests(tmp_path_factory: pytest.TempPathFactory):
    """Keep the key that proves where runs were made out of the home folder of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
