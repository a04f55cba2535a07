"""The results of the fixture `ctrace`, with handmade sessions instead of captures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.cli.gate.fixture import Checks
from ctrace.inspector import api
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.check.check_model import Baseline, JobKey, Lock
from ctrace.inspector.features.check.lock_file import load_lock, write_lock
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.features.check.ratchet import LockOfTests
from tests.support.sessions import HEALTHY, PARTIAL

NODE = "tests/test_net.py::test_net"
NET: Any = object()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[Session], None]:
    """Return a function that sets the session of all later captures."""

    def show(session: Session) -> None:
        monkeypatch.setattr(api, "observe", lambda *_args, **_more: session)

    show(HEALTHY)
    return show


def _checks(root: Path, *, update: bool = False) -> tuple[Checks, LockOfTests]:
    lock = LockOfTests(root / "ctrace.lock", root)
    return Checks(NODE, lock, root, update=update), lock


def _failure(checks: Checks, **numbers: Any) -> str:
    with pytest.raises(pytest.fail.Exception) as failed:
        checks.check(NET, **numbers)
    return str(failed.value)


def _written(root: Path, session: Session, show: Callable[[Session], None], *names: str | None) -> set[str]:
    """Record checks of these names in the lock; return the lock's entries."""
    (root / "tests").mkdir(exist_ok=True)
    (root / "tests" / "test_net.py").touch()
    show(session)
    checks, lock = _checks(root, update=True)
    for name in names:
        assert checks.check(NET, name=name) is session
    lock.write()
    return {key.model for jobs in load_lock(lock.path).sections.values() for key in jobs}


@pytest.mark.usefixtures("shown")
def test_a_healthy_model_passes_and_an_unknown_check_is_noted(tmp_path: Path) -> None:
    checks, lock = _checks(tmp_path)
    assert checks.check(NET) is HEALTHY
    assert lock.unknown == {NODE}


@pytest.mark.usefixtures("shown")
def test_with_numbers_the_lock_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "ctrace.lock").write_text("garbage\n")
    checks, lock = _checks(tmp_path)
    checks.check(NET, graph_breaks=0)
    assert not lock.unknown


def test_numbers_are_limits_and_missing_ones_are_strict(tmp_path: Path, shown: Callable[[Session], None]) -> None:
    shown(PARTIAL)
    checks, _ = _checks(tmp_path)
    text = _failure(checks, graph_breaks=0)
    assert text.startswith(f"WORSE  {NODE}\n")
    assert "the limit is 0" in text
    assert "--ctrace-update" not in text
    assert "GB" in _failure(checks, graphs=100)


def test_the_lock_decides_without_numbers(tmp_path: Path, shown: Callable[[Session], None]) -> None:
    assert _written(tmp_path, PARTIAL, shown, None, None, "wide") == {NODE, f"{NODE}#2", f"{NODE}#wide"}
    checks, lock = _checks(tmp_path)
    for name in (None, None, "wide"):
        checks.check(NET, name=name)
    assert not lock.unknown
    assert "ctrace.lock has no entry for this check" in _failure(checks, name="other").replace("\n", " ")


def test_no_two_checks_share_an_entry_of_the_lock(tmp_path: Path, shown: Callable[[Session], None]) -> None:
    checks, _ = _checks(tmp_path, update=True)
    for name in (None, "2"):
        checks.check(NET, name=name)
    assert "a check named 2" in _failure(checks), "the second one without a name is #2, too"
    assert _written(tmp_path, HEALTHY, shown, "#2", None, None) == {f"{NODE}##2", NODE, f"{NODE}#2"}


def test_worse_than_the_lock_says_how_to_keep_it(tmp_path: Path, shown: Callable[[Session], None]) -> None:
    _written(tmp_path, HEALTHY, shown, None)
    shown(PARTIAL)
    text = _failure(_checks(tmp_path)[0])
    assert "\n1. new graph break (+1 " in text
    assert text.replace("\n", " ").endswith(f"the current state in {tmp_path / 'ctrace.lock'}: pytest --ctrace-update")


@pytest.mark.usefixtures("shown")
def test_a_lock_of_other_versions_of_torch_is_not_green(tmp_path: Path) -> None:
    write_lock(tmp_path / "ctrace.lock", Lock({"1.0": {JobKey(NODE): Baseline({Count.GRAPHS: 1})}}))
    text = _failure(_checks(tmp_path)[0])
    assert "no section for torch" in " ".join(text.split())
    assert "pytest --ctrace-update" in text
    assert "ctrace check --update" not in text


def test_untrusted_results_are_not_recorded(tmp_path: Path, shown: Callable[[Session], None]) -> None:
    shown(replace(HEALTHY, graphs=()))
    checks, lock = _checks(tmp_path, update=True)
    assert _failure(checks).startswith("NOT TRUSTED")
    assert not lock.kept


@pytest.mark.usefixtures("shown")
def test_a_lock_that_cannot_be_read_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "ctrace.lock").write_text("garbage\n")
    assert "line 1" in _failure(_checks(tmp_path)[0])


@pytest.mark.usefixtures("shown")
def test_invalid_calls_fail_in_two_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, _ = _checks(tmp_path)
    checks.check(NET, name="wide")
    assert _failure(checks, name="wide").splitlines()[1].startswith("→ ")
    assert "calls=1" in _failure(checks, calls=1)

    def refuse(*_args: object, **_more: object) -> Session:
        raise TargetError("what", "do this")

    monkeypatch.setattr(api, "observe", refuse)
    assert _failure(checks) == "what\n→ do this"
