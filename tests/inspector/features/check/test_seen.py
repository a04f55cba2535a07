"""The lock for checks in tests."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctrace.inspector.errors import LockError
from ctrace.inspector.features.check.check_model import Baseline, JobKey, Lock
from ctrace.inspector.features.check.lock_file import load_lock, write_lock
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.features.check.ratchet import LockOfTests

MODEL = JobKey("models/net.py", "wide")
NET, GONE = JobKey("tests/test_net.py::test_net[1-a b#c]"), JobKey("tests/test_gone.py::test_gone")


def _lock(*keys: JobKey, graphs: int = 1, torch: str = "2.13") -> Lock:
    return Lock({torch: {key: Baseline({Count.GRAPHS: graphs}) for key in keys}})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_net.py").touch()
    return tmp_path


def _of(root: Path) -> LockOfTests:
    return LockOfTests(root / "ctrace.lock", root)


def test_what_was_seen_is_put_into_the_file_beside_what_is_there(root: Path) -> None:
    write_lock(root / "ctrace.lock", Lock({**_lock(MODEL, NET).sections, **_lock(NET, torch="2.12").sections}))
    lock = _of(root)
    lock.keep(_lock(NET, graphs=2))
    assert lock.write()
    sections = load_lock(root / "ctrace.lock").sections
    assert sections["2.12"] == _lock(NET).sections["2.13"]
    assert sections["2.13"] == {MODEL: Baseline({Count.GRAPHS: 1}), NET: Baseline({Count.GRAPHS: 2})}


def test_tests_whose_file_is_gone_are_forgotten_and_models_are_not(root: Path) -> None:
    write_lock(root / "ctrace.lock", _lock(MODEL, GONE))
    lock = _of(root)
    lock.keep(_lock(NET))
    assert lock.write()
    assert set(load_lock(root / "ctrace.lock").sections["2.13"]) == {MODEL, NET}


def test_nothing_new_leaves_the_file_alone(root: Path) -> None:
    write_lock(root / "ctrace.lock", _lock(NET))
    before = (root / "ctrace.lock").stat().st_mtime_ns
    lock = _of(root)
    lock.keep(_lock(NET))
    assert not lock.write()
    assert (root / "ctrace.lock").stat().st_mtime_ns == before


def test_processes_hand_over_what_they_saw(root: Path) -> None:
    first, second, whole = _of(root), _of(root), _of(root)
    first.keep(_lock(NET))
    first.unknown.add("a")
    second.keep(_lock(NET, torch="2.12"))
    second.keep(_lock(JobKey("tests/test_net.py::test_two")))
    for each in (first, second):
        whole.take(each.to_text())
    assert whole.kept == 3
    assert whole.unknown == {"a"}


def test_a_lock_that_cannot_be_read_is_not_written_over(root: Path) -> None:
    (root / "ctrace.lock").write_text("<<<<<<< ours\n")
    lock = _of(root)
    lock.keep(_lock(NET))
    with pytest.raises(LockError, match="line 1"):
        lock.write()
    assert (root / "ctrace.lock").read_text() == "<<<<<<< ours\n"


def test_two_that_write_at_once_lose_nothing(root: Path) -> None:
    (root / "tests" / "test_many.py").touch()
    keys = [JobKey(f"tests/test_many.py::test_{number}") for number in range(24)]

    def write(key: JobKey) -> None:
        lock = _of(root)
        lock.keep(_lock(key))
        lock.write()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, keys))
    assert set(load_lock(root / "ctrace.lock").sections["2.13"]) == set(keys)
    assert [each.name for each in root.iterdir() if each.name.startswith(".")] == []
