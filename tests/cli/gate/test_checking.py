"""Files of a check when others write at the same time or the disk cannot be written."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.cli.gate import checking
from ctrace.cli.gate.check_request import CheckRequest
from ctrace.cli.gate.checking import NotUpdatedError, _broken_already, checked, started
from ctrace.cli.gate.reports import Reports
from ctrace.inspector.errors import PolicyError, RunError
from ctrace.inspector.features.check.check_model import JobKey, Lock
from ctrace.inspector.features.check.lock_file import load_lock, write_lock
from ctrace.inspector.files.writing import append_whole, write_new
from tests.support import outcomes
from tests.support.gated import lock_of, outcome_of, seen_of, state_with


def key(name: str) -> JobKey:
    return JobKey(f"{name}.py")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the running of models: each result has one graph."""

    def run(check: checking._Check) -> None:
        job = JobKey(check._request.models[0]) if check._request.models else key("a")
        check._seen = [seen_of(replace(state_with(graphs=1), job=job), job=job)]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checking._Check, "run", run)
    for name in "abcdefgh":
        (tmp_path / f"{name}.py").write_text("model = 1\ninputs = ()\n")
    return tmp_path


def test_concurrent_updates_lose_nothing(models: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: checked(CheckRequest((f"{name}.py",)), update=True), "abcdefgh"))
    (section,) = load_lock(models / "ctrace.lock").sections.values()
    assert set(section) == {key(name) for name in "abcdefgh"}


def test_an_update_applies_to_the_current_lock(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = checking._Check.run

    def slowly(check: checking._Check) -> None:
        run(check)
        write_lock(models / "ctrace.lock", lock_of(state_with(graphs=3), job=key("b")))

    monkeypatch.setattr(checking._Check, "run", slowly)
    checked(CheckRequest(("a.py",)), update=True, only_improve=True)
    (section,) = load_lock(models / "ctrace.lock").sections.values()
    assert set(section) == {key("a"), key("b")}


def test_an_unwritable_lock_is_unchanged_and_the_check_is_shown(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_lock(models / "ctrace.lock", Lock())
    before = (models / "ctrace.lock").read_bytes()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(NotUpdatedError, match="cannot be written: No space left") as caught:
        checked(CheckRequest(("a.py",)), update=True)
    assert [each.job for each in caught.value.outcome.checked] == [key("a")]
    assert (models / "ctrace.lock").read_bytes() == before
    assert not list(models.glob(".*"))


def test_only_one_of_several_writes_a_first_policy(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _path, **_more: False)  # both looked before either wrote

    def begin(name: str) -> str:
        try:
            started(CheckRequest((f"{name}.py",)))
        except PolicyError as error:
            return error.what
        return name

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(begin, "abcd"))
    (won,) = (each for each in results if each in "abcd")
    assert sorted(results) == sorted([won, *["ctrace.yaml already exists"] * 3])
    assert f"{won}.py" in (models / "ctrace.yaml").read_text()


def test_a_new_file_is_complete_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlinkable(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    write_new(tmp_path / "a", "1")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "a", "2")
    monkeypatch.setattr("os.link", unlinkable)
    write_new(tmp_path / "b", "1")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "b", "2")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"a": "1", "b": "1"}


def test_an_unwritable_report_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = outcome_of([seen_of(state_with(graphs=1))])
    reports = Reports(junit=Path("/dev/full"), sarif=tmp_path / "s.json", summary=Path("/dev/full"))
    with pytest.raises(RunError, match="/dev/full cannot be written: no space left on device"):
        reports.write(outcome)
    assert (tmp_path / "s.json").exists()
    shown = capsys.readouterr()
    assert "HOLDS" in shown.out
    assert "ctrace: /dev/full cannot be written" in shown.err


def test_appended_text_is_complete_or_missing(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    append_whole(file, b"a\n")
    append_whole(file, b"b\n")
    assert file.read_text() == "a\nb\n"
    with pytest.raises(OSError, match="No space"):
        append_whole(Path("/dev/full"), b"c\n")


def test_a_workflow_that_cannot_be_written_leaves_no_policy(models: Path) -> None:
    (models / ".github").write_text("a file in the place of the folder")
    with pytest.raises(PolicyError, match="cannot be written"):
        started(CheckRequest(("a.py",)), github=True)
    assert not (models / "ctrace.yaml").exists()


def test_a_first_policy_names_the_models_that_break_already() -> None:
    broken = outcomes.state(JobKey("models/mask.py"), outcomes.BRANCH)
    text = _broken_already(outcomes.outcome(outcomes.holding("a.py"), outcomes.holding("models/mask.py", state=broken)))
    assert text == "ctrace: already with graph breaks: models/mask.py (1)"
    assert not _broken_already(outcomes.HOLDS)
