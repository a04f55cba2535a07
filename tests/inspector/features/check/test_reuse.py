"""Saved results of a check: which changes invalidate one, and which do not."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.sites import Site, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import (
    CheckedState,
    CheckJob,
    FindingKind,
    FinishedJob,
    GateFinding,
    JobKey,
    SeenJob,
)
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.features.check.reuse import FOLDER, Reuse, reuse_note
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.circumstances import file_digest

KEY = JobKey("net.py")
SITE = Site(SiteKey(SiteKind.BREAK, ("GB0059",), Owner.USER, "net.py::f", "print(x)"), 2, "net.py", 3, span=(0, 5))
STATE = CheckedState(KEY, "2.13", {Count.GRAPHS: 2, Count.BREAKS: 1}, 90.0, (SITE,), notes=("a note",))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckJob:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("net.py").write_text("model = 1\n")
    Path("size.txt").write_text("4\n")
    return CheckJob(KEY, "net.py", Options(trace_only=True))


def files() -> dict[str, str]:
    return {str(Path(name).absolute()): file_digest(Path(name)) for name in ("net.py", "size.txt")}


def reuse(owned: tuple[str, ...] = ()) -> Reuse:
    return Reuse(Path(".ctrace"), Path.cwd(), owned)


def keep(job: CheckJob, seen: SeenJob | None = None, **changes: Any) -> None:
    ran = FinishedJob(job, Session(made_of=files()), seconds=2.0, run="20260101-120000-net")
    reuse().keep(replace(ran, **changes), seen or SeenJob(job, STATE, run="20260101-120000-net"))


def saved() -> list[Path]:
    return list((Path(".ctrace") / FOLDER).glob("*"))


def test_the_result_of_an_unchanged_job_is_found(job: CheckJob) -> None:
    assert reuse().find(job) is None
    keep(job)
    assert reuse().find(job) == SeenJob(job, STATE, is_reused=True)
    found = reuse().find(job)
    assert found is not None
    assert found.state is not None
    assert set(map(type, found.state.counts)) == {Count}


def test_a_result_of_another_seed_is_not_found(job: CheckJob, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(job)
    monkeypatch.setattr("ctrace.inspector.features.check.reuse.SEED", 1)
    assert reuse().find(job) is None


def test_its_run_is_named_while_it_is_there(job: CheckJob) -> None:
    keep(job)
    run = Path(".ctrace/20260101-120000-net/run.json")
    run.parent.mkdir(parents=True)
    run.write_text("{}")
    found = reuse().find(job)
    assert found is not None
    assert found.run == "20260101-120000-net"


def _replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda _patch: Path("net.py").write_text("model = 2\n"),
        lambda _patch: Path("size.txt").write_text("5\n"),
        lambda _patch: Path("size.txt").unlink(),
        lambda _patch: _replace_by_pipe(Path("size.txt")),
        lambda patch: patch.setenv("TORCH_LOGS", "x"),
        lambda patch: patch.setenv("TRITON_INTERPRET", "1"),
        lambda patch: patch.setenv("CTRACE_CORES", "1"),
        lambda patch: patch.syspath_prepend(_with_library()),
        lambda patch: patch.setattr("sys.version", "4.0"),
        lambda patch: patch.setattr("ctrace.inspector.runs.circumstances.__version__", "99"),
        lambda _patch: Path("pyproject.toml").write_text('[tool.ctrace]\nowned = ["net.py"]\n'),
    ],
)
def test_any_change_of_what_it_depends_on_counts(change: Any, job: CheckJob, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(job)
    change(monkeypatch)
    assert reuse().find(job) is None


def _with_library() -> str:
    Path("site/new_library-1.0.dist-info").mkdir(parents=True)
    return str(Path("site").absolute())


def test_other_options_are_another_result(job: CheckJob) -> None:
    keep(job)
    assert reuse().find(replace(job, options=Options(trace_only=True, train=True))) is None
    assert reuse().find(replace(job, key=JobKey("net.py", "train"))) is None
    assert reuse(("lib",)).find(job) is None
    assert reuse().find(replace(job, timeout=5.0)) is not None, "limits are judged again"


def test_any_variable_counts_for_a_model_that_reads_some(job: CheckJob, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(job)
    monkeypatch.setenv("SIZE", "4")
    assert reuse().find(job) is not None
    Path("net.py").write_text("import os\nmodel = os.getenv('SIZE')\n")
    keep(job)
    assert reuse().find(job) is not None
    monkeypatch.setenv("SIZE", "5")
    assert reuse().find(job) is None


@pytest.mark.parametrize(
    ("seen", "changes"),
    [
        ({"doubts": (GateFinding(FindingKind.DOUBT, "x"),)}, {}),
        ({"doubts": (GateFinding(FindingKind.TIMEOUT, "x"),), "has_ended": False}, {}),
        ({"has_ended": False}, {}),
        ({"state": None}, {}),
        ({}, {"left": ("sleep (12)",)}),
        ({}, {"session": None}),
        ({}, {"error": TargetError("x", "y")}),
        ({}, {"session": Session()}),
        ({}, {"session": Session(made_of={"/etc/hostname": ""})}),
    ],
)
def test_an_incomplete_result_is_not_saved(seen: dict[str, Any], changes: dict[str, Any], job: CheckJob) -> None:
    keep(job, replace(SeenJob(job, STATE), **seen), **changes)
    assert saved() == []


def test_an_incomplete_result_ends_an_earlier_one(job: CheckJob) -> None:
    keep(job)
    keep(job, SeenJob(job, STATE, doubts=(GateFinding(FindingKind.DOUBT, "x"),)))
    assert reuse().find(job) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"breaks": 1', '"breaks": 0'),
        lambda text: text.replace("net.py::f", "other.py::f"),
        lambda text: text[:-20],
        lambda text: json.dumps({**json.loads(text), "proof": "0" * 64}),
        lambda text: json.dumps({**json.loads(text), "proof": None}),
        lambda text: json.dumps({key: value for key, value in json.loads(text).items() if key != "proof"}),
        lambda _text: "[]",
        lambda _text: "",
        lambda _text: "[" * 100_000,
    ],
)
def test_a_result_that_somebody_else_wrote_does_not_count(damage: Any, job: CheckJob) -> None:
    keep(job)
    (file,) = saved()
    file.write_text(damage(file.read_text()))
    assert reuse().find(job) is None


def test_a_result_of_another_folder_or_user_does_not_count(
    job: CheckJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(job)
    (file,) = saved()
    other = Path("clone") / FOLDER / file.name
    other.parent.mkdir(parents=True)
    other.write_text(file.read_text())
    assert Reuse(Path("clone"), Path.cwd(), ()).find(job) is None
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert reuse().find(job) is None


def test_a_pipe_in_place_of_a_result_does_not_stop_a_check(job: CheckJob) -> None:
    keep(job)
    (file,) = saved()
    file.unlink()
    os.mkfifo(file)
    began = time.monotonic()
    assert reuse().find(job) is None
    assert time.monotonic() - began < 10


def test_a_folder_that_cannot_be_written_costs_only_the_saving(job: CheckJob) -> None:
    Path(".ctrace").write_text("in the way")
    keep(job)
    assert reuse().find(job) is None


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ({JobKey("a"): False}, ""),
        ({JobKey("a"): True}, "1 of 1 model unchanged"),
        ({JobKey("a"): True, JobKey("b"): False}, "1 of 2 models unchanged"),
        ({JobKey("a"): True, JobKey("a", "train"): True}, "2 of 2 jobs unchanged"),
    ],
)
def test_the_note_counts_what_was_reused(jobs: dict[JobKey, bool], text: str) -> None:
    assert reuse_note(jobs).startswith(text)
    assert bool(reuse_note(jobs)) == bool(text)
