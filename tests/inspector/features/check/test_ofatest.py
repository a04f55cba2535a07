"""Records of tests in the lock of `ctrace check`."""

from datetime import date

from ctrace.inspector.errors import Exit
from ctrace.inspector.features.check.check_model import Baseline, CheckedState, CheckJob, JobKey, Lock, SeenJob
from ctrace.inspector.features.check.judging import judged
from ctrace.inspector.features.check.policy_model import CheckPolicy, Count
from ctrace.inspector.features.check.ratchet import updated
from ctrace.inspector.runs.capture_request import Options

TEST, MODEL = JobKey("tests/test_net.py::test_net"), JobKey("net.py")
LOCK = Lock({"2.13": {key: Baseline({Count.GRAPHS: 1}) for key in (TEST, MODEL)}})


def test_they_do_not_vanish_where_only_models_are_checked_and_survive_an_update() -> None:
    seen = SeenJob(CheckJob(MODEL, "net.py", Options()), CheckedState(MODEL, "2.13", {Count.GRAPHS: 1}))
    outcome = judged([seen], CheckPolicy(), LOCK, date(2026, 1, 1))
    assert outcome.exit is Exit.DONE
    assert updated(outcome).sections == LOCK.sections
